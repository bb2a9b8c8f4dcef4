"""A Redis that dies in the middle of a write: an operation is on disk whole, or not at all.

The last transaction of the append-only file is cut off at its bytes, and the server is started
again from what is left each time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from crawlproj.frontier import burying
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.messages import Settlement
from crawlproj.frontier.plan import Plan
from crawlproj.server.connection import connect
from tests.lua.helpers import CRAWL, A, B, State, assert_balanced, link, structures
from tests.servers.frontier import push_all
from tests.servers.redis import RedisServer

CONFIG = ("appendonly yes", "appendfsync always", "aof-load-truncated yes")
CUTS = 8

Operation = Callable[[Frontier], Awaitable[object]]


async def push(frontier: Frontier) -> None:
    await push_all(frontier, [link(A, "/new"), link(B, "/new")])


async def lease(frontier: Frontier) -> None:
    await frontier.lease(5)


async def settle(frontier: Frontier) -> None:
    first, second = await frontier.held_leases()
    await frontier.settle([(0, Settlement(first.token, "done", pause_ms=1000))])
    await frontier.settle([(0, Settlement(second.token, "dead", reason="dns"))])


async def reclaim(frontier: Frontier) -> None:
    await frontier.leave()
    await burying.reclaim(frontier.shards[0], frontier.worker)


async def _files(server: RedisServer, work: Operation) -> tuple[bytes, bytes]:
    """Begin a crawl and do one thing with it; returns the file before and after."""
    client = await connect(server.url)
    frontier = Frontier(client, CRAWL, "w")
    await frontier.open(Plan(seen_capacity=3000, per_host=2), "run")
    await frontier.renew(1_000_000, {})
    await push_all(frontier, [link(host, f"/{number}") for host in (A, B) for number in range(3)])
    await frontier.lease(2)
    before = _tail(server).read_bytes()
    await work(frontier)
    await client.aclose()
    return before, _tail(server).read_bytes()


def _tail(server: RedisServer) -> Path:
    (found,) = server.folder.glob("appendonlydir/*.incr.aof")
    return found


def _reborn(server: RedisServer, content: bytes) -> State:
    """What a server finds that starts from this file."""
    server.kill()
    _tail(server).write_bytes(content)
    server.start()
    with server.client() as client:
        return structures(client)


def _last_transaction(content: bytes) -> int:
    """Where it begins."""
    return content.rindex(b"*1\r\n$5\r\nMULTI\r\n")


async def _check(folder: Path, work: Operation, step: int | None) -> None:
    with RedisServer(folder / "redis", *CONFIG) as server:
        before, after = await _files(server, work)
        begins = _last_transaction(after)
        assert begins >= len(before)
        undone, done = _reborn(server, after[:begins]), _reborn(server, after)
        assert undone != done
        places = range(begins + 1, len(after), step or max(1, (len(after) - begins) // CUTS))
        for cut in places:
            found = _reborn(server, after[:cut])
            assert found == undone, f"cut after byte {cut - begins} of {len(after) - begins}"
            assert_balanced(found)


@pytest.mark.parametrize("work", [push, lease, settle, reclaim])
async def test_an_operation_that_was_cut_off_has_not_happened(
    tmp_path: Path, work: Operation
) -> None:
    await _check(tmp_path, work, step=None)


@pytest.mark.slow
@pytest.mark.parametrize("work", [push, lease, settle, reclaim])
async def test_wherever_it_was_cut_off_it_has_not_happened(tmp_path: Path, work: Operation) -> None:
    await _check(tmp_path, work, step=1)
