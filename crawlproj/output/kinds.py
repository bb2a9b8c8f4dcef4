"""The kinds of rows that a crawl leaves: what a row has, what it is known by, where it is written.

Feeds, `scrapy merge`, `scrapy query` and reports go by this table. Types are those of SQL, as
DuckDB names them, and those of Parquet follow from them. This module knows no files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from crawlproj.items import FailureItem, PageItem, StatsItem

TEXT, WHOLE, NUMBER, TIME = "VARCHAR", "BIGINT", "DOUBLE", "TIMESTAMP"
TEXTS, JSON = "VARCHAR[]", "JSON"
LINK_COLUMNS = {"target": TEXT, "text": TEXT, "rel": TEXT, "fragment": TEXT, "error": TEXT}
"""Of each link on a page."""
LINK = f"STRUCT({', '.join(f'{name} {type_}' for name, type_ in LINK_COLUMNS.items())})"

CHOSEN_TYPES = frozenset(f"{one}{many}" for one in (TEXT, WHOLE, NUMBER) for many in ("", "[]"))
"""That columns may have which users choose."""

CSV, JSONL, PARQUET = "csv", "jsonl", "parquet"
FORMATS = (CSV, JSONL, PARQUET)

_TYPES = {"str": TEXT, "int": WHOLE, "float": NUMBER}


@dataclass(frozen=True)
class Kind:
    """A kind of rows. Its parts are `<name>-*.<suffix>`, its merged files `<name>.<suffix>`."""

    name: str
    columns: Mapping[str, str]
    """Name → type, in the order of the files."""
    time: str
    """The column that says when."""
    key: tuple[str, ...]
    """Rows that are alike in these columns are of one thing, of which the last one counts."""
    suffixes: tuple[str, ...]
    """Of its parts."""
    formats: tuple[str, ...]
    """That merging writes if nothing else is asked for."""
    item: type | None = None
    """The class of its rows, if they pass through feeds."""
    told_apart_by: tuple[str, ...] = ()
    """Columns, which may be empty or lack, in which rows that are alike in their key differ if they
    are of different things."""
    is_optional: bool = False
    """True if crawls have it only when it is asked for: no empty file is written then."""
    is_wide: bool = False
    """True if a row may hold much of its page, so that not many of them fit into memory."""
    fields_file: str = ""
    """Of kinds whose columns users choose: the file in the crawl's folder that has their types."""
    table: Mapping[str, str] = field(default_factory=dict)
    """Name → type of its table in SQL, CSV and Parquet, where that is another: of links, a row for
    each link of the list that a page's row has."""


def _of_item(
    name: str,
    item: type,
    time: str,
    key: tuple[str, ...],
    suffixes: tuple[str, ...] = (CSV,),
    *,
    told_apart_by: tuple[str, ...] = (),
) -> Kind:
    columns = {one.name: _TYPES[str(one.type)] for one in fields(item)} | {time: TIME}
    return Kind(name, columns, time, key, suffixes, suffixes, item, told_apart_by)


PAGES = _of_item("pages", PageItem, "fetched_at", ("url",), (CSV, JSONL))
FAILURES = _of_item("failures", FailureItem, "failed_at", ("url",), told_apart_by=("request",))
STATS = _of_item("stats", StatsItem, "at", ("worker", "at"))
LINKS = Kind(
    "links",
    {"source": TEXT, "fetched_at": TIME, "links": f"{LINK}[]", "anchors": TEXT, "lease": WHOLE},
    "fetched_at",
    ("source",),
    ("jsonl.zst", JSONL),
    ("jsonl.zst",),
    is_optional=True,
    is_wide=True,
    table={"source": TEXT, **LINK_COLUMNS, "fetched_at": TIME},
)
ATTRIBUTES = Kind(
    "attributes",
    {
        "url": TEXT,
        "title": TEXT,
        "description": TEXT,
        "language": TEXT,
        "published": TEXT,
        "modified": TEXT,
        "author": TEXT,
        "owner": TEXT,
        "text": TEXT,
        "videos": TEXTS,
        "canonical": TEXT,
        "structured": JSON,
        "fetched_at": TIME,
        "problem": TEXT,
        "lease": WHOLE,
    },
    "fetched_at",
    ("url",),
    (JSONL,),
    (JSONL,),
    is_optional=True,
    is_wide=True,
)
EXTRACTED = Kind(
    "extracted",
    {"url": TEXT, "record": TEXT, "fetched_at": TIME, "lease": WHOLE},
    "fetched_at",
    ("url", "record"),
    (CSV, JSONL),
    (CSV, JSONL),
    is_optional=True,
    is_wide=True,
    fields_file="extracted.fields.json",
)
FORGOTTEN = Kind(
    "forgotten",
    {"url": TEXT, "forgotten_at": TIME, "request": TEXT},
    "forgotten_at",
    ("url",),
    (CSV,),
    (),
    told_apart_by=("request",),
)
"""Dead letters that were thrown away: read to leave failures out, and not merged themselves."""

REFUSED = Kind(
    "refused",
    {"url": TEXT, "lease": WHOLE, "worker": TEXT, "refused_at": TIME},
    "refused_at",
    ("url", "lease"),
    (CSV,),
    (),
)
"""Leases of which another worker has settled the URL first: read to pass over the rows that they
have left, and not merged themselves. Only crawls that speculate have them."""

KINDS = (PAGES, FAILURES, STATS, LINKS, ATTRIBUTES, EXTRACTED)
"""Pages before failures, which are compared with them."""

ITEMS = "items"
"""Parts with items of spiders' own classes: `items-*.jsonl`, with whatever fields they have."""
ITEMS_FILE = f"{ITEMS}.{JSONL}"
LEASES_SUFFIX = ".leases"
"""Of the file beside a part of items that has the lease of each."""
