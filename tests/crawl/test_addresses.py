"""No connection to an address that is refused: judged at the origin, whose log must stay empty."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence

import pycurl
import pytest
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadConnectionRefusedError,
    UnsupportedURLSchemeError,
)

from crawlproj.discover.rules import Rules
from crawlproj.errors import AddressRefused
from crawlproj.operate.request_log import fetch_counts
from crawlproj.urls import normalise
from tests.servers.clients import Answers, call, client
from tests.servers.fleet import Fleet
from tests.servers.origin import Origin, Reply, Request
from tests.servers.redis import RedisServer

ELSEWHERE = [
    "http://10.0.0.1/",
    "http://192.168.0.1/",
    "http://169.254.169.254/latest/meta-data/",
    "http://[::ffff:10.0.0.1]/",
    "http://[fe80::1]/",
    "http://[64:ff9b::10.0.0.1]/",
    "http://0/",
    "http://0xa000001/",
    "http://2852039166/",
]


def get(
    urls: list[str],
    names: Answers,
    allowed: str,
    proxy: str | None = None,
    seeds: Sequence[str] = (),
) -> list[str]:
    """Fetch the URLs over a new connection each; returns a body or what was wrong for each."""

    async def fetch_all() -> list[str]:
        found = []
        alone = [(pycurl.FORBID_REUSE, 1)]
        async with client(allowed, names, seeds, options=alone) as asking:
            for url in urls:
                try:
                    found.append((await asking.exchange(call(url, proxy=proxy))).body.decode())
                except (AddressRefused, DownloadConnectionRefusedError) as error:
                    found.append(str(error))
        return found

    return asyncio.run(fetch_all())


@pytest.fixture
def origin() -> Iterator[Origin]:
    with Origin({}, default=Reply(body=b"hello")) as server:
        yield server


def test_a_refused_address_is_not_connected_to(origin: Origin) -> None:
    port = origin.url("").rpartition(":")[2]
    named_url = f"http://evil.example:{port}/"
    urls = [origin.url("/"), named_url, named_url]
    literal, named, named_v6 = get(urls, Answers(["127.0.0.1"], ["::1"]), allowed="")
    assert literal.startswith("Refused address of 127.0.0.1: 127.0.0.1 (loopback)")
    assert named.startswith("Refused address of evil.example: 127.0.0.1 (loopback)")
    assert named_v6.startswith("Refused address of evil.example: ::1 (loopback)")
    assert origin.requests() == []


def test_a_name_that_changes_its_mind_is_judged_at_every_connection(origin: Origin) -> None:
    url = f"http://evil.example:{origin.url('').rpartition(':')[2]}/"
    # Only the first answer is allowed, though the origin listens at neither other address.
    names = Answers(["127.0.0.1"], ["127.0.0.2"], ["10.0.0.1"])
    first, second, third = get([url] * 3, names, allowed="127.0.0.1/32")
    assert first == "hello"
    assert "127.0.0.2 (loopback)" in second
    assert "10.0.0.1 (private)" in third
    assert len(origin.requests()) == 1


def test_a_seeded_name_that_turns_to_another_class_is_not_followed_there(origin: Origin) -> None:
    port = origin.host.rpartition(":")[2]
    seed = f"intranet.example:{port}"
    names = Answers(["127.0.0.1"], ["127.0.0.2"], ["10.0.0.1"], ["169.254.1.1", "127.0.0.1"])
    first, second, third, fourth = get([f"http://{seed}/"] * 4, names, allowed="", seeds=[seed])
    assert (first, fourth) == ("hello", "hello")
    assert "Refused" not in second  # the same class; nobody listens there
    assert third.startswith("Refused address of intranet.example: 10.0.0.1 (private)")
    assert len(origin.requests()) == 2


def test_of_several_addresses_only_allowed_ones_are_tried(origin: Origin) -> None:
    url = f"http://both.example:{origin.url('').rpartition(':')[2]}/"
    names = Answers(["10.0.0.1", "127.0.0.1", "169.254.169.254"])
    assert get([url], names, allowed="127.0.0.1/32") == ["hello"]


def test_an_address_with_a_zone_does_not_stand_in_the_way_of_others(origin: Origin) -> None:
    names = Answers(["fe80::1%lo", "127.0.0.1"], ["127.0.0.1", "fe80::1%2"], ["fe80::1%lo"])
    url = f"http://nas.example:{origin.port}/"
    assert get([url, url], names, "", seeds=["nas.example"]) == ["hello"] * 2
    with pytest.raises(CannotResolveHostError, match="fe80::1%lo"):
        get([url], names, "", seeds=["nas.example"])


def test_a_url_that_can_be_read_in_two_ways_leads_nowhere(origin: Origin) -> None:
    """What is judged must be what is connected to, whoever reads the URL."""
    port = origin.host.rpartition(":")[2]
    urls = [f"http://seed.example\\@127.0.0.1:{port}/", f"http://seed.example:0@127.0.0.1:{port}\\"]
    for url in urls:
        with pytest.raises(UnsupportedURLSchemeError):
            get([url], Answers(["127.0.0.1"]), allowed="", seeds=["seed.example"])
    assert origin.requests() == []


def test_a_proxy_may_be_anywhere_but_literal_addresses_behind_it_may_not(origin: Origin) -> None:
    urls = ["http://example.com/page", "http://10.0.0.1/secret"]
    page, secret = get(urls, Answers(), allowed="", proxy=origin.url(""))
    assert page == "hello"
    assert secret.startswith("Refused address of 10.0.0.1")
    assert [one.path for one in origin.requests()] == ["http://example.com/page"]


@pytest.mark.parametrize(
    "spelled",
    ["2852039166", "127.1", "0x7f000001", "127.0.0.1.", "%31%32%37.0.0.1", "[::ffff:127.0.0.1]"],
)
def test_an_address_behind_a_proxy_is_one_however_it_is_spelled(
    origin: Origin, spelled: str
) -> None:
    [secret] = get([f"http://{spelled}/"], Answers(), allowed="", proxy=origin.url(""))
    assert secret.startswith("Refused address of ")
    assert origin.requests() == []


def test_the_domain_of_a_seed_is_no_seed_wherever_it_resolves_to(origin: Origin) -> None:
    port = origin.host.rpartition(":")[2]
    seeds = list(Rules("domain").scope_names(normalise(f"http://www.evil.example:{port}/")))
    urls = [f"http://{name}:{port}/" for name in ("www.evil.example", "evil.example")]
    seed, domain = get(urls, Answers(["127.0.0.1"], ["127.0.0.1"]), allowed="", seeds=seeds)
    assert seed == "hello"
    assert domain.startswith("Refused address of evil.example: 127.0.0.1 (loopback)")


def test_a_seed_can_choose_among_the_proxies_of_the_settings_and_name_no_other(
    fleet: Fleet, redis_server: RedisServer
) -> None:
    def unsteady(request: Request) -> Reply:
        return Reply(503 if request.attempt == 1 else 200)

    with Origin({}, default=unsteady) as named, Origin({}, default=Reply()) as stranger:
        for url, proxy in (("http://a.test/", named), ("http://b.test/", stranger)):
            seed = json.dumps({"url": url, "meta": {"proxy": proxy.url("")}})
            redis_server.cli("lpush", "site:start_urls", seed)
        settings = {
            "ROBOTSTXT_OBEY": False,
            "CRAWL_PROXIES": f"http://user:secret@{named.host}",
            "POLITENESS_BACKOFF": 0.1,
        }
        fleet.start(settings, delay=0)
        assert fleet.wait() == ["finished"]
        assert [one.path for one in named.requests()] == ["http://a.test/"] * 2
        assert stranger.requests() == []
    assert fleet.urls() == ["http://a.test/"]
    [rejected] = redis_server.cli("lrange", "site:start_urls:rejected", "0", "-1").splitlines()
    assert "none of CRAWL_PROXIES" in rejected


def test_links_into_other_networks_are_filtered_and_counted(fleet: Fleet) -> None:
    links = "".join(f"<a href={url}>x</a>" for url in [*ELSEWHERE, "/good"])
    with Origin({"/": Reply(body=links.encode()), "/good": Reply()}) as origin:
        fleet.start({"ROBOTSTXT_OBEY": False}, seeds=origin.url("/"), scope="any", delay=0)
        assert fleet.wait() == ["finished"]
        now = fleet.status()
        assert sorted(fleet.urls()) == [origin.url("/"), origin.url("/good")]
        # 2852039166 is the metadata address again, and 0xa000001 the first.
        assert now["filtered"] == {"address": len(ELSEWHERE) - 1}
        assert (now["balance"], now["dead"]) == (0, 0)


def test_a_host_whose_robots_txt_is_at_a_refused_address_is_filtered_for_that_at_once(
    fleet: Fleet,
) -> None:
    links = b"<a href=http://10.0.0.1/a>a</a><a href=http://10.0.0.1/b>b</a>"
    moved = Reply(302, {"Location": "http://10.0.0.2/robots.txt"})
    with (
        Origin({"/": Reply(body=links), "/robots.txt": Reply(404)}) as origin,
        Origin({"/robots.txt": moved}, default=Reply()) as led_astray,
    ):
        seeds = f"{origin.url('/')},{led_astray.url('/')}"
        worker = fleet.start({"FRONTIER_RETRY_DELAY": 0.01}, seeds=seeds, scope="any", delay=0)
        assert worker.wait() == "finished", worker.log
    now = fleet.status()
    assert now["filtered"] == {"address": 2, "robots_unreachable": 1, "robots_txt": 4}
    assert (now["balance"], now["done"], now["dead"]) == (0, 1, 0)


@pytest.mark.parametrize("allowed", ["", "127.0.99.99"])
def test_a_seed_at_a_special_address_opens_that_address_alone(fleet: Fleet, allowed: str) -> None:
    with Origin({}, default=Reply(), address="127.0.99.99") as beside:
        port = beside.host.rpartition(":")[2]
        spellings = ("127.0.99.99", "2130731875", "0x7f006363", "[::ffff:127.0.99.99]")
        links = [f"http://{host}:{port}/link" for host in spellings]
        routes = {
            "/": Reply(body="".join(f"<a href={url}>x</a>" for url in [*links, "/go"]).encode()),
            "/go": Reply(302, {"Location": beside.url("/redirected")}),
        }
        with Origin(routes) as origin:
            settings = {"ROBOTSTXT_OBEY": False, "CRAWL_ALLOW_ADDRESSES": allowed}
            fleet.start(settings, seeds=origin.url("/"), scope="any", delay=0)
            assert fleet.wait() == ["finished"]
        met = [one.path for one in beside.requests()]
    assert sorted(set(met)) == (["/link", "/redirected"] if allowed else [])
    now = fleet.status()
    assert (now["done"] > 2) is bool(allowed)
    assert (now["filtered"].get("address", 0) == 0) is bool(allowed)
    assert (now["balance"], now["dead"]) == (0, 0)


@pytest.mark.parametrize("allowed", ["", "loopback"])
def test_a_seed_by_name_does_not_open_the_network_it_is_in(fleet: Fleet, allowed: str) -> None:
    with Origin({"/secret": Reply()}) as origin:
        port = origin.url("").rpartition(":")[2]
        link = f"<a href={origin.url('/secret')}>x</a>".encode()
        with Origin({"/": Reply(body=link)}, address="127.0.0.1") as entrance:
            seed = entrance.url("/").replace("127.0.0.1", "localhost")
            settings = {"ROBOTSTXT_OBEY": False, "CRAWL_ALLOW_ADDRESSES": allowed}
            fleet.start(settings, seeds=seed, scope="any", delay=0)
            assert fleet.wait() == ["finished"]
        fetched = fetch_counts(origin.requests())
    secret = f"http://127.0.0.1:{port}/secret"
    assert fleet.urls() == ([seed, secret] if allowed else [seed])
    assert fetched == ({secret: 1} if allowed else {})
    assert fleet.status()["filtered"] == ({} if allowed else {"address": 1})
