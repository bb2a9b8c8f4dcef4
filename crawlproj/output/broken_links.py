"""From a crawl's files to its broken links, each with every page that has it.

A link is broken if what it leads to, through redirects or not, is among the failures; if it is no
URL at all; or if its fragment names no place in a page that was read. The link table is read a few
times over instead of being kept: memory grows with what is broken, and with the redirects and
fragments of a site, not with its links. Of a page that was fetched more than once the last row
counts, as in merged files. This module knows files, not Redis.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from crawlproj.discover.link_records import REDIRECT, checksum, read_checksums
from crawlproj.items import PERMANENT, TRANSIENT
from crawlproj.output import link_table
from crawlproj.output.kinds import LINKS
from crawlproj.output.parts import sources_of
from crawlproj.output.summary import SUMMARY

if TYPE_CHECKING:
    from crawlproj.output.tables import Tables

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
    """URLs that were asked, or fetched, and not read: of other sites, too far away, no HTML."""
    unchecked: dict[str, int] = field(default_factory=dict)
    """URLs that were not asked, by reason."""
    read: set[str] = field(default_factory=set)
    """Pages that were read, and redirects."""
    linked: set[str] = field(default_factory=set)
    """Those of the wanted URLs that links lead to."""


def find_broken(
    folders: Sequence[Path], broken: dict[str, Broken], wanted: frozenset[str] = frozenset()
) -> Findings:
    """What the files of a crawl say of these that are known to be broken, and of others; also
    whether pages link to what is wanted."""
    table = _Table(folders, wanted)
    table.look(broken)
    findings = Findings(sorted(broken.values(), key=_by_weight), table.pages, table.links)
    findings.read, findings.linked = table.read, table.linked
    filtered = _filtered(folders)
    findings.checked = filtered.pop("checked", 0)
    findings.unchecked = {name: count for name, count in filtered.items() if name in NOT_ASKED}
    return findings


NO_ROBOTS_TXT = "robots_unreachable"
"""The reason for which nothing is asked of a host that does not give its robots.txt."""
NOT_ASKED = frozenset(
    {
        *("robots", NO_ROBOTS_TXT, "address", "host_down", "pattern", "denied"),
        *("not_allowed", "trap-depth", "trap-repeat", "trap-params", "page_limit", "host_limit"),
    }
)
"""Reasons for which a link was not asked though it might be broken."""


def _by_weight(one: Broken) -> tuple[int, int, str]:
    return KINDS.index(one.kind), -len(one.links), one.url


def failures_of(tables: Tables) -> dict[str, Broken]:
    """What ended dead, and was not fetched well after all."""
    marks = ", ".join("?" * len(KINDS))
    rows = tables.ask(
        "SELECT url, coalesce(status, 0), kind, reason, coalesce(referer, '') FROM failures "
        f"WHERE kind IN ({marks}) ORDER BY failed_at, request",
        KINDS,
    )
    return {url: Broken(url, *about) for url, *about in rows}


def count_unread(tables: Tables, read: set[str]) -> int:
    """Pages that were fetched, and have no links to read: PDF, pictures and the like."""
    rows = tables.each("SELECT url FROM pages WHERE coalesce(redirect_to, '') = ''")
    return sum(url not in read for (url,) in rows)


def _filtered(folders: Sequence[Path]) -> dict[str, int]:
    """As the ledger has it, which is the same on each machine."""
    for folder in folders:
        try:
            return dict(json.loads((folder / SUMMARY).read_bytes())["filtered"])
        except (OSError, ValueError, TypeError, KeyError):
            continue
    return {}


class _Table:
    """The link table of a crawl, as far as broken links go."""

    def __init__(self, folders: Sequence[Path], wanted: frozenset[str]) -> None:
        self._wanted = wanted
        self.read: set[str] = set()
        self.linked: set[str] = set()
        sources = sources_of(folders, LINKS, or_merged=True)
        self._parts = [part for parts in sources.values() for part in parts]
        self._last_rows: dict[str, str] = {}
        """When the row was written that counts, of pages that have several."""
        self._redirects: dict[str, str] = {}
        self._fragments: dict[str, set[str]] = {}
        """Fragments by the page that links with them lead to in the end."""
        self.pages = self.links = 0

    def look(self, broken: dict[str, Broken]) -> None:
        """Find who links to what is broken, and add what only the table tells."""
        self._read_sources()
        self._read_redirects()
        missing = self._missing_fragments()
        for row in self._rows():
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
        target, fragment, error = link["target"], link.get("fragment") or "", link.get("error")
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

    def _read_sources(self) -> None:
        """Which pages have rows, and the last of those that have several: a page is fetched again
        if its worker died."""
        repeated = set()
        for row in self._all_rows():
            if row["source"] in self.read:
                repeated.add(row["source"])
            self.read.add(row["source"])
        for row in self._all_rows() if repeated else ():
            if (source := row["source"]) in repeated:
                self._last_rows[source] = max(_time_of(row), self._last_rows.get(source, ""))

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
        missing: set[tuple[str, str]] = set()
        for row in self._rows():
            wanted = self._fragments.get(row["source"])
            if wanted and row.get("anchors") is not None:
                with suppress(ValueError):  # damaged: what it has is not known
                    # Once a page: it may have as many ids as there are links to them.
                    there = read_checksums(row["anchors"])
                    lost = {one for one in wanted if checksum(one) not in there}
                    missing.update((row["source"], one) for one in lost)
        return missing

    def _end_of(self, url: str) -> str:
        """Where redirects lead in the end."""
        for _ in range(MOST_REDIRECTS + 1):
            if url not in self._redirects:
                break
            url = self._redirects[url]
        return url

    def _rows(self) -> Iterator[dict[str, Any]]:
        """The row of each page."""
        left = dict(self._last_rows)
        for row in self._all_rows():
            source = row["source"]
            if source not in self._last_rows:
                yield row
            elif left.get(source) == _time_of(row):
                del left[source]
                yield row

    def _all_rows(self) -> Iterator[dict[str, Any]]:
        for part in self._parts:
            for line in link_table.lines_of(part):
                if row := link_table.read_row(line):
                    yield row


def _time_of(row: dict[str, Any]) -> str:
    return str(row.get(LINKS.time) or "")
