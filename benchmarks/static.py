"""An origin of HTML files, served from memory on loopback and logged as the demo web is.

    python -m benchmarks.static FOLDER LOG PAGES

It prints the address of its first page, which leads to as many copies of the pages as it takes for
PAGES, for those of one package are soon crawled. Pages that cannot be reached are not served, so
that every crawler finds the same ones.
"""

from __future__ import annotations

import asyncio
import gc
import math
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Self
from urllib.parse import urljoin

from parsel import Selector

from benchmarks.common import PROJECT
from crawlproj.demo.protocol import Answer, Connection, Reply, Request, make_reply
from crawlproj.operate.request_log import Logged, LogWriter, read_log
from crawlproj.urls import UrlError, normalise

HOST = "http://127.0.0.1"
HTML = {"Content-Type": "text/html; charset=utf-8"}
START_PAGES = 40
"""Candidates for the first page: those nearest to the top."""

Pages = dict[str, bytes]


class StaticServer:
    """Serves from `__enter__` on."""

    def __init__(self, folder: Path, least_pages: int) -> None:
        self._folder = folder
        self._least_pages = least_pages

    def requests(self) -> list[Logged]:
        """Every request answered up to a moment ago: the log is written twenty times a second."""
        return read_log(self._log)

    def __enter__(self) -> Self:
        self._scratch = tempfile.TemporaryDirectory(prefix="bench-static-")
        self._log = Path(self._scratch.name) / "requests.tsv"
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "benchmarks.static",
                self._folder,
                self._log,
                str(self._least_pages),
            ],
            cwd=PROJECT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.seed, pages, size = self._process.stdout.readline().split()
        self.pages, self.bytes = int(pages), int(size)
        self.pid = self._process.pid
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate()
        self._scratch.cleanup()


def read(folder: Path) -> Pages:
    """Path → body of every page; a page that is a link to another is not one of its own."""
    files = (path for path in folder.rglob("*.html") if path.is_file() and not path.is_symlink())
    return {f"/{path.relative_to(folder)}": path.read_bytes() for path in sorted(files)}


def leading_to_most(pages: Pages) -> tuple[str, Pages]:
    """The page from which most others can be reached, and what can be reached from there."""
    near_the_top = sorted(pages, key=lambda path: (path.count("/"), path))[:START_PAGES]
    graph = {path: list(_linked(path, body, pages)) for path, body in pages.items()}
    first = max(near_the_top, key=lambda path: len(_reached(path, graph)))
    return first, {path: pages[path] for path in sorted(_reached(first, graph))}


def copied(first: str, pages: Pages, copies: int) -> Pages:
    """Copies of the pages, each below a folder of its own, and a page that leads to them."""
    folders = [f"/{number}" for number in range(copies)]
    anchors = "".join(f'<a href="{folder}{first}">{folder}</a>' for folder in folders)
    index = f"<!DOCTYPE html><title>Copies</title>{anchors}".encode()
    return {"/": index} | {f"{at}{path}": body for at in folders for path, body in pages.items()}


def _linked(path: str, body: bytes, pages: Pages) -> Iterable[str]:
    """Pages that its anchors lead to: the links that all crawlers follow."""
    anchors = Selector(body=body, type="html").css("a::attr(href)").getall()
    for href in anchors:
        with suppress(UrlError):
            found = normalise(urljoin(f"{HOST}{path}", href.strip()))
            if found.host == HOST and found.path in pages:
                yield found.path


def _reached(first: str, graph: dict[str, list[str]]) -> set[str]:
    reached, waiting = {first}, [first]
    while waiting:
        for path in graph[waiting.pop()]:
            if path not in reached:
                reached.add(path)
                waiting.append(path)
    return reached


def answers(pages: Pages) -> Answer:
    once = {id(body): make_reply(200, HTML, (body,)) for body in pages.values()}
    replies = {path: once[id(body)] for path, body in pages.items()}
    missing = make_reply(404, HTML)

    def answer(request: Request) -> Reply:
        return replies.get(request.target.partition("?")[0], missing)

    return answer


async def serve(folder: Path, log_path: Path, least_pages: int) -> None:
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    first, originals = leading_to_most(read(folder))
    pages = copied(first, originals, math.ceil(least_pages / len(originals)))
    log, answer = LogWriter(log_path, loop.call_later), answers(pages)

    def write(request: Request, status: int, end_s: float, peer: int) -> None:
        start_s, method, target, headers, _ = request
        log.add(Logged(start_s, end_s, "static", method, target, status, peer, headers.user_agent))

    server = await loop.create_server(lambda: Connection(answer, write), "127.0.0.1", 0)
    gc.freeze()
    port = server.sockets[0].getsockname()[1]
    seed = normalise(f"{HOST}:{port}/")
    print(seed, len(pages), sum(map(len, pages.values())), flush=True)
    await stopped.wait()
    log.close()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])))
