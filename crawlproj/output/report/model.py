"""What a report says, before anybody has decided how it looks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from crawlproj.reasons import READ


class Severity(StrEnum):
    """How much a problem matters to whoever runs the site. The gravest first."""

    ERROR = "error"
    WARNING = "warning"
    NOTICE = "notice"


@dataclass(frozen=True)
class Listing:
    """The answer to a question: as many rows as are shown, and how many there are. `order` is the
    column by which they come, with a minus if the largest is the first; empty if it is none."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    total: int
    order: str = ""
    sql: str = ""
    """The question, for `scrapy query`; empty if no table has it, or if all rows are here."""

    @property
    def left_out(self) -> int:
        return self.total - len(self.rows)


@dataclass(frozen=True)
class Source:
    """A page that has a link, and what the link says there."""

    url: str
    text: str = ""


@dataclass(frozen=True)
class BrokenLink:
    """What is not there, and who links to it."""

    url: str
    status: int
    kind: str
    reason: str
    sources: list[Source]
    source_count: int
    """All of them: `sources` may be cut short."""


@dataclass(frozen=True)
class Problem:
    """Something of which the crawl has found at least one case."""

    name: str
    severity: Severity
    title: str
    title_of_one: str
    advice: str
    cases: Listing
    sql: str = ""
    """The question whose answer they are, for `scrapy query`; empty if no table has it."""

    @property
    def heading(self) -> str:
        """The title as it stands after the number of cases."""
        return self.title_of_one if self.cases.total == 1 else self.title


@dataclass(frozen=True)
class Comparison:
    """What is different from an earlier crawl. A changed page is one whose content differs."""

    with_folder: str
    added: Listing
    gone: Listing
    changed: Listing
    newly_broken: Listing
    mended: Listing

    @property
    def parts(self) -> dict[str, Listing]:
        return {
            "added": self.added,
            "gone": self.gone,
            "changed": self.changed,
            "newly_broken": self.newly_broken,
            "mended": self.mended,
        }


@dataclass(frozen=True)
class Interval:
    """What was fetched and what failed in a stretch of time; it begins at a second since 1970."""

    begins_s: int
    pages: int
    failures: int


@dataclass(frozen=True)
class Report:
    """A crawl as people want to see it."""

    crawl: str
    made_at: str
    totals: Mapping[str, Any]
    statuses: Mapping[str, int]
    types: Mapping[str, int]
    depths: Mapping[str, int]
    filtered: Mapping[str, int]
    hosts: Listing
    interval_s: int
    intervals: list[Interval]
    broken: list[BrokenLink]
    broken_total: int
    problems: list[Problem]
    redirects: Listing
    duplicates: list[tuple[str, list[str], int]]
    """Content hash, some of its pages, and how many have it."""
    slowest: Listing
    largest: Listing
    has_links: bool
    """True if the crawl kept its link table: only then every source of a broken link is known."""
    has_pages: bool = True
    """False if only the ledger has counted pages: what belongs to each of them is not known."""
    comparison: Comparison | None = None
    counts: dict[Severity, int] = field(default_factory=dict)
    """Cases of all problems, by severity."""

    @property
    def unfetched(self) -> dict[str, int]:
        """What was left out and never fetched, by reason."""
        return {name: count for name, count in self.filtered.items() if name not in READ}

    @property
    def lists_pages(self) -> bool:
        """Whether there are pages to tell of; of none, no picture and no list is made."""
        return self.has_pages and bool(self.totals["pages"])

    @property
    def nothing_wrong(self) -> str:
        """What to say where there are no problems: without pages there is nothing to be right."""
        return "No problems were found" if self.totals["pages"] else "No page was fetched"
