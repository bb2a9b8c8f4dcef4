"""Which connections are kept, for whom one is made, and to which addresses."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pycurl
import pytest
from scrapy.exceptions import DownloadConnectionRefusedError

from crawlproj.errors import NoLongerOurs
from crawlproj.fetch.addresses import AddressPolicy
from crawlproj.fetch.endpoints import Gate, endpoint_of
from crawlproj.fetch.resolving import Names
from tests.servers.clients import Answers, call, client
from tests.servers.origin import Origin, Reply

ROOT = Path(__file__).parents[2]
ASK = """
import resource
from crawlproj.fetch.open_files import most_kept, raise_limit
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
for allowed in {allowed}:
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, most))
    print(most_kept())
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 4000))
raise_limit()
print(most_kept(), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no such limits")
def test_a_quarter_of_the_open_files_that_can_be_had_goes_to_hosts_that_rest() -> None:
    command = [sys.executable, "-c", ASK.format(allowed=[100, 256, 1024])]
    printed = subprocess.check_output(command, cwd=ROOT, text=True)
    assert printed.split() == ["64", "64", "256", "1000", "4000", "4000"]


async def test_no_request_is_sent_that_may_be_another_workers_by_now() -> None:
    """Time passes while a name is resolved and a connection made, or a process stands still."""
    is_ours = True
    with Origin({}, default=Reply()) as origin:
        async with client(may_send=lambda: is_ours) as asking:
            assert (await asking.exchange(call(origin.url("/first")))).head.status == 200
            is_ours = False
            for _ in range(2):
                with pytest.raises(NoLongerOurs):
                    await asking.exchange(call(origin.url("/second")))
            is_ours = True
            assert (await asking.exchange(call(origin.url("/third")))).head.status == 200
        assert [one.path for one in origin.requests()] == ["/first", "/third"]


class Counting:
    """A name server that notes what it is asked, and waits until it may answer."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.may_answer = asyncio.Event()

    async def resolve(self, host: str) -> list[str]:
        self.asked.append(host)
        await self.may_answer.wait()
        if host == "nowhere":
            raise OSError(None, "no such name")
        return ["127.0.0.1"]

    async def close(self) -> None:
        pass


async def test_a_name_that_is_being_looked_up_is_asked_for_once() -> None:
    server = Counting()
    names = Names(server, ttl_s=60, most=10)
    lookups = [asyncio.create_task(names.look_up("a")) for _ in range(3)]
    await asyncio.sleep(0)
    lookups[0].cancel()  # who leaves takes the answer from nobody
    server.may_answer.set()
    assert [await one for one in lookups[1:]] == [["127.0.0.1"]] * 2
    assert names.known("a") == ["127.0.0.1"]
    assert server.asked == ["a"]


async def test_failures_are_not_remembered_and_the_oldest_name_makes_room() -> None:
    server = Counting()
    server.may_answer.set()
    names = Names(server, ttl_s=60, most=2)
    for _ in range(2):
        with pytest.raises(OSError, match="no such name"):
            await names.look_up("nowhere")
    for name in ("a", "b", "c"):
        await names.look_up(name)
    assert [names.known(name) for name in ("nowhere", "a")] == [None, None]
    assert names.known("b") == names.known("c") == ["127.0.0.1"]
    forgetful = Names(server, ttl_s=0, most=2)
    await forgetful.look_up("a")
    assert forgetful.known("a") is None


async def test_every_connection_goes_to_the_addresses_that_were_found_for_it() -> None:
    """libcurl forgets them after a while, and would then ask the system's name server."""
    forgetful = [(pycurl.DNS_CACHE_TIMEOUT, 1), (pycurl.FORBID_REUSE, 1)]
    with Origin({}, default=Reply()) as origin:
        url = origin.url("/").replace("127.0.0.1", "only-we-know.invalid")
        async with client(resolver=Answers(*[["127.0.0.1"]] * 2), options=forgetful) as asking:
            assert (await asking.exchange(call(url))).head.status == 200
            await asyncio.sleep(2.1)  # libcurl counts in whole seconds, and tells nobody
            assert (await asking.exchange(call(url))).head.status == 200


async def test_an_address_that_was_not_found_for_a_host_is_not_contacted_this_time() -> None:
    """It says nothing of the host: the page may be asked for again."""
    elsewhere = [(pycurl.CONNECT_TO, ["::127.0.0.2:"])]
    with Origin({}, default=Reply()) as origin:
        url = origin.url("/").replace("127.0.0.1", "somewhere.invalid")
        async with client(resolver=Answers(["127.0.0.1"]), options=elsewhere) as asking:
            with pytest.raises(DownloadConnectionRefusedError):
                await asking.exchange(call(url))
        assert origin.requests() == []


def test_a_host_is_not_judged_by_an_address_that_is_none_of_its_own() -> None:
    gate = Gate(AddressPolicy([]), endpoint_of("http://a.example/"), ["10.0.0.1"], is_open=False)
    assert not gate.may_connect("10.0.0.1")
    assert gate.has_refused_all
    assert not gate.may_connect("8.8.8.8")
    assert not gate.has_refused_all
