"""The same crawl as Scrapy's documentation would write it, in memory or through scrapy-redis.

    python with_scrapy.py SEED CONCURRENCY FILE [REDIS_URL]

It runs in an environment of its own and imports nothing of this project.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import scrapy
from scrapy.crawler import CrawlerProcess


class PeerSpider(scrapy.Spider):
    name = "peer"

    def parse(self, response: Any) -> Iterator[Any]:
        anchors = response.css("a")
        yield {
            "url": response.url,
            "status": response.status,
            "title": response.css("title::text").get(),
            "links": len(anchors),
        }
        yield from response.follow_all(anchors)


def settings(concurrency: int, path: str, redis_url: str | None) -> dict[str, Any]:
    plain = {
        "CONCURRENT_REQUESTS": concurrency,
        "CONCURRENT_REQUESTS_PER_DOMAIN": concurrency,
        "DOWNLOAD_DELAY": 0,
        "ROBOTSTXT_OBEY": False,
        "TELNETCONSOLE_ENABLED": False,
        "LOG_LEVEL": "WARNING",
        "FEEDS": {path: {"format": "csv"}},
    }
    shared = {
        "REDIS_URL": redis_url,
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
    }
    return {**plain, **(shared if redis_url else {})}


if __name__ == "__main__":
    seed, concurrency, path, *redis_url = sys.argv[1:]
    process = CrawlerProcess(settings(int(concurrency), path, redis_url[0] if redis_url else None))
    host = urlsplit(seed).hostname
    process.crawl(PeerSpider, start_urls=[seed], allowed_domains=[host])
    process.start()
