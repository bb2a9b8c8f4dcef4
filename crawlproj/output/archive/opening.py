"""Opens the archive of a worker, as its crawl and its settings have it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from crawlproj.config import Config, crawl_name
from crawlproj.output.archive.files import ArchiveFiles
from crawlproj.output.archive.originals import SharedOriginals
from crawlproj.output.archive.recorder import ArchiveRecorder
from crawlproj.output.folder import ARCHIVE

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from crawlproj.frontier.frontier import Frontier


def open_archive(
    crawler: Crawler, frontier: Frontier, file_name: Callable[[str], str]
) -> ArchiveRecorder:
    """To be called in the event loop, by a worker that has joined a crawl."""
    settings = crawler.settings
    config = Config.from_settings(settings)
    crawl = crawl_name(settings, crawler.spidercls)
    loop = asyncio.get_running_loop()
    files = ArchiveFiles(
        config.folder_of(crawl) / ARCHIVE,
        file_name(crawl),
        file_name(config.worker_id),
        _about(crawler, crawl, config.worker_id),
        rotate_bytes=config.archive_rotate_mb * 1024 * 1024,
        originals=SharedOriginals(frontier, loop) if frontier.plan.archive_dedup else None,
    )
    return ArchiveRecorder(crawler, files)


def _about(crawler: Crawler, crawl: str, worker: str) -> dict[str, str]:
    settings = crawler.settings
    return {
        "software": "crawlproj",
        "format": "WARC File Format 1.1",
        "conformsTo": "http://iipc.github.io/warc-specifications/specifications/warc-format/"
        "warc-1.1/",
        "isPartOf": crawl,
        "hostname": worker,
        "http-header-user-agent": str(settings.get("USER_AGENT") or ""),
        "robots": "classic" if settings.getbool("ROBOTSTXT_OBEY") else "ignore",
    }
