"""From a crawl's files to its broken links, each with every page that has it.

A link is broken if what it leads to, through redirects or not, is among the failures; if it is no
URL at all; or if its fragment names no place in a page that was read. The link table is read a few
times over instead of being kept: memory grows with what is broken, and with the redirects and
fragments of a site, not with its links. This module knows files, not Redis.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from crawlproj.discover.link_records import REDIRECT, has_id
from crawlproj.items import PERMANENT, TRANSIENT
from crawlproj.output import link_table
from crawlproj.output.summary import SUMMARY

ANCHOR = "anchor"
"""The kind, and the reason, of a link whose page is there, and not the place in it."""
KINDS = (PERMANENT, TRANSIENT, ANCHOR)

MOST_REDIRECTS = 20
NO_LINKS_TO_THE_WEB = "scheme"
"""What is wrong with `mailto:` and the like: nothing, for them."""


class LinkTo(NamedTuple):
    """A page's link to what is broken. The target is another URL where a redirect leads there."""

    source: str
    text: str
    target: str


@dataclass
class Broken:
    """What is not there, and who links to it."""

    url: str
    status: int
    kind: str
    reason: str
    referer: str = ""
    """The page on which it was found first, for one that no link of the table leads to."""
    links: list[LinkTo] = field(default_factory=list)

    @property
    def sources(self) -> list[str]:
        """The pages that have it, each once; none of what was asked for by the user."""
        found = list(dict.fromkeys(link.source for link in self.links))
        return found or [self.referer] * bool(self.referer)


@dataclass
class Findings:
    """What a crawl has found of links."""

    broken: list[Broken]
    pages: int = 0
    """Pages that were read."""
    links: int = 0
    """Links on them, repetitions of a page left out."""
    checked: int = 0
    """Links that were asked, and not read."""
    unchecked: dict[str, int] = field(default_factory=dict)
    """URLs that were not asked, by reason."""
    read: set[str] = field(default_factory=set)
    """Pages that were read, and redirects."""
    linked: set[str] = field(default_factory=set)
    """Those of the wanted URLs that links lead to."""


def find_broken(folder: Path, wanted: frozenset[str] = frozenset()) -> Findings:
    """What the files of a crawl in `folder` say; also whether pages link to what is wanted."""
    broken = _failures(folder)
    table = _Table(folder, wanted)
    table.look(broken)
    findings = Findings(sorted(broken.values(), key=_by_weight), table.pages, table.links)
    findings.read, findings.linked = table.read, table.linked
    filtered = _filtered(folder)
    findings.checked = filtered.pop("checked", 0)
    findings.unchecked = {name: count for name, count in filtered.items() if name in NOT_ASKED}
    return findings


NOT_ASKED = frozenset(
    {
        *("robots", "robots_unreachable", "address", "host_down", "pattern", "denied"),
        *("not_allowed", "trap-depth", "trap-repeat", "trap-params", "page_limit", "host_limit"),
    }
)
"""Reasons for which a link was not asked though it might be broken."""


def _by_weight(one: Broken) -> tuple[int, int, str]:
    return KINDS.index(one.kind), -len(one.links), one.url


def _failures(folder: Path) -> dict[str, Broken]:
    """What ended dead, as it was last reported."""
    found: dict[str, tuple[str, Broken]] = {}
    for part in sorted(folder.glob("failures-*.csv")):
        with part.open(newline="", encoding="utf-8", errors="replace") as file:
            for row in csv.DictReader(file):
                one = _failure(row)
                at = row.get("failed_at") or ""
                if one and at >= found.get(one.url, ("",))[0]:
                    found[one.url] = at, one
    return {url: one for url, (_, one) in found.items()}


def _failure(row: dict[str, str | None]) -> Broken | None:
    """None for a row that a killed worker has not written to its end, or one of other columns."""
    url, status, kind, reason = (row.get(name) for name in ("url", "status", "kind", "reason"))
    if not (url and status and status.isdigit() and kind in KINDS and reason and row.get("worker")):
        return None
    return Broken(url, int(status), str(kind), reason, row["referer"] or "")


def _filtered(folder: Path) -> dict[str, int]:
    try:
        return dict(json.loads((folder / SUMMARY).read_bytes())["filtered"])
    except (OSError, ValueError, TypeError, KeyError):
        return {}


class _Table:
    """The link table of a crawl, as far as broken links go."""

    def __init__(self, folder: Path, wanted: frozenset[str]) -> None:
        self._wanted = wanted
        self.read: set[str] = set()
        self.linked: set[str] = set()
        self._parts = link_table.parts_of(folder)
        self._redirects: dict[str, str] = {}
        self._fragments: dict[str, set[str]] = {}
        """Fragments by the page that links with them lead to in the end."""
        self.pages = self.links = 0

    def look(self, broken: dict[str, Broken]) -> None:
        """Find who links to what is broken, and add what only the table tells."""
        self._read_redirects()
        missing = self._missing_fragments()
        for row in self._rows():
            if row["source"] in self.read:
                continue  # a page that was fetched twice, since its worker died
            self.read.add(row["source"])
            links = [link for link in row["links"] if link["rel"] != REDIRECT]
            self.pages += bool(links) or not row["links"]
            self.links += len(links)
            for link in links:
                self._judge(row["source"], link, broken, missing)

    def _judge(
        self,
        source: str,
        link: dict[str, str],
        broken: dict[str, Broken],
        missing: set[tuple[str, str]],
    ) -> None:
        target, fragment, error = link["target"], link.get("fragment", ""), link.get("error", "")
        end = self._end_of(target)
        if self._wanted:
            self.linked |= {target, end, f"{target}#{fragment}"} & self._wanted
        if error and error != NO_LINKS_TO_THE_WEB:
            one = broken.setdefault(target, Broken(target, 0, PERMANENT, error))
        elif end in broken:
            one = broken[end]
        elif fragment and (end, fragment) in missing:
            url = f"{target}#{fragment}"
            one = broken.setdefault(url, Broken(url, 200, ANCHOR, ANCHOR))
        else:
            return
        one.links.append(LinkTo(source, link["text"], target))

    def _read_redirects(self) -> None:
        wanted: list[tuple[str, str]] = []
        for row in self._rows():
            for link in row["links"]:
                if link["rel"] == REDIRECT:
                    self._redirects[row["source"]] = link["target"]
                elif link.get("fragment"):
                    wanted.append((link["target"], link["fragment"]))
        for target, fragment in wanted:
            self._fragments.setdefault(self._end_of(target), set()).add(fragment)

    def _missing_fragments(self) -> set[tuple[str, str]]:
        if not self._fragments:
            return set()
        return {
            (row["source"], fragment)
            for row in self._rows()
            if "anchors" in row
            for fragment in self._fragments.get(row["source"], ())
            if not has_id(row["anchors"], fragment)
        }

    def _end_of(self, url: str) -> str:
        """Where redirects lead in the end."""
        for _ in range(MOST_REDIRECTS + 1):
            if url not in self._redirects:
                break
            url = self._redirects[url]
        return url

    def _rows(self) -> Iterator[dict[str, Any]]:
        for part in self._parts:
            for line in link_table.lines_of(part):
                if row := link_table.read_row(line):
                    yield row
