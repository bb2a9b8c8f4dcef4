"""A real server whose clock is set while workers are at a crawl."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.messages import Lease, Settlement
from crawlproj.frontier.plan import Plan
from crawlproj.frontier.shared_pace import SharedPace, Turn
from crawlproj.server.connection import connect
from tests.contract.shared_crawl import done
from tests.lua.helpers import CRAWL, A, B, link
from tests.servers.frontier import push_all, reclaim
from tests.servers.redis import PATIENCE, RedisServer, server_binary

TIMEOUT_MS = 60_000
HOUR_S = 3600


class SetServer(RedisServer):
    """A server whose clock differs from the machine's by as many seconds as it was set by."""

    def __init__(self, folder: Path, library: Path) -> None:
        self._offset = folder / "offset"
        self.set_clock(0)
        faked = {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(self._offset),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        super().__init__(folder, environment=faked)

    def set_clock(self, seconds: int) -> None:
        self._offset.write_text(f"{seconds:+d}\n")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SetServer]:
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    if not found:
        pytest.skip("libfaketime is not installed (apt-get install faketime)")
    server = SetServer(tmp_path, found[0])
    if not runs_with(server.environment):
        pytest.skip("libfaketime cannot load this server: it hangs where jemalloc is a library")
    with server:
        yield server


def runs_with(environment: Mapping[str, str]) -> bool:
    command = [server_binary(), "--version"]
    try:
        subprocess.run(command, env=environment, capture_output=True, timeout=10, check=True)
    except subprocess.TimeoutExpired:
        return False
    return True


async def _join(server: RedisServer, name: str) -> Frontier:
    frontier = Frontier(await connect(server.url), CRAWL, name)
    await frontier.open(Plan(seen_capacity=1000), "run")
    await frontier.renew(TIMEOUT_MS, {})
    return frontier


async def step(server: SetServer, client: Any, seconds: int) -> None:
    """Set the clock, and wait until it is."""
    before_s = (await client.time())[0]
    server.set_clock(seconds)
    while abs((await client.time())[0] - before_s) < abs(seconds) / 2:
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("step_s", [HOUR_S, -HOUR_S], ids=["forward", "back"])
async def test_hosts_and_workers_do_not_notice_that_the_clock_is_set_by_an_hour(
    server: SetServer, step_s: int
) -> None:
    async with asyncio.timeout(60 * PATIENCE):
        first, second = await _join(server, "first"), await _join(server, "second")
        await push_all(first, [link(host, path) for host in (A, B) for path in ("/1", "/2")])
        under_way, ended = (await first.lease(2)).leases
        assert await done(first, [ended], pause_ms=1000) == 0
        await step(server, first.client, step_s)
        assert (await reclaim(second)).workers == 0
        while not (leases := (await second.lease(2)).leases):
            await asyncio.sleep(0.01)
        assert [lease.host for lease in leases] == [B], "A is being asked"
        assert await done(first, [under_way]) == 0
        for one in (first, second):
            await one.close()


async def test_between_crawls_a_clock_set_forward_lets_one_request_a_connection_come_early(
    server: SetServer,
) -> None:
    """What crawls share of a host expires by that clock; each crawl itself goes by its own."""
    async with asyncio.timeout(60 * PATIENCE):
        client = await connect(server.url)
        paces = {name: SharedPace(client, name, "w") for name in ("docs", "blog", "shop")}

        async def waits_ms(name: str) -> int:
            turn = Turn(Lease(0, 1, A, 0, b""), A, TIMEOUT_MS, 1)
            return (await paces[name].take([turn])).get((0, 1), 0)

        assert [await waits_ms(name) for name in ("docs", "blog")] == [0, TIMEOUT_MS]
        await step(server, client, HOUR_S)
        assert await waits_ms("blog") == 0
        assert await waits_ms("shop") > 0
        assert not await paces["docs"].renew(TIMEOUT_MS), "its turn is another's now"
        await paces["blog"].end([(0, Settlement(1, "done", pause_ms=TIMEOUT_MS))])
        assert await waits_ms("shop") > 0
        await client.aclose()
