"""Finds URL patterns of a host that bring nothing new, from what one worker fetches.

A page of a URL pattern (url_shapes.py) counts as repeated if the pattern has had its content
before:

- `same`: its very bytes, and yet it leads on to new URLs. That is how a site without end looks
  whose links are relative; a finite set of equal pages is left alone.
- `alike`: also without its digits and the letters a to f, which takes the dates of an endless
  calendar and hexadecimal session ids out of it, and also if it leads nowhere.

Where near-duplicates are looked for, a page that is one counts as repeated for all the forms that
a site may make copies by: a folder that is a mirror, a parameter that gives a print view.

After so many repeated pages in a row the pattern is to be set aside, and so is a path with too
many query strings. The evidence is this worker's own and bounded; the verdict, which is shared,
is quarantine.py's. With many workers each may need its own evidence, so a pattern costs at most
so many pages a worker. Pure: knows neither Scrapy nor Redis.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from dataclasses import dataclass, field

from xxhash import xxh3_64_intdigest

from crawlproj.config.choices import ALIKE, OFF, SAME
from crawlproj.discover.url_shapes import any_query, forms_of_copies, pattern_of
from crawlproj.urls import Url

REMEMBERED = 20_000
"""Patterns, and paths with queries, of which a worker keeps evidence; the longest unseen go."""

CONTENTS = 128
"""Different contents that are remembered of a pattern. Months have 91 when their dates are taken
out: twelve names, and seven weekdays to begin with (for February twice)."""

_NUMBERS = b"0123456789abcdefABCDEF"
_32_BITS = 0xFFFF_FFFF


@dataclass(slots=True)
class _Record:
    """What a pattern has shown so far."""

    contents: array[int] = field(default_factory=lambda: array("I"))
    repeated: int = 0

    def is_new(self, content: int) -> bool:
        if content in self.contents:
            return False
        self.contents.append(content)
        del self.contents[:-CONTENTS]
        return True


class Evidence:
    """Weighs pages and counts queries, for one worker."""

    def __init__(self, mode: str, most_repeated: int, most_queries: int) -> None:
        self._mode = mode
        self._most_repeated = most_repeated
        self._most_queries = most_queries
        self._records: OrderedDict[tuple[str, str], _Record] = OrderedDict()
        self._copies: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._queries: OrderedDict[tuple[str, str], int] = OrderedDict()

    @property
    def remembered(self) -> tuple[int, int]:
        """How many patterns, and how many paths with queries."""
        return len(self._records), len(self._queries)

    def weigh(self, url: Url, body: bytes, leads_on: bool) -> str | None:
        """Take a page into account; returns its pattern if that has brought nothing new for too
        long."""
        if self._mode == OFF or not body:
            return None
        pattern = pattern_of(url.path)
        if pattern == url.path:
            return None  # a pattern of one URL
        record = self._record(url.host, pattern)
        if self._is_new(record, body):
            record.repeated = 0
        elif leads_on or self._mode == ALIKE:
            record.repeated += 1
        return pattern if record.repeated >= self._most_repeated else None

    def weigh_near(self, url: Url, is_copy: bool) -> str | None:
        """Take into account whether a page was a near-copy of another; returns the form of its URL,
        the narrowest, that has brought nothing else for too long."""
        if self._mode == OFF:
            return None
        found = None
        for form in forms_of_copies(url.path):
            name = (url.host, form)
            before = self._copies.pop(name, 0)
            count = before + 1 if is_copy and found is None else 0
            if count >= self._most_repeated:
                found = form  # wider forms begin anew: they may hold more than this
            elif count:
                self._copies[name] = count
        while len(self._copies) > REMEMBERED:
            self._copies.popitem(last=False)
        return found

    def count_query(self, url: Url) -> str | None:
        """Take a new URL with a query into account; returns the pattern of its path if there are
        too many."""
        if not self._most_queries or "?" not in url.path:
            return None
        name = (url.host, url.path.partition("?")[0])
        count = self._queries[name] = self._queries.pop(name, 0) + 1
        if len(self._queries) > REMEMBERED:
            self._queries.popitem(last=False)
        return any_query(url.path) if count >= self._most_queries else None

    def _record(self, host: str, pattern: str) -> _Record:
        name = (host, pattern)
        record = self._records[name] = self._records.get(name) or _Record()
        self._records.move_to_end(name)
        if len(self._records) > REMEMBERED:
            self._records.popitem(last=False)
        return record

    def _is_new(self, record: _Record, body: bytes) -> bool:
        content = body if self._mode == SAME else body.translate(None, _NUMBERS)
        return record.is_new(xxh3_64_intdigest(content) & _32_BITS)
