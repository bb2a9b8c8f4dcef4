"""Clusters of near-duplicates: the pages of a crawl that name one another as near-copies.

While a crawl runs, a page names the one that it is a near-copy of (`near_duplicate_of`). That one
may have changed since and name another, so names are followed to their end.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from crawlproj.output.tables import Tables

MOST_STEPS = 10
"""From one name to the next: pages that changed may lead in a circle."""
NEAR_COPIES = (
    "WITH RECURSIVE way(url, place, steps) AS ("
    "SELECT url, near_duplicate_of, 1 FROM pages WHERE near_duplicate_of <> '' "
    "UNION ALL SELECT way.url, pages.near_duplicate_of, steps + 1 FROM way "
    "JOIN pages ON pages.url = way.place "
    f"WHERE pages.near_duplicate_of <> '' AND steps < {MOST_STEPS}) "
    "SELECT url, arg_max(place, steps) AS first FROM way GROUP BY url"
)
"""The URL of each near-copy, and of the page that the cluster began with."""
CLUSTERS = (
    f"SELECT first, count(*) AS copies FROM ({NEAR_COPIES}) WHERE url <> first GROUP BY first "
    "ORDER BY copies DESC, first"
)


class Cluster(NamedTuple):
    """Pages that say the same."""

    url: str
    """The one that was met first."""
    copies: int
    urls: list[str]
    """Of the copies, as many as were asked for."""


class Found(NamedTuple):
    """The largest clusters, and how many there are of clusters and of near-copies."""

    clusters: list[Cluster]
    total: int
    copies: int


def find_clusters(tables: Tables, most: int, most_urls: int) -> Found:
    """So many clusters, each with so many of its URLs, the largest first."""
    total, copies = tables.ask(f"SELECT count(*), coalesce(sum(copies), 0) FROM ({CLUSTERS})")[0]
    rows = tables.each(
        f"WITH near AS ({NEAR_COPIES}), largest AS ({CLUSTERS} LIMIT ?) "
        "SELECT largest.first, largest.copies, near.url FROM largest JOIN near "
        "ON near.first = largest.first AND near.url <> near.first "
        "QUALIFY row_number() OVER (PARTITION BY near.first ORDER BY near.url) <= ? "
        "ORDER BY largest.copies DESC, largest.first, near.url",
        [most, most_urls],
    )
    return Found(list(_grouped(rows)), total, int(copies))


def _grouped(rows: Iterator[tuple[Any, ...]]) -> Iterator[Cluster]:
    for (url, copies), members in groupby(rows, key=itemgetter(0, 1)):
        yield Cluster(url, copies, [member for _, _, member in members])
