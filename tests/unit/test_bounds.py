"""What a worker keeps in memory is bounded, whatever the web sends it."""

from __future__ import annotations

import asyncio
import math
import tracemalloc
from collections.abc import AsyncIterator

import pytest

from crawlproj.discover import known_links
from crawlproj.discover.known_links import KnownLinks
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.messages import Kind, Push, Settlement
from crawlproj.frontier.plan import Plan
from crawlproj.politeness import robots, robots_memory
from crawlproj.politeness.robots_memory import Known, Memory
from crawlproj.politeness.robots_store import Kept, RobotsStore
from crawlproj.server.connection import connect
from crawlproj.worker.exchange import Worker
from tests.contract.mortal import Judged, judged
from tests.servers.frontier import push_all, reclaim
from tests.servers.redis import RedisServer


def test_the_memo_forgets_the_older_half_of_its_links() -> None:
    known = KnownLinks()
    for number in range(3 * known_links.MOST):
        known.add("http://a", f"/{number}")
    assert len(known) <= known_links.MOST
    assert ("http://a", f"/{3 * known_links.MOST - 1}") in known
    assert known.unknown("http://a", ["/0", f"/{3 * known_links.MOST - 1}"]) == ["/0"]


def test_the_memo_forgets_links_the_sooner_the_more_hosts_they_are_of() -> None:
    known = KnownLinks()
    for number in range(known_links.MOST):
        known.add(f"http://h{number}", "/")
    assert len(known) <= known_links.MOST // known_links.HOST_LINKS


def test_the_memo_does_not_keep_very_long_links() -> None:
    known = KnownLinks()
    known.add("http://a", "/" + "x" * known_links.LONGEST)
    assert len(known) == 0


def test_rules_of_robots_files_are_remembered_up_to_so_many_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Short rules take many times their file."""
    monkeypatch.setattr(robots_memory, "MOST_LONG_BYTES", 300_000)
    lines = b"".join(b"Disallow: /%x\n" % number for number in range(1000))
    memory = Memory()
    tracemalloc.start()
    for number in range(20):
        rules = robots.parse(b"User-agent: *\n" + lines, "me")
        memory.put(f"http://h{number}", Known(rules, until=math.inf))
    kept_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert rules.size_bytes > robots_memory.SHORT_BYTES
    assert kept_bytes < 600_000
    assert memory.valid("http://h19") is not None
    assert memory.valid("http://h0") is None


def test_rules_that_take_much_push_out_none_that_take_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small = robots.parse(b"User-agent: *\nDisallow: /x", "me")
    lines = b"".join(b"Disallow: /%x\n" % number for number in range(5000))
    large = robots.parse(b"User-agent: *\n" + lines, "me")
    monkeypatch.setattr(robots_memory, "MOST_LONG_BYTES", 2 * large.size_bytes)
    memory = Memory()
    short, long = ([f"http://{kind}{number}" for number in range(100)] for kind in "sl")
    for host in short:
        memory.put(host, Known(small, until=math.inf))
    for host in long:
        memory.put(host, Known(large, until=math.inf))
    assert [host for host in short if memory.valid(host) is None] == []
    assert [host for host in long if memory.valid(host)] == long[-2:]


async def test_hosts_that_never_answer_are_remembered_up_to_so_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(robots_memory, "MOST_HOSTS", 100)
    store = RobotsStore(Frontier(None, "c", "w"))
    for number in range(500):
        assert not await store.is_ours_to_ask(f"http://h{number}", Kept())
    assert store.remembered == 100


@pytest.fixture
async def worker(redis_server: RedisServer) -> AsyncIterator[Worker]:
    """With four pages at hand, and room for three links or ended pages."""
    frontier = Frontier(await connect(redis_server.url), "c", "w")
    await frontier.open(Plan(seen_capacity=100, per_host=4), "run")
    await frontier.renew(60_000, {})
    pages = [Push(Kind.SEED, "http://a", 0, b"\0\1/%d" % n, f"/{n}") for n in range(4)]
    await push_all(frontier, pages)
    worker = Worker(frontier, Judged(), connections=4, lease_timeout_s=60, most_waiting=3)
    await worker.lease(4)
    yield worker
    await frontier.close()


async def test_a_worker_with_too_many_links_in_hand_begins_no_more_pages(worker: Worker) -> None:
    for number in range(3):
        assert worker.take() is not None
        worker.push(Push(Kind.LINK, "http://a", 0, b"", f"/{number}"))
    assert worker.take() is None
    assert worker.leased_ahead == 1


async def test_a_worker_with_too_many_ended_pages_in_hand_begins_no_more(worker: Worker) -> None:
    for number in range(3):
        assert worker.take() is not None
        worker.end(judged(Settlement(number, "done")))
    assert worker.take() is None
    assert worker.leased_ahead == 1


async def test_a_worker_that_was_declared_dead_forgets_what_it_was_about_to_fetch(
    redis_server: RedisServer,
) -> None:
    client = await connect(redis_server.url)
    frontier = Frontier(client, "c", "w")
    await frontier.open(Plan(seen_capacity=100), "run")
    worker = Worker(frontier, Judged(), connections=4, lease_timeout_s=60)
    await push_all(frontier, [Push(Kind.SEED, "http://a", 0, b"\0\1/", "http://a/")])
    await frontier.renew(1, {})
    await worker.lease(1)
    await asyncio.sleep(0.01)
    await reclaim(frontier)
    await worker.lease(1)
    await client.aclose()
    assert worker.leased_ahead == worker.leases == 1
