"""The limit of one Python process: aiohttp, our link extraction, a set, a CSV file, nothing else.
The event loop is asyncio's, as ours is.

python -m benchmarks.crawlers.bare SEED CONCURRENCY FILE
"""

from __future__ import annotations

import asyncio
import csv
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import yarl

from crawlproj.discover import links
from crawlproj.urls import Url, UrlError, normalise


class Bare:
    def __init__(self, session: aiohttp.ClientSession, rows: Any) -> None:
        self._session = session
        self._rows = rows
        self._seen: set[Url] = set()
        self._queue: asyncio.Queue[Url] = asyncio.Queue()

    def add(self, url: Url) -> None:
        if url not in self._seen:
            self._seen.add(url)
            self._queue.put_nowait(url)

    async def run(self, concurrency: int) -> None:
        tasks = [asyncio.create_task(self._work()) for _ in range(concurrency)]
        await self._queue.join()
        for task in tasks:
            task.cancel()

    async def _work(self) -> None:
        while True:
            url = await self._queue.get()
            await self._fetch(url)
            self._queue.task_done()

    async def _fetch(self, url: Url) -> None:
        async with self._session.get(yarl.URL(str(url), encoded=True)) as response:
            body = await response.read()
        page = links.extract(body, "utf-8")
        found = _usable(page.links, url)
        for one in found:
            if one.host == url.host:
                self.add(one)
        self._rows.writerow((str(url), response.status, page.title, len(found)))


def _usable(hrefs: list[str], base: Url) -> set[Url]:
    found = set()
    for href in hrefs:
        with suppress(UrlError):
            found.add(normalise(href, base))
    return found


async def crawl(seed: str, concurrency: int, path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            rows = csv.writer(file)
            rows.writerow(("url", "status", "title", "links"))
            bare = Bare(session, rows)
            bare.add(normalise(seed))
            await bare.run(concurrency)


if __name__ == "__main__":
    asyncio.run(crawl(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])))
