"""The rows of the link table: a line of JSON a page, with its links.

    {"source": …, "fetched_at": …, "links": [{"target": …, "text": …, "rel": …}, …], "lease": …}

Targets are in the normal form of the crawl; what is no URL (`mailto:`, a malformed one) is kept as
it is written, cut, with what is wrong as its `error`. With anchors a link also has its `fragment`,
and a page its `anchors`: where in it fragments can lead, as a set of checksums. A redirect is a
page with one link.

Most of a page's links stand on the pages around it too, word for word: their piece of JSON is made
once. Pure but for whoever takes the rows.
"""

from __future__ import annotations

import base64
import sys
from array import array
from binascii import crc32
from collections.abc import Callable, Collection, Iterable, Mapping
from json.encoder import encode_basestring

from crawlproj.discover import links
from crawlproj.discover.known_links import is_the_same_everywhere
from crawlproj.discover.link_details import Details, Found, fragment_of, label
from crawlproj.urls import MAX_SHOWN, Url, UrlError

REDIRECT = "redirect"
"""The rel of the one link of a redirect."""

MOST_KNOWN = 50_000
"""Pieces of JSON that are remembered, of all hosts together; then they are forgotten."""

LONGEST_KNOWN = 500
"""Characters of a link whose piece is remembered. Hardly any has more, but those of one hostile
page can be as long as it."""

_WITH_REL = 3
_EMPTY = '""'

Resolve = Callable[[str, Url, str], Url]


class Recorder:
    """Makes the rows of one worker's pages."""

    def __init__(self, write: Callable[[bytes], None], *, anchors: bool) -> None:
        self._write = write
        self._anchors = anchors
        self._known: dict[str, dict[Found, str]] = {}
        self._pieces = 0

    def page(
        self, url: Url, fetched_at: str, read: Details, resolve: Resolve, lease: int = 0
    ) -> None:
        """The row of a page that was read."""
        base = links.base_of(read.page, url)
        known = self._known.setdefault(base.host, {})
        encoding = links.query_encoding(read.page.encoding)
        found = [*read.found, *read.embedded] if read.embedded else read.found
        pieces = dict.fromkeys(
            [known.get(link) or self._new(link, url, base, encoding, resolve) for link in found]
        )
        pieces.pop("", None)
        more = f',"anchors":"{checksums(read.ids)}"' if self._anchors else ""
        self._row(str(url), fetched_at, pieces, more, lease)

    def redirect(self, url: str, fetched_at: str, target: str, lease: int) -> None:
        """The row of a redirect."""
        self._row(url, fetched_at, [_piece(target, "", REDIRECT)], "", lease)

    def again(
        self, url: str, fetched_at: str, found: Iterable[Mapping[str, str]], lease: int
    ) -> None:
        """The row of a page that was read before, of the links that it had then."""
        pieces = []
        for link in found:
            piece = _piece(link["target"], link.get("text", ""), link.get("rel", ""))
            pieces.append(_with(piece, "error", link["error"]) if "error" in link else piece)
        self._row(url, fetched_at, pieces, "", lease)

    def _row(
        self, source: str, fetched_at: str, pieces: Iterable[str], more: str, lease: int
    ) -> None:
        row = (
            f'{{"source":{encode_basestring(source)},"fetched_at":"{fetched_at}",'
            f'"links":[{",".join(pieces)}]{more},"lease":{lease}}}\n'
        )
        self._write(row.encode("utf-8", "replace"))

    def _new(self, link: Found, url: Url, base: Url, encoding: str, resolve: Resolve) -> str:
        """The JSON of a link; '' for one that is not kept. What means the same on all pages of a
        host is known again."""
        piece = self._piece(link, url, base, encoding, resolve)
        if is_the_same_everywhere(link[0]) and sum(map(len, link)) <= LONGEST_KNOWN:
            self._known.setdefault(base.host, {})[link] = piece
            self._pieces += 1
            if self._pieces >= MOST_KNOWN:
                self._known, self._pieces = {}, 0
        return piece

    def _piece(self, link: Found, url: Url, base: Url, encoding: str, resolve: Resolve) -> str:
        href, text, rel = link if len(link) == _WITH_REL else (*link, "")
        href = href.strip(links.HTML_SPACE)
        fragment = fragment_of(href) if self._anchors and "#" in href else ""
        if not href or (href[0] == "#" and not fragment):
            return ""
        try:
            # A fragment alone leads into the page that has it, whatever its `<base>` is.
            target = str(url if href[0] == "#" else resolve(href, base, encoding))
        except UrlError as error:
            return _with(_piece(href[:MAX_SHOWN], label(text), label(rel)), "error", error.reason)
        piece = _piece(target, label(text), label(rel) if rel else "")
        return _with(piece, "fragment", fragment) if fragment else piece


def _piece(target: str, text: str, rel: str) -> str:
    return (
        f'{{"target":{encode_basestring(target)},"text":{encode_basestring(text)},'
        f'"rel":{encode_basestring(rel) if rel else _EMPTY}}}'
    )


def _with(piece: str, name: str, value: str) -> str:
    """The link with one member more."""
    return f'{piece[:-1]},"{name}":{encode_basestring(value)}}}'


def checksums(ids: Collection[str]) -> str:
    """A page's ids as a set of four bytes each. One in four billion ids that are not there is
    taken for one that is, for each that is."""
    sums = array("I", sorted({checksum(one) for one in ids}))
    if sys.byteorder == "big":
        sums.byteswap()
    return base64.b64encode(sums.tobytes()).decode()


def read_checksums(sums: str) -> frozenset[int]:
    """The set that `checksums` has packed; ValueError for anything else."""
    found = array("I", base64.b64decode(sums, validate=True))
    if sys.byteorder == "big":
        found.byteswap()
    return frozenset(found)


def checksum(text: str) -> int:
    """Four bytes that stand for a text."""
    return crc32(text.encode("utf-8", "surrogatepass"))
