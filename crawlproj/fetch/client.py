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
from collections.abc import Callable, Hashable, Sequence
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
"""How often it is looked for servers that have not begun to answer."""

VERSIONS = {
    "1.1": pycurl.CURL_HTTP_VERSION_1_1,
    "2": pycurl.CURL_HTTP_VERSION_2TLS,
    "3": pycurl.CURL_HTTP_VERSION_3,
}
"""Of HTTP, by the highest that is spoken; a server that has only lower ones is answered in them."""


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
            gate, resolved = self._at_once(call) or await self._looked_up(call)
            where = self._shared(call)
            if where is not None and where in self._firsts:
                await self._wait_for_first(where, call)
                where = None
            if under_way not in self._under_way:  # while it waited
                raise DownloadFailedError(BROKEN_OFF)
            return await self._transferred(call, gate, resolved, where)
        finally:
            self._under_way.discard(under_way)

    async def _transferred(
        self, call: Call, gate: Gate, resolved: str | None, where: Hashable | None
    ) -> Answer:
        """Its answer; `where` the connection leads that this exchange is the first to make."""
        transfer = self._free.pop() if self._free else self._new_transfer()
        turn = None if where is None else self._firsts.begin(where)
        if turn is not None:
            transfer.on_connected = functools.partial(self._firsts.end, where, turn)
        try:
            self._begin(transfer, call, gate, resolved)
            code, text = await self._run(transfer)
            if transfer.may_go_again and transfer.is_over_shared:
                self._begin(transfer, call, gate, resolved, (pycurl.FORBID_REUSE, 1))
                code, text = await self._run(transfer)
            if transfer.may_go_again:
                self._begin(transfer, call, gate, resolved, (pycurl.FRESH_CONNECT, 1))
                code, text = await self._run(transfer)
            return self._judged(transfer, call, gate, code, text)
        finally:
            if turn is not None:
                self._firsts.end(where, turn)
            transfer.rest()
            self._free.append(transfer)

    def break_off(self) -> int:
        """Break off every exchange that is under way; returns how many there were."""
        broken_off = len(self._under_way)
        self._under_way.clear()
        self._firsts.break_off(DownloadFailedError(BROKEN_OFF))
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

    def _at_once(self, call: Call) -> tuple[Gate, str | None] | None:
        """The way to a host whose addresses are known."""
        endpoint = endpoint_of(call.url)
        is_open = call.proxy is not None
        if call.proxy is not None:
            if endpoint.literal:
                self._judge_behind_proxy(endpoint)
            endpoint = endpoint_of(call.proxy, PORTS)
        if endpoint.literal:
            return Gate(self._policy, endpoint, (endpoint.literal,), is_open), None
        addresses = self._names.known(endpoint.host)
        if addresses is None:
            return None
        return Gate(self._policy, endpoint, addresses, is_open), _resolved(endpoint, addresses)

    async def _looked_up(self, call: Call) -> tuple[Gate, str | None]:
        """The same, after its name was resolved, which counts as part of the exchange."""
        endpoint = endpoint_of(call.proxy or call.url, PORTS)
        began_s = time.monotonic()
        try:
            async with asyncio.timeout(call.timeout_s):
                addresses = await self._names.look_up(endpoint.host)
        except TimeoutError:
            raise _too_late(call) from None
        except OSError as error:
            raise CannotResolveHostError(f"{endpoint.host}: {error.strerror or error}") from error
        call.timeout_s = max(0.001, call.timeout_s - (time.monotonic() - began_s))
        gate = Gate(self._policy, endpoint, addresses, is_open=call.proxy is not None)
        return gate, _resolved(endpoint, addresses)

    def _judge_behind_proxy(self, endpoint: Endpoint) -> None:
        if reason := self._policy.refusal(endpoint.literal, endpoint.host):
            raise AddressRefused(endpoint.host, {endpoint.host: reason})

    # One exchange

    def _shared(self, call: Call) -> Hashable | None:
        """Where a connection leads that others may share; None if none does. Without TLS, that is
        known by an answer and no sooner: all of that would be waited for."""
        if not self._is_multiplexed or call.url[:6].lower() != "https:":
            return None
        endpoint = endpoint_of(call.url)
        if endpoint in self._unshared:
            return None
        return endpoint, call.proxy, call.proxy_authorization, call.bind

    async def _wait_for_first(self, where: Hashable, call: Call) -> None:
        """For who makes a connection there, which counts as part of the exchange."""
        began_s = time.monotonic()
        try:
            async with asyncio.timeout(call.timeout_s):
                await self._firsts.wait(where)
        except TimeoutError:
            raise _too_late(call) from None
        call.timeout_s = max(0.001, call.timeout_s - (time.monotonic() - began_s))

    def _new_transfer(self) -> Transfer:
        return Transfer(self._options, self._kept, self._may_send)

    def _begin(
        self,
        transfer: Transfer,
        call: Call,
        gate: Gate,
        resolved: str | None,
        *again: tuple[int, Any],
    ) -> None:
        """Make it ready. Again, after it was held back, it has libcurl close the connection that
        was of no use, if that is shared, and then open one of its own: libcurl would offer what is
        shared to each request of a second, and they would have a new connection each."""
        is_alone = bool(self._talkers) and endpoint_of(call.url) in self._talkers
        is_secure = call.url[:6].lower() == "https:"
        host = endpoint_of(call.url).host if is_secure else ""
        try:
            transfer.begin(
                call,
                gate.may_connect,
                resolved=resolved,
                share=self._tls.sessions(host) if is_secure else None,
                special=[
                    *(self._tls.client_options(host) if is_secure else ()),
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
        if transfer.head is not None and transfer.head.protocol.startswith("HTTP/1"):
            self._unshared.add(endpoint_of(call.url))
        if not code or transfer.is_stopped:
            return transfer.answer()
        if gate.has_refused_all:
            raise AddressRefused(gate.endpoint.host, gate.refused or {})
        if code == pycurl.E_OPERATION_TIMEDOUT:
            raise _too_late(call) from None
        if is_plain_close(code, text) and transfer.head and transfer.head.ends_by_closing:
            return transfer.answer()
        error = named(code, text, has_head=transfer.head is not None)
        is_headless = transfer.head is None and transfer.is_over_kept
        if isinstance(error, BadResponse) and transfer.is_secure and is_headless:
            # It may be the rest of another answer, so it is asked for again, over a new connection.
            self._talkers.add(endpoint_of(call.url))
            raise DownloadFailedError(f"after another answer: {error}")
        if isinstance(error, ResponseDataLossError) and call.keeps_part:
            return transfer.answer(is_cut_off=True)
        raise error

    async def _run(self, transfer: Transfer) -> tuple[int, str]:
        """Until it has ended; cancelled, it is broken off at once."""
        if self._curl_loop is None:
            self._curl_loop = CurlLoop(self._most_kept)
        loop = asyncio.get_running_loop()
        ended = transfer.ended = loop.create_future()
        self._active[transfer] = time.monotonic()
        if self._first_byte_s and self._silence_timer is None:
            self._silence_timer = loop.call_later(SWEEP_S, self._look_for_silence)
        self._curl_loop.start(transfer.curl, transfer.end)
        try:
            code, text = await ended
            return code, text
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
        transfer.error = error
        transfer.end(pycurl.E_ABORTED_BY_CALLBACK, str(error))


def _spoken(http: str) -> str:
    if http == "3" and not can_http3():
        logger.warning("CRAWL_HTTP=3: this libcurl has no HTTP/3, so HTTP/2 is the highest")
        return "2"
    return http


def _resolved(endpoint: Endpoint, addresses: Sequence[str]) -> str:
    """For CURLOPT_RESOLVE; the + has libcurl forget it after a while."""
    return f"+{endpoint.host}:{endpoint.port}:{','.join(addresses)}"


def _too_late(call: Call) -> DownloadTimeoutError:
    return DownloadTimeoutError(f"{call.url} took longer than {call.timeout_s:g} s")
