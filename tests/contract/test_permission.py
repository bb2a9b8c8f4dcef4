"""Who asks for a host's robots.txt when nobody knows its rules (any more), who is told what it
says, and what is kept of it, over a real Redis."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import Response

from crawlproj.frontier import keys
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.levels import FIRST, MOVED
from crawlproj.frontier.messages import Kind, Lease, Lost, Push
from crawlproj.frontier.meta_keys import ROBOTS_TXT
from crawlproj.frontier.outcomes import BAD_RECORD, Attempt, Failed, Filtered, PutOff, Retry
from crawlproj.frontier.pacing import RetryDelay
from crawlproj.frontier.plan import Plan
from crawlproj.frontier.records import encode_rest
from crawlproj.politeness import known_robots, robots, robots_store
from crawlproj.politeness.known_robots import LONG_BYTES
from crawlproj.politeness.permission import Permission
from crawlproj.politeness.robot_rules import MOST_STARRED_OCTETS, RobotsRules
from crawlproj.politeness.robots_fetch import UNREACHABLE_S
from crawlproj.politeness.robots_search import RobotsSearch
from crawlproj.politeness.robots_store import ASKED_S, CLAIM_S
from crawlproj.server.connection import connect
from crawlproj.urls import Url
from tests.servers.frontier import push_all
from tests.servers.redis import PATIENCE, RedisServer

A, B, C = "http://a", "http://b", "http://c"
GRACE_S = 0.1
GIVE_UP = 3
NO_X = b"User-agent: *\nDisallow: /x\n"
RULES = robots.pack(200, robots.Verdict.RULES, NO_X)
LONG = b"User-agent: *\nCrawl-delay: 7\nDisallow: /x\n" + b"Disallow: /long\n" * 20_000
tokens = count(1)


@dataclass
class Asker:
    """A worker's view of robots.txt files, and what it has pushed."""

    frontier: Frontier
    pushed: list[Push] = field(default_factory=list)
    sitemaps: list[tuple[str, list[str]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.permission = Permission(
            self.frontier,
            self.pushed.append,
            user_agent="bot",
            max_attempts=3,
            retry_delay=RetryDelay(1_000_000, 1_000_000),
            longest_pause_s=60,
        )
        self.permission.offer_sitemaps_to(lambda host, named: self.sitemaps.append((host, named)))

    async def look(self, *leases: Lease) -> None:
        await self.permission.learn(leases)

    async def knows(self, host: str, path: str = "/x") -> str | None:
        """Why a page may not be fetched, as soon as that is known."""
        async with asyncio.timeout(20):
            while isinstance(outcome := self.outcome(host, path), PutOff):
                await self.look(page(host))
                await asyncio.sleep(0.01)
        return outcome.reason if outcome else None

    def outcome(self, host: str, path: str = "/x") -> Filtered | PutOff | None:
        return self.permission.outcome_for(host, host + path)

    def admits(self, lease: Lease, attempt: Attempt | None = None) -> Request | None:
        """The request to make for a lease of a robots.txt, if one is."""
        search = RobotsSearch.leased(lease)
        assert search is not None
        meta = {ROBOTS_TXT: search.host, "robots_via": list(search.via), "hops": search.hops}
        request = Request(search.url, meta=meta)
        attempt = attempt or Attempt(lease)
        return request if self.permission.admit(request, attempt) else None

    async def fetch(
        self, lease: Lease, status: int = 200, body: bytes = NO_X, **head: str
    ) -> Attempt:
        """What becomes of a lease of a robots.txt that is answered like this."""
        attempt = Attempt(lease)
        request = self.admits(lease, attempt)
        assert request is not None and request.callback is not None
        await request.callback(Response(request.url, status, headers=head, body=body))
        return attempt

    async def ttl(self, host: str) -> int:
        return int(await self.frontier.client.ttl(keys.robots("c", 0, host)))


def page(host: str) -> Lease:
    return Lease(0, next(tokens), host, 0, b"\0\1/page")


def robots_txt(host: str, attempts: int = 0) -> Lease:
    """A lease of a host's robots.txt."""
    return leased(RobotsSearch.of(host).push(Kind.LINK, Url(host, "/robots.txt")), attempts)


def redirected(host: str, path: str = "/robots.txt", *, to: str, failures: int = 0) -> Lease:
    """A lease of what another host's robots.txt redirects to at this host."""
    search = RobotsSearch.of(to).led_to(Url(host, path), to)
    return leased(search.push(Kind.UNFILTERED, Url(host, path)))._replace(host_failures=failures)


def leased(push: Push, attempts: int = 0) -> Lease:
    return Lease(0, next(tokens), push.host, push.level, bytes((attempts,)) + push.entry[1:])


Askers = tuple[Asker, Asker]


@pytest.fixture
async def askers(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Askers]:
    """Two workers of one crawl."""
    monkeypatch.setattr(robots_store, "GRACE_S", GRACE_S)
    frontiers = [Frontier(await connect(redis_server.url), "c", f"w{n}") for n in range(2)]
    for frontier in frontiers:
        await frontier.open(Plan(give_up=GIVE_UP), "run")
    one, other = map(Asker, frontiers)
    yield one, other
    for frontier in frontiers:
        await frontier.close()


async def look_on(askers: list[Asker], lease: Lease, until: Callable[[], bool]) -> None:
    """As pages that are put off make workers look again and again."""
    async with asyncio.timeout(20):
        while not until():
            for asker in askers:
                await asker.look(lease)
            await asyncio.sleep(GRACE_S / 4)


# Who asks


async def test_rules_that_have_expired_are_asked_for_again_at_once_and_by_one_worker(
    askers: Askers, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = askers
    monkeypatch.setattr(known_robots, "RECHECK_S", 0)
    await one.fetch(robots_txt(A))
    await one.frontier.client.delete(keys.robots("c", 0, A))
    await look_on([one, other], page(A), lambda: bool(one.pushed or other.pushed))
    for _ in range(8):
        await one.look(page(A))
        await other.look(page(A))
        await asyncio.sleep(GRACE_S / 4)
    (asked,) = one.pushed + other.pushed
    assert (asked.host, asked.level) == (A, FIRST)
    assert await one.ttl(A) > CLAIM_S


@pytest.mark.parametrize("attempts", [0, 2])
async def test_nobody_asks_for_a_file_that_is_in_the_hands_of_a_worker_even_if_it_says_so_late(
    askers: Askers, attempts: int
) -> None:
    one, other = askers
    await one.look(page(A))
    await other.look(robots_txt(A, attempts), page(A))
    await asyncio.sleep(2 * GRACE_S)
    for _ in range(3):
        await one.look(page(A))
        await other.look(page(A))
    assert one.pushed == other.pushed == []


async def test_a_file_that_a_host_lends_to_another_is_not_its_own(askers: Askers) -> None:
    one, other = askers
    await other.look(redirected(B, to=A))
    await look_on([one], page(B), lambda: bool(one.pushed))
    assert [push.host for push in one.pushed] == [B]


async def test_a_claim_whose_worker_has_gone_passes_to_the_next(askers: Askers) -> None:
    gone, other = askers
    await gone.look(page(A))
    await gone.frontier.client.pexpire(keys.robots("c", 0, A), 1)
    await look_on([other], page(A), lambda: bool(other.pushed))


async def test_a_claim_is_renewed_for_as_long_as_the_file_stands_in_the_queue_of_another_host(
    askers: Askers,
) -> None:
    one, other = askers
    await one.fetch(robots_txt(A), 301, Location=f"{B}/rules")
    await push_all(one.frontier, one.pushed)
    client, key = one.frontier.client, keys.robots("c", 0, A)
    for _ in range(3):
        await client.expire(key, CLAIM_S)
        await other.look(page(A))
        assert await other.ttl(A) > ASKED_S / 2
    assert other.pushed == []
    await client.delete(keys.queue("c", 0, MOVED, B))
    await client.expire(key, CLAIM_S)
    await other.look(page(A))
    assert await other.ttl(A) <= CLAIM_S


async def test_a_claim_outlasts_the_wait_for_the_next_try(askers: Askers) -> None:
    one, _ = askers
    held = await one.fetch(robots_txt(A), 500)
    assert isinstance(held.decided, Retry)
    assert await one.ttl(A) > 1000


async def test_pages_are_looked_at_ever_less_often_while_their_host_is_waited_for(
    askers: Askers, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = askers
    clock = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: clock)
    looks, total_s = 0, 0.0
    while total_s < 600:
        outcome = one.outcome(A)
        assert isinstance(outcome, PutOff)
        rest_s = outcome.rest_ms / 1000
        looks, total_s, clock = looks + 1, total_s + rest_s, clock + rest_s
    assert looks < 80


# Who is told


async def test_a_robots_txt_that_is_known_by_now_is_not_fetched_again(askers: Askers) -> None:
    one, other = askers
    await one.fetch(robots_txt(A), body=NO_X + b"Sitemap: http://a/map")
    again = robots_txt(A)
    await other.look(again)
    assert other.admits(again) is None
    assert other.sitemaps == [(A, ["http://a/map"])]
    assert await other.knows(A) == "robots"


async def test_a_robots_txt_that_only_one_worker_remembers_is_fetched_for_the_others(
    askers: Askers,
) -> None:
    one, _ = askers
    await one.fetch(robots_txt(A))
    await one.frontier.client.delete(keys.robots("c", 0, A))
    again = robots_txt(A)
    await one.look(again)
    assert one.admits(again) is not None


@pytest.mark.parametrize("status", [200, 404, 500])
async def test_a_redirect_to_a_host_that_has_been_heard_is_answered_by_what_it_said(
    askers: Askers, status: int
) -> None:
    one, other = askers
    await one.fetch(robots_txt(B, attempts=2), status)
    held = await other.fetch(robots_txt(A), 301, Location=f"{B}/robots.txt")
    assert (held.decided, other.pushed) == (Filtered("robots_txt"), [])
    expected = {200: "robots", 404: None, 500: "robots_unreachable"}[status]
    assert await one.knows(A) == await other.knows(A) == expected
    assert await one.ttl(A) <= await one.ttl(B)


async def test_of_many_hosts_that_lead_to_one_only_the_first_has_its_file_fetched(
    askers: Askers,
) -> None:
    one, other = askers
    first, second = redirected(B, to=A), redirected(B, to=C)
    await one.look(first)
    assert one.admits(first) is not None
    await one.fetch(first)
    await other.look(second)
    assert other.admits(second) is None
    assert [await other.knows(host) for host in (A, B, C)] == ["robots"] * 3


async def test_of_many_that_lead_to_one_over_a_third_host_that_is_asked_once_too(
    askers: Askers,
) -> None:
    one, other = askers
    await one.fetch(robots_txt(A), 301, Location=f"{B}/robots.txt")
    await one.fetch(leased(one.pushed.pop()), 301, Location=f"{C}/rules")
    await one.fetch(leased(one.pushed.pop()))
    late = redirected(B, to="http://late")
    await other.look(late)
    assert other.admits(late) is None
    assert await other.knows("http://late") == await other.knows(B) == "robots"


async def test_redirects_that_are_too_many_for_one_host_are_not_for_another_on_the_way(
    askers: Askers,
) -> None:
    one, _ = askers
    await one.fetch(robots_txt(A), 301, Location=f"{B}/robots.txt")
    for number in range(robots.MOST_REDIRECTS):
        assert await one.ttl(A) <= ASKED_S
        await one.fetch(leased(one.pushed.pop()), 301, Location=f"{C}/{number}")
    assert one.pushed == []
    assert await one.knows(A) is None
    await one.look(page(B))
    assert isinstance(one.outcome(B), PutOff)


async def test_a_file_of_another_name_is_fetched_once_a_worker_however_many_lead_to_it(
    askers: Askers,
) -> None:
    one, other = askers
    await one.fetch(redirected(B, "/rules", to=A))
    second = redirected(B, "/rules", to=C)
    await one.look(second)
    assert one.admits(second) is None
    assert await other.knows(C) == "robots"
    await one.look(page(B))
    assert isinstance(one.outcome(B), PutOff)


async def test_a_host_that_is_given_up_is_answered_for_without_asking_it(askers: Askers) -> None:
    one, other = askers
    still, given_up = (
        redirected(B, to=A, failures=failures) for failures in (GIVE_UP - 1, GIVE_UP)
    )
    await one.look(still)
    assert one.admits(still) is not None
    await one.look(given_up)
    assert one.admits(given_up) is None
    assert await other.knows(A) == "robots_unreachable"
    assert await other.ttl(A) <= UNREACHABLE_S


async def test_a_robots_txt_that_was_lost_with_its_workers_too_often_allows_nothing(
    askers: Askers,
) -> None:
    one, other = askers
    lost = redirected(B, to=A)
    await one.permission.lost([Lost(lost.host, lost.level, lost.entry), Lost(B, 0, b"\3\1/page")])
    assert await other.knows(A) == "robots_unreachable"


@pytest.mark.parametrize("meta", [{ROBOTS_TXT: 5}, {ROBOTS_TXT: A, "robots_via": "x"}])
async def test_a_record_of_a_robots_txt_that_is_not_ours_is_set_aside_and_another_one_asks(
    askers: Askers, meta: dict[str, object]
) -> None:
    one, _ = askers
    entry = encode_rest("/robots.txt", {"meta": meta})
    foreign = Lease(0, 1, A, FIRST, entry)
    await one.look(foreign)
    held = Attempt(foreign)
    assert not one.permission.admit(Request(f"{A}/robots.txt", meta=meta), held)
    assert held.decided == Failed(BAD_RECORD)
    await look_on([one], page(A), lambda: bool(one.pushed))


async def test_a_crawl_delay_that_was_copied_is_kept_from_the_first_page_on(askers: Askers) -> None:
    one, other = askers
    body = b"User-agent: *\nCrawl-delay: 30"
    held = await one.fetch(robots_txt(B), body=body)
    assert held.pause_ms == 30_000
    await one.frontier.client.expire(keys.robots("c", 0, B), 3600)
    await one.fetch(robots_txt(A), 301, Location=f"{B}/robots.txt")
    await other.look(page(A))
    outcome = other.outcome(A)
    assert isinstance(outcome, PutOff) and 29_000 < outcome.rest_ms <= 30_000
    assert await other.knows(B) is None


async def test_the_pause_of_a_host_after_its_file_was_fetched_for_another_is_the_one_it_asks_for(
    askers: Askers,
) -> None:
    one, _ = askers
    body = b"User-agent: *\nCrawl-delay: 1e9"
    assert (await one.fetch(redirected(B, to=A), body=body)).pause_ms == 60_000
    assert (await one.fetch(redirected(C, "/rules", to=A), body=body)).pause_ms == 0


# What a file may cost


async def test_a_robots_txt_that_has_come_is_read_once(
    askers: Askers, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def counted(name: str) -> Callable[..., Any]:
        reading = getattr(robots, name)

        def count(*what: Any) -> Any:
            read.append(name)
            return reading(*what)

        return count

    for name in ("digest", "parse"):
        monkeypatch.setattr(robots, name, counted(name))
    one, _ = askers
    held = await one.fetch(robots_txt(A), body=LONG)
    assert one.permission.delay_s(A) == held.pause_ms / 1000 == 7
    assert one.outcome(A) == Filtered("robots")
    assert read == ["digest"]


async def test_leases_do_not_wait_while_the_long_file_of_one_host_is_read(
    askers: Askers, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = askers
    may_read, rules = threading.Event(), robots.Stored.rules

    def read_slowly(stored: robots.Stored, user_agent: str) -> RobotsRules:
        assert len(stored.body) < LONG_BYTES or may_read.wait(60 * PATIENCE)
        return rules(stored, user_agent)

    various = b"".join(b"Disallow: /%x\n" % number for number in range(LONG_BYTES // 8))
    await one.fetch(robots_txt(A), body=NO_X + various)
    await one.fetch(robots_txt(B))
    monkeypatch.setattr(robots.Stored, "rules", read_slowly)
    await other.look(page(A), page(B))
    assert isinstance(other.outcome(A), PutOff)
    assert other.outcome(B) == Filtered("robots")
    may_read.set()
    assert await other.knows(A) == "robots"
    await other.permission.close()


async def test_only_what_concerns_us_is_kept_of_a_file(askers: Askers) -> None:
    one, other = askers
    comments = b"".join(b"# %d is a number\n" % number for number in range(20_000))
    others = b"".join(b"User-agent: a%d\nDisallow: /%d\n" % (n, n) for n in range(3000))
    await one.fetch(robots_txt(A), body=comments + others + NO_X + others)
    assert await one.frontier.client.strlen(keys.robots("c", 0, A)) < 100
    assert await other.knows(A) == "robots"
    assert await other.knows(A, "/y") is None


async def test_a_file_with_more_stars_than_can_be_answered_for_allows_nothing(
    askers: Askers, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = askers
    stars = b"".join(b"Allow: /*%d*\n" % n for n in range(MOST_STARRED_OCTETS // 6))
    await one.fetch(robots_txt(A), body=b"User-agent: *\nCrawl-delay: 5\n" + stars)
    assert f"{A}/robots.txt has more rules than are kept" in caplog.text
    assert await one.frontier.client.strlen(keys.robots("c", 0, A)) < 100
    assert await one.knows(A) == await other.knows(A) == "robots"
    assert one.permission.delay_s(A) == other.permission.delay_s(A) == 5


# Who comes too late: a worker that stood still, or whose lease was copied


@pytest.mark.parametrize("attempts", [0, 2])
async def test_a_failure_that_comes_late_changes_nothing_of_what_another_has_fetched(
    askers: Askers, attempts: int
) -> None:
    late, other = askers
    await other.fetch(robots_txt(A))
    await late.fetch(robots_txt(A, attempts), 500)
    third = Asker(late.frontier)
    assert await third.knows(A) == await late.knows(A) == "robots"
    assert await third.knows(A, "/y") is await late.knows(A, "/y") is None


async def test_a_redirect_that_comes_late_is_not_followed(askers: Askers) -> None:
    late, other = askers
    await other.fetch(robots_txt(A))
    held = await late.fetch(robots_txt(A), 301, Location=f"{B}/rules")
    assert (held.decided, late.pushed) == (Filtered("robots_txt"), [])
    assert await Asker(late.frontier).knows(A) == "robots"


async def test_a_robots_txt_that_was_fetched_before_it_was_lost_with_its_worker_is_known(
    askers: Askers,
) -> None:
    one, other = askers
    file = robots_txt(A, attempts=2)
    await one.fetch(file)
    await other.permission.lost([Lost(A, file.level, file.entry)])
    assert await other.knows(A, "/y") is None
