"""Who asks for a host's robots.txt when nobody knows its rules (any more), who is told what it
says, and what is kept of it, over a real Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count

import pytest
from scrapy import Request
from scrapy.http import Response

from crawlproj.frontier import keys
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.levels import FIRST, MOVED
from crawlproj.frontier.limits import Limits
from crawlproj.frontier.messages import Kind, Lease, Push
from crawlproj.frontier.outcomes import BAD_RECORD, Failed, Filtered, Held, Retry
from crawlproj.frontier.records import encode_rest
from crawlproj.politeness import robots, robots_memory, robots_store
from crawlproj.politeness.permission import LONG_BYTES, UNREACHABLE_S, Permission
from crawlproj.politeness.robot_rules import MOST_STARRED_OCTETS
from crawlproj.politeness.robots_store import ASKED_S, CLAIM_S
from crawlproj.politeness.wanted import ROBOTS_TXT, Wanted
from crawlproj.server.connection import connect
from crawlproj.urls import Url
from tests.servers.redis import RedisServer

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
            retry_delay_s=1000,
            longest_pause_s=60,
            on_sitemaps=lambda host, named: self.sitemaps.append((host, named)),
        )

    async def look(self, *leases: Lease) -> None:
        await self.permission.learn(leases)

    async def knows(self, host: str, path: str = "/x") -> str | None:
        """Why a page may not be fetched, as soon as that is known."""
        async with asyncio.timeout(20):
            while (why := self.permission.refusal(host, host + path)) == "":
                await self.look(page(host))
                await asyncio.sleep(0.01)
        return why

    def admits(self, lease: Lease) -> Request | None:
        """The request to make for a lease of a robots.txt, if one is."""
        wanted = Wanted.leased(lease)
        assert wanted is not None
        meta = {ROBOTS_TXT: wanted.host, "robots_via": list(wanted.via), "hops": wanted.hops}
        request = Request(wanted.url, meta=meta)
        return request if self.permission.admit(request, Held(lease)) else None

    async def fetch(self, lease: Lease, status: int = 200, body: bytes = NO_X, **head: str) -> Held:
        """What becomes of a lease of a robots.txt that is answered like this."""
        wanted = Wanted.leased(lease)
        assert wanted is not None
        held = Held(lease)
        response = Response(wanted.url, status, headers=head, body=body)
        await self.permission._received(response, wanted, held)
        return held

    async def ttl(self, host: str) -> int:
        return int(await self.frontier.client.ttl(keys.robots("c", 0, host)))


def page(host: str) -> Lease:
    return Lease(0, next(tokens), host, 0, b"\0\1/page")


def robots_txt(host: str, attempts: int = 0) -> Lease:
    """A lease of a host's robots.txt."""
    return leased(Wanted.of(host).push(Kind.LINK, Url(host, "/robots.txt")), attempts)


def lent(host: str, path: str = "/robots.txt", *, to: str, failures: int = 0) -> Lease:
    """A lease of what another host's robots.txt redirects to at this host."""
    wanted = Wanted.of(to).led_to(Url(host, path), to)
    return leased(wanted.push(Kind.UNFILTERED, Url(host, path)))._replace(host_failures=failures)


def leased(push: Push, attempts: int = 0) -> Lease:
    return Lease(0, next(tokens), push.host, push.level, bytes((attempts,)) + push.entry[1:])


Play = Callable[[Asker, Asker], Awaitable[None]]
Run = Callable[[Play], None]


