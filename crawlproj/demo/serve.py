"""The server process: every host of a demo web on loopback, until it is told to stop."""

from __future__ import annotations

import asyncio
import errno
import gc
import importlib
import importlib.util
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from crawlproj.demo.protocol import Connection, Log, Request
from crawlproj.demo.site import Site, make_sites
from crawlproj.demo.spec import DemoError, WebSpec
from crawlproj.demo.web import DemoWeb, host_addresses
from crawlproj.operate.request_log import Logged, LogWriter

BACKLOG = 1024
FREE_PORT_TRIES = 20
SPARE_FILES = 4096
"""For connections, beside the one listening socket a host."""

FLUSH = "flush"
FLUSHED = "flushed"


def run(spec: WebSpec, port: int, log_path: Path | None, *, is_controlled: bool) -> None:
    """Serves the web, after printing the root of each host on stdout, one a line.

    When controlled, it answers each `flush` on stdin once the log is written, and ends with stdin.
    """
    _allow_files(spec.hosts + SPARE_FILES)
    sockets = listen(host_addresses(spec.hosts), port)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(spec, sockets, log_path, is_controlled=is_controlled))


def listen(addresses: Sequence[str], port: int) -> list[socket.socket]:
    """A socket for each address, all on one port; port 0 picks a free one.

    Where the system has no such addresses (macOS has 127.0.0.1 alone), a port for each instead.
    """
    for _ in range(FREE_PORT_TRIES):
        try:
            return _bind_all(addresses, [port] * len(addresses))
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                ports = [port + number if port else 0 for number in range(len(addresses))]
                return _bind_all(["127.0.0.1"] * len(addresses), ports)
            if port or error.errno != errno.EADDRINUSE:
                raise
    raise DemoError(f"no port is free on all of {len(addresses)} addresses: use fewer hosts")


def _bind_all(addresses: Sequence[str], ports: Sequence[int]) -> list[socket.socket]:
    """With port 0 throughout and different addresses, the first one's port is used for all."""
    sockets: list[socket.socket] = []
    shares_port = len(set(addresses)) > 1
    try:
        for address, port in zip(addresses, ports, strict=True):
            taken = sockets[0].getsockname()[1] if sockets and shares_port else port
            sockets.append(_bind(address, taken))
    except OSError:
        for bound in sockets:
            bound.close()
        raise
    return sockets


def _bind(address: str, port: int) -> socket.socket:
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((address, port))
    except OSError as error:
        bound.close()
        error.filename = f"{address}:{port}"
        raise
    return bound


async def _serve(
    spec: WebSpec, sockets: list[socket.socket], log_path: Path | None, *, is_controlled: bool
) -> None:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    log = LogWriter(log_path, loop.call_later) if log_path else None
    if is_controlled:
        loop.add_reader(sys.stdin, _obey, log, stopped)
    names = ["{}:{}".format(*bound.getsockname()) for bound in sockets]
    web = DemoWeb(spec).at([f"http://{name}" for name in names])
    for bound, name, site in zip(sockets, names, make_sites(web), strict=True):
        await loop.create_server(_connections(site, name, log), sock=bound, backlog=BACKLOG)
    gc.freeze()
    print("\n".join(web.seeds), flush=True)
    await stopped.wait()
    if log:
        log.close()


def _connections(site: Site, name: str, log: LogWriter | None) -> Callable[[], Connection]:
    write = _logger(log, name) if log else None
    return lambda: Connection(site.answer, write)


def _logger(log: LogWriter, name: str) -> Log:
    def write(request: Request, status: int, end_s: float, peer: int) -> None:
        start_s, method, target, headers, _ = request
        agent = headers.user_agent
        log.add(Logged(start_s, end_s, name, method, target, status, peer, agent))

    return write


def _obey(log: LogWriter | None, stopped: asyncio.Event) -> None:
    commands = os.read(sys.stdin.fileno(), 4096).decode().split()
    if not commands:
        stopped.set()
    for _ in filter(FLUSH.__eq__, commands):
        if log:
            log.flush()
        print(FLUSHED, flush=True)


def _allow_files(wanted: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's where it happens to be installed."""
    if importlib.util.find_spec("uvloop") is None:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop]
    factory = importlib.import_module("uvloop").new_event_loop
    return factory
