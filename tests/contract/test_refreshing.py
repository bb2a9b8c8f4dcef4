"""The worker's part in revisits, on a real frontier: what it asks the shards for, and when."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from scrapy.http import Response

from crawlproj.discover.refreshing import Refresher
from crawlproj.frontier import keys, resting
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.messages import Kind, Push, Settlement
from crawlproj.frontier.outcomes import Attempt
from crawlproj.frontier.plan import Plan
from crawlproj.frontier.records import encode_link
from crawlproj.frontier.shard import Shard
from crawlproj.frontier.visits import History
from crawlproj.server.connection import connect
from crawlproj.urls import Url, normalise
from tests.lua.helpers import set_clock
from tests.servers.redis import RedisServer

HOSTS = [f"http://{name}.test" for name in "abcdefgh"]


@pytest.fixture
async def frontier(redis_server: RedisServer) -> AsyncIterator[Frontier]:
    client: Any = await connect(redis_server.url)
    one = Frontier(client, "c", "w")
    plan = Plan(
        refresh="10/s",
        refresh_shortest_s=1,
        refresh_longest_s=1000,
        shards=3,
        per_host=100,
        seen_capacity=10_000,
    )
    await one.open(plan, "run")
    await one.renew(100_000, {})
    yield one
    await client.aclose()


async def fetch_all(frontier: Frontier, refresher: Refresher, body: bytes = b"x") -> None:
    """Fetch what is new or due, and let it rest."""
    await refresher.wake(100)
    await fetch_queued(frontier, refresher, body)


async def fetch_queued(frontier: Frontier, refresher: Refresher, body: bytes = b"x") -> None:
    """Fetch what is queued, and let it rest."""
    for lease in (await frontier.lease(100)).leases:
        attempt = Attempt(lease, status=200)
        refresher.note(attempt, Response("http://x"), hashlib.sha256(body).digest())
        settlement = refresher.settle(attempt, Settlement(lease.token, "done"))
        await frontier.settle([(lease.shard, settlement)])


async def push(frontier: Frontier, urls: list[Url], level: float = 50) -> None:
    pushes = [Push(Kind.LINK, url.host, level, encode_link(url.path, 1), str(url)) for url in urls]
    for number, batch in frontier.by_shard(pushes).items():
        await frontier.shards[number].push(frontier.worker, batch)


async def at_rest(frontier: Frontier) -> dict[bytes, resting.Resting]:
    found = [one for shard in frontier.shards for one in await resting.sample(shard, 1000)]
    return {one.number: one for one in found}


async def test_a_census_gives_shards_what_their_pages_ask_for_of_the_budget(
    frontier: Frontier,
) -> None:
    refresher = Refresher(frontier)
    urls = [normalise(f"{host}/{n}") for at, host in enumerate(HOSTS) for n in range(5 * at + 1)]
    await push(frontier, urls)
    for _ in range(3):
        await fetch_queued(frontier, refresher)
    await refresher.take_census()
    counts = [await resting.count(shard) for shard in frontier.shards]
    assert sum(counts) == len(urls)
    shares = [float((await shard.meta())["refresh"]) for shard in frontier.shards]
    assert sum(shares) == pytest.approx(10)
    # Nothing is known of any page: all are alike.
    expected = [10 * count / sum(counts) for count in counts]
    assert shares == pytest.approx(expected, rel=0.01)
    due = [one.due_ms - one.visit.at_ms for one in (await at_rest(frontier)).values()]
    assert max(due) == pytest.approx(len(urls) / 10 * 1000 / 1.02, rel=0.02)


async def test_censuses_go_on_where_the_first_shard_has_nothing_at_rest(frontier: Frontier) -> None:
    refresher = Refresher(frontier)
    host = next(host for host in HOSTS if frontier.shard_of(host).number == 1)
    url = normalise(f"{host}/page")
    await push(frontier, [url])
    await fetch_queued(frontier, refresher)
    first, number = frontier.shards[0], resting.number_of(*url)
    far_ms = await first.now_ms() + 3_600_000
    for _ in range(2):
        await resting.reschedule(frontier.shard_of(host), {number: far_ms})
        await first.client.hset(keys.meta(first.crawl, 0), "census_at_ms", 0)
        await refresher.wake(10)
        assert (await at_rest(frontier))[number].due_ms < far_ms, "the census has looked at it"
    shares = [(await shard.meta())["refresh"] for shard in frontier.shards]
    assert [float(share) for share in shares] == [0, 10, 0]
    idle = [(await resting.wake(shard, 10, 5000)).saved for shard in frontier.shards]
    assert min(idle[0], idle[2]) == 1, "shards without pages do not hold the others' back"


async def test_a_page_that_waits_for_its_host_keeps_its_turn_at_a_census(
    frontier: Frontier, redis_server: RedisServer
) -> None:
    refresher = Refresher(frontier)
    urls = [normalise(f"{HOSTS[0]}/{number}") for number in range(4)]
    await push(frontier, urls)
    await fetch_queued(frontier, refresher)
    slow = {"delay_ms": 60_000, "per_host": 1, "census_at_ms": 1 << 53}
    with redis_server.client() as redis:
        for shard in frontier.shards:
            redis.hset(keys.meta(shard.crawl, shard.number), mapping=slow)
            set_clock(redis, 1, shard.crawl, shard.number)
    await refresher.wake(100)
    turns = {number: page.due_ms for number, page in (await at_rest(frontier)).items()}
    assert len(set(turns.values())) == 3, "one is woken, the others have turns"
    await refresher.take_census()
    modified_s = int(min(turns.values()) // 1000 - 60)
    await refresher.hint(dict.fromkeys(urls, modified_s))
    assert {number: page.due_ms for number, page in (await at_rest(frontier)).items()} == turns


async def test_what_a_sitemap_says_was_modified_since_is_due_at_once(frontier: Frontier) -> None:
    refresher = Refresher(frontier)
    old, new, future = urls = [normalise(f"{HOSTS[0]}/{name}") for name in ("old", "new", "future")]
    await push(frontier, urls)
    await fetch_all(frontier, refresher)
    numbers = {url: resting.number_of(*url) for url in urls}
    shard = frontier.shard_of(HOSTS[0])
    later_ms = await shard.now_ms() + 3_600_000
    await resting.reschedule(shard, dict.fromkeys(numbers.values(), later_ms))
    await asyncio.sleep(1.1)  # a date has whole seconds
    await refresher.wake(1)
    now_s = await shard.now_ms() // 1000
    hint = {old: now_s - 86_400, new: now_s, future: now_s + 86_400, normalise("http://x/"): now_s}
    await refresher.hint(hint)
    due_ms = {url: (await at_rest(frontier))[number].due_ms for url, number in numbers.items()}
    assert due_ms[old] == due_ms[future] == later_ms
    assert due_ms[new] <= (now_s + 2) * 1000


async def test_a_long_sitemap_is_looked_up_piece_by_piece(
    frontier: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    refresher = Refresher(frontier)
    urls = [normalise(f"{HOSTS[0]}/{number}") for number in range(1200)]
    await push(frontier, urls[::100])
    await fetch_queued(frontier, refresher)
    shard = frontier.shard_of(HOSTS[0])
    later_ms = await shard.now_ms() + 3_600_000
    await resting.reschedule(shard, dict.fromkeys(await at_rest(frontier), later_ms))
    asked, among = [], resting.among

    async def noted(shard: Shard, numbers: list[bytes]) -> list[resting.Resting]:
        asked.append(len(numbers))
        return await among(shard, numbers)

    monkeypatch.setattr(resting, "among", noted)
    await asyncio.sleep(1.1)  # a date has whole seconds
    await refresher.wake(1)
    await refresher.hint(dict.fromkeys(urls, await shard.now_ms() // 1000))
    assert asked == [500, 500, 200]
    assert all(page.due_ms < later_ms for page in (await at_rest(frontier)).values())


async def test_what_visits_have_found_is_kept_for_the_next(frontier: Frontier) -> None:
    refresher = Refresher(frontier)
    url = normalise(f"{HOSTS[0]}/page")
    await push(frontier, [url], level=70)
    shard = frontier.shard_of(url.host)
    for body in (b"one", b"one", b"two"):
        await fetch_all(frontier, refresher, body)
        await resting.reschedule(shard, {resting.number_of(*url): 0})
    [found] = (await at_rest(frontier)).values()
    assert found.priority == 70, "at whichever level it was revisited"
    assert found.visit.digest == hashlib.sha256(b"two").digest()[:8]
    changes, changed_s, unchanged_s = found.visit.history
    assert changes == pytest.approx(1)
    assert min(changed_s, unchanged_s) > 0
    assert found.visit.history != History()
    counts = await frontier.counts()
    assert (counts["done"], counts["resting"], counts["revisits"]) == (1, 1, 2)


@pytest.mark.parametrize(
    ("status", "verdict"), [(503, "done"), (403, "done"), (410, "dead"), (404, "dead")]
)
async def test_a_page_that_cannot_be_had_rests_unless_it_is_gone(
    frontier: Frontier, status: int, verdict: str
) -> None:
    refresher = Refresher(frontier)
    url = normalise(f"{HOSTS[0]}/page")
    await push(frontier, [url])
    await fetch_all(frontier, refresher)
    await resting.reschedule(frontier.shard_of(url.host), {resting.number_of(*url): 0})
    await refresher.wake(10)
    [lease] = (await frontier.lease(10)).leases
    attempt = Attempt(lease, status=status)
    told = refresher.settle(attempt, Settlement(lease.token, "dead", reason=f"http_{status}"))
    assert told.verdict == verdict
    await frontier.settle([(lease.shard, told)])
    counts = await frontier.counts()
    assert counts.get("resting", 0) == (verdict == "done")


@pytest.mark.parametrize(
    ("reason", "verdict"), [("robots_unreachable", "done"), ("robots", "filtered")]
)
async def test_a_page_rests_while_robots_txt_cannot_be_had_and_no_more_once_it_disallows_it(
    frontier: Frontier, reason: str, verdict: str
) -> None:
    refresher = Refresher(frontier)
    url = normalise(f"{HOSTS[0]}/page")
    await push(frontier, [url])
    await fetch_all(frontier, refresher)
    await resting.reschedule(frontier.shard_of(url.host), {resting.number_of(*url): 0})
    await refresher.wake(10)
    [lease] = (await frontier.lease(10)).leases
    told = refresher.settle(Attempt(lease), Settlement(lease.token, "filtered", reason=reason))
    assert told.verdict == verdict
    await frontier.settle([(lease.shard, told)])
    counts = await frontier.counts()
    assert counts.get("resting", 0) == (verdict == "done")


async def test_a_body_that_is_not_read_has_changed_if_its_server_says_so(
    frontier: Frontier,
) -> None:
    refresher, url = Refresher(frontier), normalise(f"{HOSTS[0]}/picture")
    await push(frontier, [url])
    words = []
    for etag in ("1", "1", "2"):
        await refresher.wake(100)
        [lease] = (await frontier.lease(1)).leases
        attempt = Attempt(lease, status=200)
        words.append(refresher.note(attempt, Response(str(url), headers={"ETag": etag}), b""))
        settlement = refresher.settle(attempt, Settlement(lease.token, "done"))
        await frontier.settle([(lease.shard, settlement)])
        await resting.reschedule(frontier.shard_of(url.host), {resting.number_of(*url): 0})
    assert words == ["new", "unchanged", "changed"]