@pytest.fixture
def run(redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(robots_store, "GRACE_S", GRACE_S)

    async def with_two(play: Play) -> None:
        clients = [await connect(redis_server.url) for _ in range(2)]
        try:
            frontiers = [Frontier(client, "c", f"w{n}") for n, client in enumerate(clients)]
            for frontier in frontiers:
                await frontier.open(Limits(give_up=GIVE_UP), {}, "run")
            await play(*map(Asker, frontiers))
        finally:
            for client in clients:
                await client.aclose()

    return lambda play: asyncio.run(with_two(play))


async def look_on(askers: list[Asker], lease: Lease, until: Callable[[], bool]) -> None:
    """As pages that are put off make workers look again and again."""
    async with asyncio.timeout(20):
        while not until():
            for asker in askers:
                await asker.look(lease)
            await asyncio.sleep(GRACE_S / 4)


# Who asks


def test_rules_that_have_expired_are_asked_for_again_at_once_and_by_one_worker(run: Run) -> None:
    async def play(one: Asker, other: Asker) -> None:
        await one.fetch(robots_txt(A))
        await one.frontier.client.delete(keys.robots("c", 0, A))
        one.permission._memory.put(A, robots_memory.Known(None, until=0))
        await look_on([one, other], page(A), lambda: bool(one.pushed or other.pushed))
        for _ in range(8):
            await one.look(page(A))
            await other.look(page(A))
            await asyncio.sleep(GRACE_S / 4)
        (asked,) = one.pushed + other.pushed
        assert (asked.host, asked.level) == (A, FIRST)
        assert await one.ttl(A) > CLAIM_S

    run(play)


@pytest.mark.parametrize("attempts", [0, 2])
def test_nobody_asks_for_a_file_that_is_in_the_hands_of_a_worker_even_if_it_says_so_late(
    run: Run, attempts: int
) -> None:
    async def play(one: Asker, other: Asker) -> None:
        await one.look(page(A))
        await other.look(robots_txt(A, attempts), page(A))
        await asyncio.sleep(2 * GRACE_S)
        for _ in range(3):
            await one.look(page(A))
            await other.look(page(A))
        assert one.pushed == other.pushed == []

    run(play)


def test_a_file_that_a_host_lends_to_another_is_not_its_own(run: Run) -> None:
    async def play(one: Asker, other: Asker) -> None:
        await other.look(lent(B, to=A))
        await look_on([one], page(B), lambda: bool(one.pushed))
        assert [push.host for push in one.pushed] == [B]

    run(play)


def test_a_claim_whose_worker_has_gone_passes_to_the_next(run: Run) -> None:
    async def play(gone: Asker, other: Asker) -> None:
        await gone.look(page(A))
        await gone.frontier.client.pexpire(keys.robots("c", 0, A), 1)
        await look_on([other], page(A), lambda: bool(other.pushed))

    run(play)


def test_a_claim_is_renewed_for_as_long_as_the_file_stands_in_the_queue_of_another_host(
    run: Run,
) -> None:
    async def play(one: Asker, other: Asker) -> None:
        await one.fetch(robots_txt(A), 301, Location=f"{B}/rules")
        await one.frontier.push(one.pushed)
        client, key = one.frontier.client, keys.robots("c", 0, A)
        for _ in range(3):
            await client.expire(key, CLAIM_S)
            await other.look(page(A))
            assert await other.ttl(A) > ASKED_S / 2
        assert other.pushed == []
        await client.delete(f"{keys.queue_prefix('c', 0)}{MOVED}:{B}")
        await client.expire(key, CLAIM_S)
        await other.look(page(A))
        assert await other.ttl(A) <= CLAIM_S

    run(play)


def test_a_claim_outlasts_the_wait_for_the_next_try(run: Run) -> None:
    async def play(one: Asker, _: Asker) -> None:
        held = await one.fetch(robots_txt(A), 500)
        assert isinstance(held.decided, Retry)
        assert await one.ttl(A) > 1000

    run(play)


def test_pages_are_looked_at_ever_less_often_while_their_host_is_waited_for(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(one: Asker, _: Asker) -> None:
        clock = 1000.0
        monkeypatch.setattr("time.monotonic", lambda: clock)
        looks, total_s = 0, 0.0
        while total_s < 600:
            rest_s = one.permission.next_look_ms(A) / 1000
            looks, total_s, clock = looks + 1, total_s + rest_s, clock + rest_s
        assert looks < 80

    run(play)


# Who is told


def test_a_robots_txt_that_is_known_by_now_is_not_fetched_again(run: Run) -> None:
    async def play(one: Asker, other: Asker) -> None:
        await one.fetch(robots_txt(A), body=NO_X + b"Sitemap: http://a/map")
        again = robots_txt(A)
        await other.look(again)
        assert other.admits(again) is None
        assert other.sitemaps == [(A, ["http://a/map"])]
        assert await other.knows(A) == "robots"

    run(play)


def test_a_robots_txt_that_only_one_worker_remembers_is_fetched_for_the_others(run: Run) -> None:
    async def play(one: Asker, _: Asker) -> None:
        await one.fetch(robots_txt(A))
        await one.frontier.client.delete(keys.robots("c", 0, A))
        again = robots_txt(A)
        await one.look(again)
        assert one.admits(again) is not None

    run(play)


@pytest.mark.parametrize("status", [200, 404, 500])
def test_a_redirect_to_a_host_that_has_been_heard_is_answered_by_what_it_said(
    run: Run, status: int
) -> None:
    async def play(one: Asker, other: Asker) -> None:
        await one.fetch(robots_txt(B, attempts=2), status)
        held = await other.fetch(robots_txt(A), 301, Location=f"{B}/robots.txt")
        assert (held.decided, other.pushed) == (Filtered("robots_txt"), [])
        expected = {200: "robots", 404: None, 500: "robots_unreachable"}[status]
        assert await one.knows(A) == await other.knows(A) == expected
        assert await one.ttl(A) <= await one.ttl(B)

    run(play)


def test_of_many_hosts_that_lead_to_one_only_the_first_has_its_file_fetched(run: Run) -> None:
    async def play(one: Asker, other: Asker) -> None:
        first, second = lent(B, to=A), lent(B, to=C)
        await one.look(first)
        assert one.admits(first) is not None
        await one.fetch(first)
        await other.look(second)
        assert other.admits(second) is None
        assert [await other.knows(host) for host in (A, B, C)] == ["robots"] * 3

    run(play)


def test_of_many_that_lead_to_one_over_a_third_host_that_is_asked_once_too(run: Run) -> None:
    async def play(one: Asker, other: Asker) -> None:
        await one.fetch(robots_txt(A), 301, Location=f"{B}/robots.txt")
        await one.fetch(leased(one.pushed.pop()), 301, Location=f"{C}/rules")
        await one.fetch(leased(one.pushed.pop()))
        late = lent(B, to="http://late")
        await other.look(late)
        assert other.admits(late) is None
        assert await other.knows("http://late") == await other.knows(B) == "robots"

    run(play)


def test_redirects_that_are_too_many_for_one_host_are_not_for_another_on_the_way(run: Run) -> None:
    async def play(one: Asker, _: Asker) -> None:
        await one.fetch(robots_txt(A), 301, Location=f"{B}/robots.txt")
        for number in range(robots.MOST_REDIRECTS):
            assert await one.ttl(A) <= ASKED_S
            await one.fetch(leased(one.pushed.pop()), 301, Location=f"{C}/{number}")
        assert one.pushed == []
        assert await one.knows(A) is None
        await one.look(page(B))
        assert one.permission.refusal(B, f"{B}/x") == ""

    run(play)


def test_a_file_of_another_name_is_fetched_once_a_worker_however_many_lead_to_it(run: Run) -> None:
    async def play(one: Asker, other: Asker) -> None:
        await one.fetch(lent(B, "/rules", to=A))
        second = lent(B, "/rules", to=C)
        await one.look(second)
        assert one.admits(second) is None
        assert await other.knows(C) == "robots"
        await one.look(page(B))
        assert one.permission.refusal(B, f"{B}/x") == ""

    run(play)


def test_a_host_that_is_given_up_is_answered_for_without_asking_it(run: Run) -> None:
    async def play(one: Asker, other: Asker) -> None:
        still, given_up = (lent(B, to=A, failures=failures) for failures in (GIVE_UP - 1, GIVE_UP))
        await one.look(still)
        assert one.admits(still) is not None
        await one.look(given_up)
        assert one.admits(given_up) is None
        assert await other.knows(A) == "robots_unreachable"
        assert await other.ttl(A) <= UNREACHABLE_S

    run(play)


def test_a_robots_txt_that_was_lost_with_its_workers_too_often_allows_nothing(run: Run) -> None:
    async def play(one: Asker, other: Asker) -> None:
        lost = lent(B, to=A)
        await one.permission.lost([(lost.host, lost.level, lost.entry), (B, 0, b"\3\1/page")])
        assert await other.knows(A) == "robots_unreachable"

    run(play)


@pytest.mark.parametrize("meta", [{ROBOTS_TXT: 5}, {ROBOTS_TXT: A, "robots_via": "x"}])
def test_a_record_of_a_robots_txt_that_is_not_ours_is_set_aside_and_another_one_asks(
    run: Run, meta: dict[str, object]
) -> None:
    async def play(one: Asker, _: Asker) -> None:
        entry = encode_rest("/robots.txt", {"meta": meta})
        foreign = Lease(0, 1, A, FIRST, entry)
        await one.look(foreign)
        held = Held(foreign)
        assert not one.permission.admit(Request(f"{A}/robots.txt", meta=meta), held)
        assert held.decided == Failed(BAD_RECORD)
        await look_on([one], page(A), lambda: bool(one.pushed))

    run(play)


def test_a_crawl_delay_that_was_copied_is_kept_from_the_first_page_on(run: Run) -> None:
    async def play(one: Asker, other: Asker) -> None:
        body = b"User-agent: *\nCrawl-delay: 30"
        held = await one.fetch(robots_txt(B), body=body)
        assert held.pause_ms == 30_000
        await one.frontier.client.expire(keys.robots("c", 0, B), 3600)
        await one.fetch(robots_txt(A), 301, Location=f"{B}/robots.txt")
        assert await other.knows(A) is None
        assert 29_000 < other.permission.rest_ms(A) <= 30_000
        assert await other.knows(B) is None
        assert other.permission.rest_ms(B) == 0

    run(play)


def test_the_pause_of_a_host_after_its_file_was_fetched_for_another_is_the_one_it_asks_for(
    run: Run,
) -> None:
    async def play(one: Asker, _: Asker) -> None:
        body = b"User-agent: *\nCrawl-delay: 1e9"
        assert (await one.fetch(lent(B, to=A), body=body)).pause_ms == 60_000
        assert (await one.fetch(lent(C, "/rules", to=A), body=body)).pause_ms == 0

    run(play)


# What a file may cost


def test_a_robots_txt_that_has_come_is_read_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []
    reading = robots._read

    def counting(body: bytes, user_agent: str) -> robots._Reader:
        read.append(body)
        return reading(body, user_agent)

    monkeypatch.setattr(robots, "_read", counting)

    async def play(one: Asker, _: Asker) -> None:
        held = await one.fetch(robots_txt(A), body=LONG)
        assert one.permission.delay_s(A) == held.pause_ms / 1000 == 7
        assert one.permission.refusal(A, f"{A}/x") == "robots"
        assert read == [LONG]

    run(play)


def test_leases_do_not_wait_while_the_long_file_of_one_host_is_read(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(one: Asker, other: Asker) -> None:
        various = b"".join(b"Disallow: /%x\n" % number for number in range(LONG_BYTES // 8))
        await one.fetch(robots_txt(A), body=NO_X + various)
        await one.fetch(robots_txt(B))
        async with other.permission._reading:  # as long as another long file is being read
            await other.look(page(A), page(B))
            assert other.permission.refusal(A, f"{A}/x") == ""
            assert other.permission.refusal(B, f"{B}/x") == "robots"
        assert await other.knows(A) == "robots"
        await other.permission.close()

    run(play)


def test_only_what_concerns_us_is_kept_of_a_file(run: Run) -> None:
    async def play(one: Asker, other: Asker) -> None:
        comments = b"".join(b"# %d is a number\n" % number for number in range(20_000))
        others = b"".join(b"User-agent: a%d\nDisallow: /%d\n" % (n, n) for n in range(3000))
        await one.fetch(robots_txt(A), body=comments + others + NO_X + others)
        assert await one.frontier.client.strlen(keys.robots("c", 0, A)) < 100
        assert await other.knows(A) == "robots"
        assert await other.knows(A, "/y") is None

    run(play)


def test_a_file_with_more_stars_than_can_be_answered_for_allows_nothing(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def play(one: Asker, other: Asker) -> None:
        stars = b"".join(b"Allow: /*%d*\n" % n for n in range(MOST_STARRED_OCTETS // 6))
        await one.fetch(robots_txt(A), body=b"User-agent: *\nCrawl-delay: 5\n" + stars)
        assert f"{A}/robots.txt has more rules than are kept" in caplog.text
        assert await one.frontier.client.strlen(keys.robots("c", 0, A)) < 100
        assert await one.knows(A) == await other.knows(A) == "robots"
        assert one.permission.delay_s(A) == other.permission.delay_s(A) == 5

    run(play)
