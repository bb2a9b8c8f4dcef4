"""The webs that the peers crawl, each served from memory by one process on the servers' core.

| web | pages | sent |
|---|---|---|
| `made` | generated: one host, 11 KB and 57 links a page, 30 of them navigation | plain, by the demo server |
| `real` | the HTML pages of a documentation package of Debian | plain, by a server of ours |
| `tls` | those of three packages, many times | over TLS by nginx; half of the pages gzip, half brotli for who accepts it; half of both without a charset in the header. Twice: `tls-http1` offers HTTP/1.1 alone, `tls-http2` both |
| `heavy` | 240 KB each, the web's mean, from the text of real ones, with about 100 links | by nginx. Twice: `heavy` plain, `heavy-tls` over TLS with gzip, HTTP/1.1 or 2 |
"""  # noqa: E501

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Protocol

from benchmarks import environments, nginx, trees
from benchmarks.common import say
from benchmarks.nginx import NO_CHARSET, UTF_8, Kind, Nginx, Seen
from benchmarks.static import Pages, StaticServer
from crawlproj.demo import DemoServer, WebSpec
from crawlproj.operate.request_log import Logged

MADE_KB = WebSpec.bench().page_bytes / 1000
GZIP = ("gzip",)
BEST = ("gzip", "br")


class Origin(Protocol):
    """What serves a web."""

    @property
    def pid(self) -> int: ...

    @property
    def seed(self) -> str: ...

    def requests(self) -> list[Seen]: ...


@dataclass
class Web:
    """An origin that is served, and what is to be fetched of it."""

    name: str
    origin: Origin
    pages: int
    page_kb: float
    authority: Path | None = None
    """The certificate that a crawler must trust."""
    answered: int = 0

    def new_requests(self) -> list[Seen]:
        """Those since it was last asked."""
        everything = self.origin.requests()
        new, self.answered = everything[self.answered :], len(everything)
        return new


class OurOrigin:
    """A server of this project, which speaks HTTP/1.1 and packs nothing."""

    def __init__(self, server: DemoServer | StaticServer, seed: str) -> None:
        self._server = server
        self.seed = seed
        self.pid = server.pid

    def requests(self) -> list[Seen]:
        return [_seen(request) for request in self._server.requests()]


def _seen(request: Logged) -> Seen:
    return Seen(request.start_s, request.end_s, request.path, request.status)


def made(stack: ExitStack, options: argparse.Namespace) -> Iterator[Web]:
    demo = stack.enter_context(DemoServer(WebSpec.bench(options.pages)))
    yield Web("made", OurOrigin(demo, demo.seeds[0]), options.pages, MADE_KB)


def real(stack: ExitStack, options: argparse.Namespace) -> Iterator[Web]:
    if folder := environments.documentation():
        server = stack.enter_context(StaticServer(folder, options.pages))
        page_kb = server.bytes / server.pages / 1000
        yield Web("real", OurOrigin(server, server.seed), server.pages, page_kb)


def tls(stack: ExitStack, options: argparse.Namespace) -> Iterator[Web]:
    if not (folders := _sources("tls")):
        return
    firsts, pages = trees.documentation(folders)
    folder = stack.enter_context(trees.folder_in_memory())
    trees.write(folder, pages, BEST)
    kinds = [Kind(*both) for both in product((UTF_8, NO_CHARSET), (GZIP, BEST))]
    copies = math.ceil(options.pages / len(pages))
    trees.repeat(folder, firsts, copies, BEST)
    authority = stack.enter_context(nginx.authority())
    for name, http2 in (("tls-http1", False), ("tls-http2", True)):
        server = stack.enter_context(Nginx(folder, kinds, authority, http2=http2))
        yield Web(name, server, copies * len(pages) + 1, _mean_kb(pages), authority.certificate)


def heavy(stack: ExitStack, options: argparse.Namespace) -> Iterator[Web]:
    if not (folders := _sources("heavy")):
        return
    firsts, pages = trees.heavy(trees.documentation(folders)[1])
    folder = stack.enter_context(trees.folder_in_memory())
    trees.write(folder, pages, GZIP)
    copies = math.ceil(options.pages / len(pages))
    trees.repeat(folder, firsts, copies, GZIP)
    count, page_kb = copies * len(pages) + 1, _mean_kb(pages)
    plain = stack.enter_context(Nginx(folder, [Kind()]))
    yield Web("heavy", plain, count, page_kb)
    authority = stack.enter_context(nginx.authority())
    server = stack.enter_context(Nginx(folder, [Kind(UTF_8, GZIP)], authority, http2=True))
    yield Web("heavy-tls", server, count, page_kb, authority.certificate)


WEBS: dict[str, Callable[[ExitStack, argparse.Namespace], Iterator[Web]]] = {
    "made": made,
    "real": real,
    "tls": tls,
    "heavy": heavy,
}


def _sources(web: str) -> list[Path]:
    """Folders of real pages; none where they or nginx cannot be had."""
    if not nginx.is_there():
        say(f"no nginx here: the web {web} is left out")
        return []
    return environments.documentation_of_several()


def _mean_kb(pages: Pages) -> float:
    return sum(map(len, pages.values())) / len(pages) / 1000
