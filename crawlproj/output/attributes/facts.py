"""One parsed page, asked for what attributes are made of. Everything that is taken is bounded."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import urljoin

from resiliparse.parse.html import HTMLTree

MOST_TAGS = 500
"""Elements of one kind that are looked at."""
MAX_VALUE = 2000
"""Characters of a value."""

_spaces = re.compile(r"\s+")
_tags = re.compile(r"<[^>]*>")
_marks_up = re.compile(r"</[a-z]|/>|(?<=\S)<(?:br|p)\b", re.IGNORECASE)
"""What is in a value that holds markup, and not in one that tells of an element: `<video>: …`."""


class Elements(NamedTuple):
    """Which elements are looked for."""

    selector: str
    """Of CSS."""
    sign: bytes = b""
    """What the markup has in lower case if there is such an element: to look for that takes a third
    of what most selectors take."""


META = Elements("meta[content]", b"<meta")
BASE = Elements("base[href]", b"<base")


class Facts:
    """A page, parsed once."""

    def __init__(self, markup: str, url: str) -> None:
        self.markup = markup
        self._lower = markup.encode("utf-8", "replace").lower()
        self._signs: dict[bytes, bool] = {}
        self.url = url
        self.tree = HTMLTree.parse(markup)

    def all(self, wanted: Elements, most: int = MOST_TAGS) -> Iterator[Any]:
        """Such elements, in the order of the page."""
        if not self._has(wanted.sign):
            return iter(())
        return islice(iter(self.tree.document.query_selector_all(wanted.selector)), most)

    def _has(self, sign: bytes) -> bool:
        found = self._signs.get(sign)
        if found is None:
            found = self._signs[sign] = sign in self._lower
        return found

    def text_of(self, wanted: Elements) -> str | None:
        """What the first of them says that says something."""
        found = (one_line(node.text[: 4 * MAX_VALUE]) for node in self.all(wanted, 5))
        return next(filter(None, found), None)

    @cached_property
    def metas(self) -> dict[str, list[str]]:
        """`<meta>` by lower-case name, property or itemprop: its contents, as text."""
        found: dict[str, list[str]] = {}
        for meta in self.all(META):
            name = meta.getattr("property") or meta.getattr("name") or meta.getattr("itemprop")
            content = one_line(meta.getattr("content")[:MAX_VALUE])
            if name and content:
                found.setdefault(name.lower()[:100], []).append(content)
        return found

    def meta(self, *names: str) -> str | None:
        """The first of these that the page has."""
        return next((self.metas[name][0] for name in names if name in self.metas), None)

    @cached_property
    def base(self) -> str:
        """What relative URLs of the page are relative to."""
        href = next((node.getattr("href") for node in self.all(BASE, 1)), "")
        return self.absolute(href, self.url) or self.url

    def absolute(self, href: str | None, base: str | None = None) -> str | None:
        """A URL of the page; None for what is none of the web's."""
        if not href or len(href) > MAX_VALUE:
            return None
        try:
            found = urljoin(base or self.base, href.strip())
        except ValueError:
            return None
        return found if found.startswith(("http://", "https://")) else None


def one_line(text: str) -> str:
    """Text without line breaks and repeated spaces."""
    return _spaces.sub(" ", text).strip()


def text_of_value(value: str) -> str:
    """What a page says in a `<meta>` or in JSON, on one line: some write markup there."""
    return without_tags(value) if _marks_up.search(value) else one_line(html.unescape(value))


def without_tags(markup: str) -> str:
    """The text of a piece of markup, on one line."""
    return one_line(html.unescape(_tags.sub(" ", markup)))
