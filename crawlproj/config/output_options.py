"""The settings of what is kept of pages beside rows: stored, described, archived."""

from __future__ import annotations

from dataclasses import dataclass

from crawlproj.config.kinds import BOOL, EXTRACT, FOLDER, KEEP, MEGABYTES, STORE
from crawlproj.config.option import option


@dataclass(frozen=True)
class OutputOptions:
    """Part of `Config`."""

    store: str = option(
        "CRAWL_STORE",
        "",
        STORE,
        "where pages are kept by URL: sqlite:///…, postgresql://…, or sqlite for a file in the "
        "crawl's folder; see docs/store.md",
        "store",
    )
    attributes: bool = option(
        "CRAWL_ATTRIBUTES",
        False,
        BOOL,
        "keep what each page says of itself: text, language, dates, author … (docs/attributes.md)",
        "attributes",
    )
    keep: str | None = option(
        "CRAWL_KEEP",
        None,
        KEEP,
        "rule on attributes: only pages that satisfy it have a row of them; implies "
        "CRAWL_ATTRIBUTES",
        "keep",
    )
    against: str = option(
        "CRAWL_AGAINST",
        "",
        FOLDER,
        "folder of an earlier crawl's files: pages are asked for only if they have changed since "
        "(docs/incremental.md)",
        "against",
    )
    extract: str | None = option(
        "CRAWL_EXTRACT",
        None,
        EXTRACT,
        "a TOML file of fields, each a selector of CSS or XPath: rows of their values are kept "
        "(docs/extract.md)",
        "extract",
    )
    archive: bool = option(
        "CRAWL_ARCHIVE",
        False,
        BOOL,
        "keep pages as received, in WARC files in `output/<crawl>/archive/`",
        "archive",
    )
    archive_dedup: bool = option(
        "CRAWL_ARCHIVE_DEDUP",
        True,
        BOOL,
        "with CRAWL_ARCHIVE: keep digests of payloads in Redis, so that one that comes again is "
        "not archived again",
    )
    near: bool = option(
        "CRAWL_NEAR",
        False,
        BOOL,
        "find near-duplicates of pages while the crawl runs (docs/near-duplicates.md)",
        "near",
    )
    archive_rotate_mb: float = option(
        "CRAWL_ARCHIVE_ROTATE_MB",
        1024.0,
        MEGABYTES,
        "size at which a WARC file is closed for the next",
    )
