"""Broken links for a report, each with the pages that have it.

SQL finds them, so that memory stays bounded however many links a crawl has kept.
`output/broken_links.py` answers the same for `scrapy linkcheck`, and is asked here for fragments
that name no place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from crawlproj.items import PERMANENT
from crawlproj.output.broken_links import ANCHOR, NO_LINKS_TO_THE_WEB, failures_of, find_broken
from crawlproj.output.report.model import BrokenLink, Source
from crawlproj.output.report.problems import IS_LINK
from crawlproj.output.tables import Tables

MOST_BROKEN = 10_000
MOST_SOURCES = 1_000
"""Of one broken link."""
MOST_SOURCES_IN_ALL = 200_000
MOST_HOPS = 20

# What leads to a failure: the URL itself, and redirects to it.
_LEADING = f"""
CREATE TEMP TABLE leads_to AS
WITH RECURSIVE step(url, broken, hops) AS (
    SELECT url, url, 0 FROM failures
    UNION
    SELECT pages.url, step.broken, step.hops + 1
    FROM pages JOIN step ON pages.redirect_to = step.url WHERE step.hops < {MOST_HOPS}
)
SELECT DISTINCT url, broken FROM step
"""
_SOURCES = """
CREATE TEMP TABLE sources AS
SELECT broken, source, min(text) AS text FROM (
    SELECT led.broken, links.source, links.text
    FROM links JOIN leads_to AS led ON links.target = led.url
    WHERE links.rel IS DISTINCT FROM 'redirect'
    UNION ALL
    SELECT target, source, text FROM links WHERE error <> '' AND error <> ?
) GROUP BY broken, source
"""
# Of requests for one URL the last to fail says how its link is broken.
_BROKEN = f"""
CREATE TEMP TABLE broken AS
SELECT url, status, kind, reason, nullif(referer, '') AS referer FROM failures
WHERE {IS_LINK}
QUALIFY row_number() OVER (PARTITION BY url ORDER BY failed_at DESC, request) = 1
UNION ALL
SELECT target, 0, ?, min(error), NULL FROM links WHERE error <> '' AND error <> ? GROUP BY target
"""
_RANKED = """
CREATE TEMP TABLE ranked AS
SELECT broken.*, coalesce(known.count, 0) AS source_count
FROM broken LEFT JOIN (SELECT broken, count(*) AS count FROM sources GROUP BY broken) AS known
ON known.broken = broken.url
ORDER BY kind, source_count DESC, url LIMIT ?
"""
_SHOWN = f"""
SELECT sources.broken, source, text FROM sources JOIN ranked ON ranked.url = sources.broken
QUALIFY row_number() OVER (PARTITION BY sources.broken ORDER BY source) <= {MOST_SOURCES}
ORDER BY sources.broken, source LIMIT {MOST_SOURCES_IN_ALL}
"""


Counts: TypeAlias = Mapping[tuple[str, str], int]
"""How many links are broken, by kind and reason."""


def find(tables: Tables, folders: Sequence[Path]) -> tuple[list[BrokenLink], Counts]:
    """Broken links, the gravest and most linked first, and how many there are in all."""
    tables.ask(_LEADING)
    tables.ask(_SOURCES, [NO_LINKS_TO_THE_WEB])
    tables.ask(_BROKEN, [PERMANENT, NO_LINKS_TO_THE_WEB])
    tables.ask(_RANKED, [MOST_BROKEN])
    pages: dict[str, list[Source]] = {}
    for url, source, text in tables.ask(_SHOWN):
        pages.setdefault(url, []).append(Source(source, text or ""))
    found = [
        _broken(row, pages.get(row[0], []))
        for row in tables.ask("SELECT url, status, kind, reason, referer, source_count FROM ranked")
    ]
    rows = tables.ask("SELECT kind, reason, count(*) FROM broken GROUP BY ALL")
    counts = Counter({(kind, reason): count for kind, reason, count in rows})
    places = _missing_places(tables, folders)
    counts.update((one.kind, one.reason) for one in places)
    return [*found, *places], counts


def _broken(row: tuple[str, int, str, str, str | None, int], sources: list[Source]) -> BrokenLink:
    url, status, kind, reason, referer, count = row
    if not sources and referer:
        # Without a link table the page on which it was found first is all that is known.
        sources, count = [Source(referer)], 1
    return BrokenLink(url, status or 0, kind, reason, sources, count)


def _missing_places(tables: Tables, folders: Sequence[Path]) -> list[BrokenLink]:
    if not tables.ask("SELECT 1 FROM links WHERE fragment <> '' LIMIT 1"):
        return []
    return [
        BrokenLink(
            one.url,
            one.status,
            one.kind,
            one.reason,
            [Source(link.source, link.text) for link in one.links[:MOST_SOURCES]],
            len(one.sources),
        )
        for one in find_broken(folders, failures_of(tables)).broken
        if one.kind == ANCHOR
    ]
