"""Who asks for a host's robots.txt when nobody knows its rules (any more), over a real Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest
from scrapy import Request
from scrapy.http import Response

from crawlproj.frontier import keys
from crawlproj.frontier.frontier import Frontier, Limits
from crawlproj.frontier.levels import FIRST
from crawlproj.frontier.messages import Lease, Push
from crawlproj.politeness import permission, robots
from crawlproj.politeness.permission import Permission
from crawlproj.server.connection import connect
from crawlproj.worker.outcome import Held
from tests.servers.redis import RedisServer

A, B = "http://a", "http://b"
GRACE_S = 0.1
RULES = robots.pack(200, robots.Verdict.RULES, b"User-agent: *\nDisallow: /x")


@dataclass
class Asker:
    """A worker's view of robots.txt files, and what it has pushed."""

    frontier: Frontier
    pushed: list[Push] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.permission = Permission(
            self.frontier,
            self.pushed.append,
            user_agent="bot",
            max_attempts=3,
            longest_pause_s=60,
        )

    async def look(self, *leases: Lease) -> None:
        await self.permission.learn(leases)


def page(host: str) -> Lease:
    return Lease(0, 1, host, 0, b"\0\1/page")


def robots_txt(host: str, attempts: int = 0, *, lent_to: str = "") -> Lease:
    """A lease of a host's robots.txt, or of what another's redirects to there."""
    entry = permission._entry(lent_to or host)
    return Lease(0, 2, host, FIRST, bytes((attempts,)) + entry[1:])


Play = Callable[[Asker, Asker], Awaitable[None]]


@pytest.fixture
def run(redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> Callable[[Play], None]:
    monkeypatch.setattr(permission, "GRACE_S", GRACE_S)

    async def with_two(play: Play) -> None:
        clients = [await connect(redis_server.url) for _ in range(2)]
        try:
            frontiers = [Frontier(client, "c", f"w{n}") for n, client in enumerate(clients)]
            for frontier in frontiers:
                await frontier.open(Limits(), {}, "run")
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


def test_rules_that_have_expired_are_asked_for_again_at_once_and_by_one_worker(
    run: Callable[[Play], None],
) -> None:
    async def play(one: Asker, other: Asker) -> None:
        await one.permission._store(A, RULES, 86400)
        await one.frontier.client.delete(keys.robots("c", 0, A))
        one.permission._known[A] = one.permission._known[A]._replace(until=0)
        await look_on([one, other], page(A), lambda: bool(one.pushed or other.pushed))
        for _ in range(8):
            await one.look(page(A))
            await other.look(page(A))
            await asyncio.sleep(GRACE_S / 4)
        (asked,) = one.pushed + other.pushed
        assert (asked.host, asked.level) == (A, FIRST)
        assert await one.frontier.client.ttl(keys.robots("c", 0, A)) > permission.CLAIM_S

    run(play)


@pytest.mark.parametrize("attempts", [0, 2])
def test_nobody_asks_for_a_file_that_is_in_the_hands_of_a_worker_even_if_it_says_so_late(
    run: Callable[[Play], None], attempts: int
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


def test_a_file_that_a_host_lends_to_another_is_not_its_own(run: Callable[[Play], None]) -> None:
    async def play(one: Asker, other: Asker) -> None:
        await other.look(robots_txt(B, lent_to=A))
        await look_on([one], page(B), lambda: bool(one.pushed))
        assert [push.host for push in one.pushed] == [B]

    run(play)


def test_a_claim_whose_worker_has_gone_passes_to_the_next(run: Callable[[Play], None]) -> None:
    async def play(gone: Asker, other: Asker) -> None:
        await gone.look(page(A))
        await gone.frontier.client.pexpire(keys.robots("c", 0, A), 1)
        await look_on([other], page(A), lambda: bool(other.pushed))

    run(play)


LONG = b"User-agent: *\nCrawl-delay: 7\n" + b"Disallow: /x\n" * 20_000


def test_a_robots_txt_that_has_come_is_read_once(
    run: Callable[[Play], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[bytes] = []
    parse = robots.parse

    def counting(body: bytes, user_agent: str) -> robots.RobotsRules:
        read.append(body)
        return parse(body, user_agent)

    monkeypatch.setattr(robots, "parse", counting)

    async def play(one: Asker, _: Asker) -> None:
        request = Request(f"{A}/robots.txt", meta={permission.ROBOTS_TXT: A})
        response = Response(request.url, body=LONG, request=request)
        assert one.permission.delay_in_s(A, response) == 7
        await one.permission._received(response, Held(robots_txt(A)))
        assert one.permission.delay_s(A) == 7
        assert one.permission.refusal(A, f"{A}/x") == "robots"
        assert read == [LONG]

    run(play)


def test_the_worker_goes_on_while_a_long_file_is_read(run: Callable[[Play], None]) -> None:
    async def play(one: Asker, _: Asker) -> None:
        packed = robots.pack(200, robots.Verdict.RULES, LONG)
        reading = asyncio.create_task(one.permission._remember(A, packed, 100))
        await asyncio.sleep(0)
        assert not reading.done()
        await reading
        assert one.permission.delay_s(A) == 7

    run(play)
