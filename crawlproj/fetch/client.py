"""An HTTP client for hostile servers, on libcurl: HTTP/1.1 and HTTP/2, connections that are kept.

A name is resolved here, and what it resolves to is judged when a socket is opened (addresses.py):
the address that is judged is the one that is connected to, over every version of HTTP. A proxy is
the user's own choice and may be at any address. It resolves the names that it is asked for, so
behind one only URLs that hold an address can be judged.

Pace, retries and redirects are not decided here.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pycurl
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadFailedError,
    DownloadTimeoutError,
    ResponseDataLossError,
)

from crawlproj.errors import AddressRefused, BadRequest, BadResponse
from crawlproj.fetch.addresses import AddressPolicy
from crawlproj.fetch.curl_loop import CurlLoop
from crawlproj.fetch.endpoints import PORTS, Endpoint, Gate, endpoint_of
from crawlproj.fetch.exchange import Answer, Call
from crawlproj.fetch.failures import is_plain_close, named
from crawlproj.fetch.firsts import Firsts
from crawlproj.fetch.kept import KeptConnections, Marked
from crawlproj.fetch.open_files import most_kept
from crawlproj.fetch.resolving import Names
from crawlproj.fetch.tls import Tls
from crawlproj.fetch.transfer import Transfer

logger = logging.getLogger(__name__)

BROKEN_OFF = "broken off"
SWEEP_S = 0.25
"""Time between two looks for servers that have not begun to answer."""

VERSIONS = {
    "1.1": pycurl.CURL_HTTP_VERSION_1_1,
    "2": pycurl.CURL_HTTP_VERSION_2TLS,
    "3": pycurl.CURL_HTTP_VERSION_3,
}
"""Of HTTP, by the highest that is spoken; a server that has only lower ones is asked in them."""


def can_http3() -> bool:
    """Whether this libcurl was built with it."""
    features: int = pycurl.version_info()[4]
    return bool(features & pycurl.VERSION_HTTP3)


class Client:
    """Makes exchanges, as many at a time as it is asked for; close it at the end."""

    def __init__(
        self,
        policy: AddressPolicy,
        names: Names,
        tls: Tls,
        *,
        http: str = "2",
        connect_s: float = 0.0,
        first_byte_s: float = 0.0,
        may_send: Callable[[], bool] = lambda: True,
        options: Sequence[tuple[int, Any]] = (),
    ) -> None:
        self._policy = policy
        self._names = names
        self._tls = tls
        self._may_send = may_send
        self._is_multiplexed = http != "1.1"
        self._first_byte_s = first_byte_s
        self._options = [
            (pycurl.HTTP_VERSION, VERSIONS[_spoken(http)]),
            *([(pycurl.CONNECTTIMEOUT_MS, int(connect_s * 1000))] if connect_s else []),
            *tls.options,
            *options,
        ]
        self._curl_loop: CurlLoop | None = None
        self._most_kept = most_kept()
        self._kept = KeptConnections(self._most_kept)
        self._talkers = Marked()
        """Hosts that say more than they are asked: each request has its own connection."""
        self._firsts = Firsts()
        self._unshared = Marked()
        """Hosts that have answered in HTTP/1: no request waits for another's connection there."""
        self._free: list[Transfer] = []
        self._under_way: set[object] = set()
        """A mark for each exchange, from its beginning; gone when it is broken off."""
        self._active: dict[Transfer, float] = {}
        self._silence_timer: asyncio.TimerHandle | None = None

    async def exchange(self, call: Call) -> Answer:
        """Send a request and read its answer; raises what failures.py has a name for."""
        under_way = object()
        self._under_way.add(under_way)
        try:
            gate = self._known_gate(call) or await self._looked_up_gate(call)
            where = self._shared(call)
            if where is not None and where in self._firsts:
                async with _on_its_time(call):
                    await self._firsts.wait(where)
                where = None
            if under_way not in self._under_way:  # it was broken off while it waited
                raise DownloadFailedError(BROKEN_OFF)
            return await self._transferred(call, gate, where)
        finally:
            self._under_way.discard(under_way)

    async def _transferred(self, call: Call, gate: Gate, where: Hashable | None) -> Answer:
        """Its answer. `where` is given if this exchange is the first to connect there: others wait
        for it."""
        free = self._free
        transfer = free.pop() if free else Transfer(self._options, self._kept, self._may_send)
        turn = None if where is None else self._firsts.begin(where)
        if turn is not None:
            transfer.on_connected = functools.partial(self._firsts.end, where, turn)
        try:
            ended = await self._run(transfer, call, gate)
            if transfer.may_go_again and transfer.is_over_shared:
                # libcurl would offer the useless connection to every request of the next second,
                # and each would open another: this run has it closed.
                ended = await self._run(transfer, call, gate, (pycurl.FORBID_REUSE, 1))
            if transfer.may_go_again:
                ended = await self._run(transfer, call, gate, (pycurl.FRESH_CONNECT, 1))
            return self._judged(transfer, call, gate, *ended)
        finally:
            if turn is not None:
                self._firsts.end(where, turn)
            transfer.rest()
            free.append(transfer)

    def break_off(self) -> int:
        """Break off every exchange that is under way; returns how many there were. One that waits
        for a name ends when that is known, and does not go out."""
        broken_off = len(self._under_way)
        self._under_way.clear()
        self._firsts.end_all()
        for transfer in list(self._active):
            self._end_early(transfer, DownloadFailedError(BROKEN_OFF))
        return broken_off

    async def close(self) -> None:
        """Break off what is under way and let go of everything."""
        self.break_off()
        if self._silence_timer is not None:
            self._silence_timer.cancel()
        if self._curl_loop is not None:
            self._curl_loop.close()
            self._curl_loop = None
        for transfer in self._free:
            transfer.close()
        self._free.clear()
        self._tls.close()
        await self._names.close()

    # Where to

    def _known_gate(self, call: Call) -> Gate | None:
        """The way to a host whose addresses are known."""
        endpoint = endpoint_of(call.url)
        is_open = call.proxy is not None
        if call.proxy is not None:
            if endpoint.literal:
                self._judge_behind_proxy(endpoint)
            endpoint = endpoint_of(call.proxy, PORTS)
        if endpoint.literal:
            return Gate(self._policy, endpoint, (endpoint.literal,), is_open)
        addresses = self._names.known(endpoint.host)
        return None if addresses is None else Gate(self._policy, endpoint, addresses, is_open)

    async def _looked_up_gate(self, call: Call) -> Gate:
        """The same, after its name was resolved."""
        endpoint = endpoint_of(call.proxy or call.url, PORTS)
        try:
            async with _on_its_time(call):
                addresses = await self._names.look_up(endpoint.host)
        except OSError as error:
            raise CannotResolveHostError(f"{endpoint.host}: {error.strerror or error}") from error
        return Gate(self._policy, endpoint, addresses, is_open=call.proxy is not None)

    def _judge_behind_proxy(self, endpoint: Endpoint) -> None:
        if reason := self._policy.refusal(endpoint.literal, endpoint.host):
            raise AddressRefused(endpoint.host, {endpoint.host: reason})

    # One exchange

    def _shared(self, call: Call) -> Hashable | None:
        """Where a connection leads that others may share; None if none does. Without TLS only an
        answer tells whether it may: who waits would wait for a whole page."""
        if not self._is_multiplexed or call.url[:6].lower() != "https:":
            return None
        endpoint = endpoint_of(call.url)
        if endpoint in self._unshared:
            return None
        return endpoint, call.proxy, call.proxy_authorization, call.bind

    def _begin(self, transfer: Transfer, call: Call, gate: Gate, *again: tuple[int, Any]) -> None:
        """Make it ready; `again` are options of a further run."""
        to = endpoint_of(call.url)
        is_alone, is_secure = to in self._talkers, to.scheme == "https"
        try:
            transfer.begin(
                call,
                gate.may_connect,
                resolved=_resolved(gate),
                share=self._tls.sessions(to.host) if is_secure else None,
                special=[
                    *(self._tls.client_options(to.host) if is_secure else ()),
                    *([(pycurl.FRESH_CONNECT, 1), (pycurl.FORBID_REUSE, 1)] if is_alone else ()),
                    *again,
                ],
            )
        except (pycurl.error, TypeError, ValueError) as error:
            raise BadRequest(f"{call.url[:200]!r}: {error}") from error

    def _judged(self, transfer: Transfer, call: Call, gate: Gate, code: int, text: str) -> Answer:
        """The answer, if the exchange has ended with one."""
        if transfer.is_answered_unasked:
            self._talkers.add(endpoint_of(call.url))
        if transfer.error is not None:
            raise transfer.error
        if not code and transfer.head is None:  # libcurl is content with headers that are cut off
            transfer.look_before_next()
            raise DownloadFailedError("the connection was closed in the middle of the headers")
        head = transfer.head
        if head is not None and head.protocol.startswith("HTTP/1") and self._shared(call):
            self._unshared.add(endpoint_of(call.url))
        if not code or transfer.is_stopped:
            return transfer.answer()
        if gate.has_refused_all:
            raise AddressRefused(gate.endpoint.host, gate.refused or {})
        if code == pycurl.E_OPERATION_TIMEDOUT:
            raise _too_late(call)
        if is_plain_close(code, text) and head is not None and head.ends_by_closing:
            return transfer.answer()
        error = named(code, text, has_head=head is not None)
        may_be_anothers = head is None and transfer.is_over_kept and transfer.is_secure
        if isinstance(error, BadResponse) and may_be_anothers:
            # It may be the rest of another answer, so it is asked for again, over a new connection.
            self._talkers.add(endpoint_of(call.url))
            raise DownloadFailedError(f"after another answer: {error}")
        if isinstance(error, ResponseDataLossError) and call.keeps_part:
            return transfer.answer(is_cut_off=True)
        raise error

    async def _run(
        self, transfer: Transfer, call: Call, gate: Gate, *again: tuple[int, Any]
    ) -> tuple[int, str]:
        """Until it has ended; cancelled, it is broken off at once."""
        self._begin(transfer, call, gate, *again)
        if self._curl_loop is None:
            self._curl_loop = CurlLoop(self._most_kept)
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[tuple[int, str]] = loop.create_future()
        transfer.ended = ended
        self._active[transfer] = time.monotonic()
        if self._first_byte_s and self._silence_timer is None:
            self._silence_timer = loop.call_later(SWEEP_S, self._look_for_silence)
        self._curl_loop.start(transfer.curl, transfer.end)
        try:
            return await ended
        finally:
            self._active.pop(transfer, None)
            if self._curl_loop is not None:
                self._curl_loop.stop(transfer.curl)

    def _look_for_silence(self) -> None:
        late_s = time.monotonic() - self._first_byte_s
        for transfer, began_s in list(self._active.items()):
            if began_s < late_s and transfer.is_silent:
                text = f"no answer within {self._first_byte_s:g} s"
                self._end_early(transfer, DownloadTimeoutError(text))
        loop = asyncio.get_running_loop()
        self._silence_timer = (
            loop.call_later(SWEEP_S, self._look_for_silence) if self._active else None
        )

    def _end_early(self, transfer: Transfer, error: Exception) -> None:
        assert self._curl_loop is not None
        self._active.pop(transfer, None)
        self._curl_loop.stop(transfer.curl)
        transfer.break_off(error)


def _spoken(http: str) -> str:
    if http == "3" and not can_http3():
        logger.warning("CRAWL_HTTP=3: this libcurl has no HTTP/3, so HTTP/2 is the highest")
        return "2"
    return http


def _resolved(gate: Gate) -> str | None:
    """For CURLOPT_RESOLVE, where the host is a name; the + has libcurl forget it after a while."""
    to = gate.endpoint
    return None if to.literal else f"+{to.host}:{to.port}:{','.join(gate.addresses)}"


@asynccontextmanager
async def _on_its_time(call: Call) -> AsyncIterator[None]:
    """What is waited for here counts as part of the exchange."""
    began_s = time.monotonic()
    try:
        async with asyncio.timeout(call.left_s):
            yield
    except TimeoutError:
        raise _too_late(call) from None
    call.waited_s += time.monotonic() - began_s


def _too_late(call: Call) -> DownloadTimeoutError:
    return DownloadTimeoutError(f"{call.url} took longer than {call.timeout_s:g} s")
