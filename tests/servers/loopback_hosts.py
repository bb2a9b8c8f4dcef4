"""Hosts that answer as a test says, each at a loopback address of its own, with one log."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

from crawlproj.demo.protocol import Connection, Reply, Request, make_reply
from crawlproj.demo.serve import listen
from crawlproj.operate.request_log import Logged

HTML = {"Content-Type": "text/html"}


@dataclass
class LoopbackHost:
    """What one host answers: its pages are /, /1, /2, …; those below /private/ are nobody's."""

    crawl_delay_s: float = 0.0
    latency_s: float = 0.0
    pages: int = 6
    slow: Mapping[str, float] = field(default_factory=dict)
    overloaded: Mapping[str, int] = field(default_factory=dict)
    """Pages that answer 503 the first time, and the Retry-After they send; 0 sends none."""
    _failed: set[str] = field(default_factory=set)

    @cached_property
    def paths(self) -> set[str]:
        return {"/", *(f"/{number}" for number in range(1, self.pages))}

    def answer(self, request: Request) -> Reply:
        path = request.target
        if path == "/robots.txt":
            rules = f"User-agent: *\nCrawl-delay: {self.crawl_delay_s}\nDisallow: /private/\n"
            return make_reply(200, {}, (rules.encode(),), self.latency_s)
        if path in self.overloaded and path not in self._failed:
            self._failed.add(path)
            after = self.overloaded[path]
            return make_reply(503, {"Retry-After": str(after)} if after else {}, (), self.latency_s)
        if path not in self.paths:
            return make_reply(404, HTML)
        links = self.paths if path == "/" else {"/"}
        hrefs = "".join(f"<a href={link}>x</a>" for link in links)
        body = f"<title>{path}</title>{hrefs}<a href=/private/{path[1:]}>x</a>"
        return make_reply(200, HTML, (body.encode(),), self.slow.get(path, self.latency_s))


class CutConnection(Connection):
    """A connection that can be cut."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.cut = cast(asyncio.Transport, transport).abort


class LoopbackHosts:
    """Hosts on loopback, each at an address of its own, and one log of all their requests."""

    def __init__(self, hosts: list[LoopbackHost]) -> None:
        self._sockets = listen([f"127.0.9.{number + 1}" for number in range(len(hosts))], 0)
        names = ["{}:{}".format(*bound.getsockname()) for bound in self._sockets]
        self.hosts = dict(zip(names, hosts, strict=True))
        self.log: list[Logged] = []
        self._loop = asyncio.new_event_loop()
        self._stopped = asyncio.Event()
        self._connected: list[CutConnection] = []

    @property
    def seeds(self) -> str:
        return ",".join(f"http://{name}/" for name in self.hosts)

    @contextmanager
    def open(self) -> Iterator[LoopbackHosts]:
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._stopped.set)
            thread.join()

    def is_crawled(self, names: Iterable[str]) -> bool:
        """Whether they have been asked for all of their pages and for robots.txt."""
        asked = Counter(request.host for request in self.log)
        return all(asked[name] == self.hosts[name].pages + 1 for name in names)

    def by_host(self) -> dict[str, list[Logged]]:
        requests: defaultdict[str, list[Logged]] = defaultdict(list)
        for request in sorted(self.log):
            requests[request.host].append(request)
        return requests

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        servers = [
            await self._loop.create_server(self._connections(name, host), sock=bound)
            for bound, (name, host) in zip(self._sockets, self.hosts.items(), strict=True)
        ]
        await self._stopped.wait()
        for server in servers:
            server.close()
        for connection in self._connected:
            connection.cut()
        await asyncio.sleep(0)

    def _connections(self, name: str, host: LoopbackHost) -> Callable[[], CutConnection]:
        def note(request: Request, status: int, end_s: float, peer: int) -> None:
            line = (name, request.method, request.target, status, peer, "")
            self.log.append(Logged(request.start_s, end_s, *line))

        def connect() -> CutConnection:
            self._connected.append(CutConnection(host.answer, note))
            return self._connected[-1]

        return connect
