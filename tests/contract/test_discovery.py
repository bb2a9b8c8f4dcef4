"""From the links of pages to the queues of their hosts, over a real Redis."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from crawlproj.discover.checking import CheckingDiscovery
from crawlproj.discover.closer_reading import CloserReading, make_closer_reading
from crawlproj.discover.discovery import Discovery
from crawlproj.discover.rules import Rules
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.messages import Lease
from crawlproj.frontier.outcomes import Attempt
from crawlproj.frontier.plan import Plan
from crawlproj.frontier.records import encode_link, summarise
from crawlproj.running import ReadPage
from crawlproj.server.connection import connect
from crawlproj.urls import normalise
from crawlproj.worker.exchange import Worker
from tests.contract.discovering import (
    Collecting,
    a_worker,
    an_offline_worker,
    discovery_of,
    followed,
)
from tests.servers.redis import RedisServer


async def queued_after(redis_url: str, pages: dict[str, list[str]]) -> set[str]:
    """The URLs in the frontier once a worker has read pages with these links, one by one."""
    client = await connect(redis_url)
    frontier = Frontier(client, "c", "w")
    await frontier.open(Plan(per_host=100, seen_capacity=1000), "run")
    await frontier.renew(60_000, {})
    worker = a_worker(frontier)
    discovery = discovery_of(worker)
    for page, hrefs in pages.items():
        discovery.follow(hrefs, normalise(page), 1, page)
        await worker.flush()
    leases = (await frontier.lease(100)).leases
    await client.aclose()
    return {summarise(lease.host, lease.entry).url for lease in leases}


def made_normal(monkeypatch: pytest.MonkeyPatch, discovery: Discovery) -> list[str]:
    """The links that are resolved and judged from now on."""
    asked: list[str] = []
    made = discovery.normal
    monkeypatch.setattr(
        discovery, "normal", lambda href, *of: asked.append(href) or made(href, *of)
    )
    return asked


@pytest.mark.parametrize("href", ["http.client.html", "https-setup/", "httpd", "http:page", "os"])
async def test_a_relative_link_is_another_page_in_another_folder_however_often_it_was_met(
    redis_server: RedisServer, href: str
) -> None:
    pages = ["http://a/1/x", "http://a/1/y", "http://a/1/z", "http://a/2/x", "http://b/1/x"]
    found = await queued_after(redis_server.url, {page: [href] for page in pages})
    target = href.removeprefix("http:")
    assert found == {f"http://a/1/{target}", f"http://a/2/{target}", f"http://b/1/{target}"}


@pytest.mark.parametrize("href", ["?a", "http:?a", "\x01?a"])
async def test_a_query_alone_belongs_to_its_page_however_often_it_was_met(
    redis_server: RedisServer, href: str
) -> None:
    pages = [f"http://a/1/{name}" for name in ("x", "x#1", "x#2", "x#3", "y", "z")]
    found = await queued_after(redis_server.url, {page: [href] for page in pages})
    assert found == {f"http://a/1/{name}?a" for name in "xyz"}


def test_relative_links_are_made_normal_until_they_are_known_in_their_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = an_offline_worker()
    discovery = discovery_of(worker)
    monkeypatch.setattr(worker, "count_if_seen", lambda host, key: True)
    asked = made_normal(monkeypatch, discovery)
    for page in ("http://a/1/x", "http://a/1/y?b=/c", "http://a/2/x"):
        discovery.follow(["p", "../q"], normalise(page), 1, page)
    assert asked == ["p", "../q"] * 2


@pytest.mark.parametrize("href", ["http://c/page", "https://c/page"])
async def test_an_absolute_link_is_one_page_wherever_it_is_met(
    redis_server: RedisServer, href: str
) -> None:
    pages = ["http://a/1/x", "http://a/1/y", "http://a/1/z", "http://b/x"]
    assert await queued_after(redis_server.url, {page: [href] for page in pages}) == {href}


@pytest.mark.parametrize(
    "hrefs",
    [
        ["http://a//c/page", "//c/page"],
        ["//c/page", "http://a//c/page"],
        ["/.//c/page", "//c/page"],
    ],
)
async def test_a_path_that_begins_with_two_slashes_is_not_taken_for_another_host(
    redis_server: RedisServer, hrefs: list[str]
) -> None:
    one, other = hrefs
    pages = {"http://a/1": [one], "http://a/2": [one], "http://a/3": [one], "http://a/4": [other]}
    found = await queued_after(redis_server.url, pages)
    assert found == {"http://a//c/page", "http://c/page"}


@pytest.mark.parametrize(
    "spelled", ["/x#part", "x", "http://a/x", "/y/../x", "//a/x", "/x?utm_id=1"]
)
async def test_a_link_is_known_however_it_is_spelled(
    redis_server: RedisServer, spelled: str
) -> None:
    pages = {f"http://a/{number}": [spelled, "/x"] for number in range(4)}
    assert await queued_after(redis_server.url, pages) == {"http://a/x"}


def test_a_link_that_waits_to_be_pushed_is_collected_once_and_not_known_yet() -> None:
    worker, base = an_offline_worker(), normalise("http://a/")
    for _ in range(2):
        discovery_of(worker).follow(["/x"], base, 1, str(base))
    assert (len(worker.collected), len(worker.known_links)) == (1, 0)


async def test_what_is_left_out_is_counted_once_and_then_known_without_the_filter(
    redis_server: RedisServer,
) -> None:
    client = await connect(redis_server.url)
    frontier = Frontier(client, "c", "w")
    await frontier.open(Plan(seen_capacity=1000, scope="host"), "run")
    await frontier.renew(60_000, {})
    worker = a_worker(frontier)
    discovery, base = discovery_of(worker), normalise("http://a/")
    for _ in range(4):
        discovery.follow(["mailto:x@example.com"], base, 1, str(base))
        await worker.flush()
    assert ("scheme", "scheme mailto:x@example.com") in worker.known_links
    counts = await frontier.counts()
    await client.aclose()
    assert counts == {"discovered": 1, "filtered:scheme": 1, "duplicates": 3}


OUT_OF_SCOPE = "http://b/x"


def a_discovery_that_stays_on_a_host(rules: Rules) -> tuple[Collecting, Discovery]:
    worker = an_offline_worker()
    worker.scope.add("a")
    discovery = discovery_of(worker)
    discovery.use_rules(rules)
    return worker, discovery


def read_twice(discovery: Discovery, depth: int = 1) -> None:
    for page in ("http://a/1", "http://a/2"):
        discovery.follow([OUT_OF_SCOPE], normalise(page), depth, page)


def widen_scope(worker: Worker, discovery: Discovery) -> None:
    worker.scope.add("b")


def widen_rules(worker: Worker, discovery: Discovery) -> None:
    discovery.use_rules(Rules("any"))


@pytest.mark.parametrize("widen", [widen_scope, widen_rules])
def test_a_link_out_of_scope_is_judged_once_until_there_is_more_of_it(
    monkeypatch: pytest.MonkeyPatch, widen: Callable[[Worker, Discovery], None]
) -> None:
    worker, discovery = a_discovery_that_stays_on_a_host(Rules("host"))
    asked = made_normal(monkeypatch, discovery)
    with monkeypatch.context() as seen:
        seen.setattr(worker, "count_if_seen", lambda host, key: True)
        read_twice(discovery)
    assert asked == [OUT_OF_SCOPE]
    widen(worker, discovery)
    read_twice(discovery)
    assert followed(worker.collected) == [OUT_OF_SCOPE]


def test_a_new_seed_changes_nothing_for_links_where_every_host_is_in_scope(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker, discovery = a_discovery_that_stays_on_a_host(Rules("any"))
    monkeypatch.setattr(worker, "count_if_seen", lambda host, key: True)
    asked = made_normal(monkeypatch, discovery)
    for host in ("b", "c", "d"):
        read_twice(discovery)
        worker.scope.add(host)
    assert asked == [OUT_OF_SCOPE]


def test_a_link_that_is_too_deep_is_followed_where_it_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker, discovery = a_discovery_that_stays_on_a_host(Rules("any", depth=1))
    with monkeypatch.context() as seen:
        seen.setattr(worker, "count_if_seen", lambda host, key: True)
        read_twice(discovery, depth=2)
    read_twice(discovery)
    assert followed(worker.collected) == [OUT_OF_SCOPE]


@pytest.mark.parametrize(("keeps", "referer"), [(True, "http://a/"), (False, "")])
def test_where_a_link_was_found_is_kept_unless_the_crawl_goes_without(
    keeps: bool, referer: str
) -> None:
    worker = an_offline_worker()
    base = normalise("http://a/")
    discovery_of(worker, keeps_referer=keeps).follow(["/x"], base, 1, str(base))
    [link] = worker.collected
    assert summarise(link.host, link.entry).referer == referer


def test_what_was_made_of_links_is_remembered_for_the_page_in_hand_alone() -> None:
    make = partial(CheckingDiscovery, check="all")
    discovery = discovery_of(an_offline_worker(), make=make)
    assert isinstance(discovery, CheckingDiscovery)
    sitemap, page = normalise("http://a/sitemap.xml"), normalise("http://a/1/")

    def read_sitemap() -> None:
        discovery.follow([f"/{number}" for number in range(100)], sitemap, 1, str(sitemap))

    read_sitemap()
    assert discovery.resolved == {}
    for href in ("x", "y"):
        discovery.read(ReadPage(page, b"", [href], page, 0))
        read_sitemap()
        discovery.ask(["z"], page, 1, str(page), "utf-8")
        assert discovery.resolved == {href: normalise(f"http://a/1/{href}")}


def checks_under_opic() -> tuple[Collecting, Discovery, CloserReading]:
    """Of a crawl that stays on a host and checks all links that it does not follow."""
    worker = an_offline_worker()
    worker.scope.add("a")
    make = partial(CheckingDiscovery, check="all")
    discovery = discovery_of(worker, make=make, ranking="opic")
    discovery.use_rules(Rules("host"))
    plan = Plan(check="all")
    return worker, discovery, make_closer_reading(plan, discovery, None, skip_nofollow=True)


@pytest.mark.parametrize("is_nofollow", [False, True])
@pytest.mark.parametrize("rel", ["", "nofollow"])
def test_links_that_are_only_checked_share_what_their_page_has_and_rank_below_seeds(
    rel: str, is_nofollow: bool
) -> None:
    worker, discovery, closer = checks_under_opic()
    url = normalise("http://a/")
    body = b"".join(b"<a rel='%s' href=http://b/%d>" % (rel.encode(), n) for n in range(8))
    read = closer.read(body, None)
    if not is_nofollow:
        discovery.read(ReadPage(url, body, read.page.links, url, 0))
    closer.note(url, read, 0, 1, priority=0, is_nofollow=is_nofollow)
    assert [link.level for link in worker.collected] == [-12] * 8  # an eighth: three halvings


def test_where_a_check_is_redirected_to_ranks_by_what_the_check_had() -> None:
    worker, _, closer = checks_under_opic()
    attempt = Attempt(Lease(0, 1, "http://b", -12, encode_link("/1", 1)))
    closer.check_redirect(attempt, normalise("http://b/2"), ["http://b/1"])
    assert [link.level for link in worker.collected] == [-8]
