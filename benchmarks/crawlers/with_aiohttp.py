"""The same crawl by hand, as a few dozen lines of Python: aiohttp, lexbor, a set, a CSV file.

    python with_aiohttp.py SEED CONCURRENCY FILE

It runs in an environment of its own and imports nothing of this project.
"""

# Only its own environment has selectolax.
# mypy: disable-error-code="import-not-found"
from __future__ import annotations

import asyncio
import csv
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag, urljoin, urlsplit

import aiohttp
from selectolax.lexbor import LexborHTMLParser


class Crawl:
    def __init__(self, session: aiohttp.ClientSession, seed: str, rows: Any) -> None:
        self._session = session
        self._host = urlsplit(seed).netloc
        self._rows = rows
        self._seen = {seed}
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._queue.put_nowait(seed)

    async def run(self, concurrency: int) -> None:
        tasks = [asyncio.create_task(self._work()) for _ in range(concurrency)]
        await self._queue.join()
        for task in tasks:
            task.cancel()

    async def _work(self) -> None:
        while True:
            url = await self._queue.get()
            async with self._session.get(url) as response:
                page = LexborHTMLParser(await response.read())
            found = {urldefrag(urljoin(url, href)).url for href in _hrefs(page)}
            for one in found - self._seen:
                if urlsplit(one).netloc == self._host:
                    self._seen.add(one)
                    self._queue.put_nowait(one)
            title = page.css_first("title")
            self._rows.writerow((url, response.status, title and title.text(), len(found)))
            self._queue.task_done()


def _hrefs(page: Any) -> list[str]:
    return [href for link in page.css("a[href]") if (href := link.attributes["href"])]


async def crawl(seed: str, concurrency: int, path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            rows = csv.writer(file)
            rows.writerow(("url", "status", "title", "links"))
            await Crawl(session, seed, rows).run(concurrency)


if __name__ == "__main__":
    asyncio.run(crawl(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])))
