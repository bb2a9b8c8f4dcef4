"""Which connections are kept, and for whom one is made."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest

from crawlproj.errors import NoLongerOurs
from crawlproj.fetch.addresses import AddressPolicy
from crawlproj.fetch.connections import SafeConnector, may_keep
from crawlproj.fetch.handler import open_session
from tests.servers.origin import Origin, Reply

ROOT = Path(__file__).parents[2]
ASK = """
import resource
from crawlproj.fetch.connections import most_idle
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
for allowed in {allowed}:
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, most))
    print(most_idle())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no such limits")
def test_a_quarter_of_the_open_files_goes_to_hosts_that_rest() -> None:
    command = [sys.executable, "-c", ASK.format(allowed=[100, 256, 1024])]
    printed = subprocess.check_output(command, cwd=ROOT, text=True)
    assert printed.split() == ["64", "64", "256"]


@pytest.mark.parametrize(
    ("hosts", "kept", "may"),
    [
        (0, 0, True),
        (1, 99, True),
        (1, 100, False),
        (10, 9, True),
        (10, 10, False),
        (99, 0, True),
        (100, 0, False),
        (100, 1, False),
    ],
)
def test_a_host_keeps_its_share_of_a_hundred_connections(hosts: int, kept: int, may: bool) -> None:
    assert may_keep(hosts, kept, most=100) is may


def test_no_request_is_sent_that_may_be_another_workers_by_now() -> None:
    """Time passes while a name is resolved and a connection made, or a process stands still."""
    is_ours = True

    async def ask(session: aiohttp.ClientSession, url: str) -> int:
        async with session.get(url) as response:
            return response.status

    async def test(origin: Origin) -> None:
        nonlocal is_ours
        connector = SafeConnector(AddressPolicy(["loopback"]), lambda: is_ours)
        async with open_session(connector) as session:
            assert await ask(session, origin.url("/first")) == 200
            is_ours = False
            for _ in range(2):
                with pytest.raises(NoLongerOurs):
                    await ask(session, origin.url("/second"))
            is_ours = True
            assert await ask(session, origin.url("/third")) == 200

    with Origin({}, default=Reply()) as origin:
        asyncio.run(test(origin))
        assert [one.path for one in origin.requests()] == ["/first", "/third"]
