"""The same crawl with crawlee and parsel, in memory, as its documentation would write it.

    python with_crawlee.py SEED CONCURRENCY FILE

It runs in an environment of its own and imports nothing of this project.
"""

# Only its own environment has crawlee.
# mypy: disable-error-code="import-not-found, untyped-decorator"
from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

from crawlee import ConcurrencySettings
from crawlee.crawlers import ParselCrawler, ParselCrawlingContext
from crawlee.storage_clients import MemoryStorageClient


async def crawl(seed: str, concurrency: int, path: Path) -> None:
    crawler = ParselCrawler(
        storage_client=MemoryStorageClient(),
        configure_logging=False,
        concurrency_settings=ConcurrencySettings(
            min_concurrency=concurrency,
            desired_concurrency=concurrency,
            max_concurrency=concurrency,
        ),
    )

    @crawler.router.default_handler
    async def handle(context: ParselCrawlingContext) -> None:
        await context.push_data(
            {
                "url": context.request.url,
                "status": context.http_response.status_code,
                "title": context.selector.css("title::text").get(),
                "links": len(context.selector.css("a")),
            }
        )
        await context.enqueue_links()

    await crawler.run([seed])
    await crawler.export_data(path)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    asyncio.run(crawl(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])))
