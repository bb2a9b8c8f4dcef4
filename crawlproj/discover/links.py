"""HTML → links and title, in bulk: what the crawl itself wants to know of a page.

A page is read by one regular expression (markup.py), which returns the few tags that matter. No
tree is built. Trees cost quadratic time on 100,000 nested elements and gigabytes on 100 KB of
unclosed `<font>`; here time is linear in the page, always.

Pure: knows nothing of Scrapy, Redis, scope or priorities.
"""

from __future__ import annotations

import codecs
import html
import re
from functools import lru_cache
from typing import NamedTuple

from w3lib.encoding import html_body_declared_encoding, resolve_encoding, to_unicode

from crawlproj.discover.beginnings import Beginnings
from crawlproj.discover.markup import HREFS, attributes_of, scanner, unescape
from crawlproj.possessive import compiled
from crawlproj.urls import MAX_LENGTH, Url, UrlError, normalise

MAX_LINKS = 10_000
"""Different links kept of one page; the others are counted."""
MAX_TITLE = 500
"""Characters of a title."""


BINARY = "binary"
"""What stands for the encoding of a body that is no text at all, whatever its content type said;
nothing is read from it."""


class Page(NamedTuple):
    """What a page says of itself and of others."""

    title: str
    links: list[str]
    """Each href once, in the order of the page, entities decoded, not yet resolved."""
    overflow: int = 0
    """Links left out because there were more than the maximum."""
    base: str | None = None
    """The first `<base href>`; see `base_of`."""
    nofollow: bool = False
    noindex: bool = False
    encoding: str = "utf-8"


_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# fmt: off
# The encodings of https://encoding.spec.whatwg.org by Python's names. A page may not choose
# among all of Python's codecs: some are no encodings (zip), some take quadratic time (punycode).
_ENCODINGS = frozenset((
    "utf-8", "utf-16-le", "utf-16-be", "gb18030", "big5hkscs", "euc_jp", "iso2022_jp", "cp932",
    "cp949", "koi8-r", "koi8-u", "mac-roman", "mac-cyrillic", "cp866", "cp874",
    *(f"cp{number}" for number in range(1250, 1259)),
    *(f"iso8859-{number}" for number in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)),
))
# fmt: on
_CONTROLS = bytes(set(range(0x20)) - set(b"\t\n\f\r\x1b"))
# fmt: off
_MAGIC = (
    b"\x89PNG", b"GIF8", b"\xff\xd8\xff", b"%PDF-", b"PK\x03\x04", b"\x1f\x8b", b"RIFF",
    b"Rar!", b"7z\xbc\xaf", b"\x7fELF", b"OggS", b"ID3", b"wOFF", b"wOF2", b"\x00asm",
)
# fmt: on


def decode(body: bytes, encoding: str | None) -> tuple[str | None, str]:
    """Return (text, encoding); the text is None where the body is none."""
    for mark, name in _BOMS:
        if body.startswith(mark):
            return _decode(body[len(mark) :], name), name
    declared = _known(encoding) if encoding else None
    if declared is None or not declared.startswith("utf-16"):
        if _is_binary(body):
            return None, BINARY
        declared = declared or _declared_in(body)
    if declared:
        return _decode(body, declared), declared
    try:
        return _clean(body.decode("utf-8")), "utf-8"
    except UnicodeDecodeError:
        return _decode(body, "cp1252"), "cp1252"


@lru_cache
def _known(label: str) -> str | None:
    name = resolve_encoding(label)
    if name == "utf-16":
        name = "utf-16-le"
    return name if name in _ENCODINGS else None


def _declared_in(body: bytes) -> str | None:
    name = html_body_declared_encoding(body)
    if name and name.startswith("utf-16"):
        return "utf-8"  # a declaration that can be read as ASCII is wrong about this
    return name if name in _ENCODINGS else None


def _decode(body: bytes, encoding: str) -> str:
    return _clean(to_unicode(body, encoding))


def _clean(text: str) -> str:
    return text.replace("\0", "\ufffd") if "\0" in text else text


def _is_binary(body: bytes) -> bool:
    """By signature, or by one control character in twenty, which no text of any length has."""
    head = body[:512]
    controls = len(head) - len(head.translate(None, _CONTROLS))
    return body.startswith(_MAGIC) or controls * 20 > max(len(head), 100)


_refresh = re.compile(
    r"""[\s\d.]*[\s;,]\s*(?:url\s*=\s*)?(?:"([^"]*)|'([^']*)|(.+))""", re.IGNORECASE | re.DOTALL
)
# Of a meta tag that it is about robots or leads elsewhere, perhaps in entities.
_MAY_MATTER = re.compile("robots|refresh|&", re.IGNORECASE)
_candidate = compiled(r"([^\s,]\S*[^\s,]|[^\s,])(?:\s[^,]*+)?+")
HTML_SPACE = " \t\n\f\r"
_NOFOLLOW, _NOINDEX = frozenset({"nofollow", "none"}), frozenset({"noindex", "none"})
_spaces = re.compile(r"[\t\n\f\r][ \t\n\f\r]*+| [ \t\n\f\r]++")  # all but single blanks


def extract(
    body: bytes,
    encoding: str | None = None,
    *,
    max_links: int = MAX_LINKS,
    images: bool = False,
    skip_nofollow: bool = False,
) -> Page:
    """Read a page. `encoding` is what its HTTP header says, None to detect it as browsers do.

    `images` takes those of `img` and `source` too, in every size; `skip_nofollow` leaves out the
    anchors marked `rel=nofollow`.
    """
    text, used = decode(body, encoding)
    if text is None:
        return Page("", [], encoding=used)
    return Reader(text, used, max_links, images, skip_nofollow).read()


_beginnings = Beginnings()


class Reader:
    """One page being read; what is kept between its tags."""

    def __init__(
        self,
        text: str,
        encoding: str,
        max_links: int,
        images: bool,
        skip_nofollow: bool,
    ) -> None:
        self.text = text
        self.encoding = encoding
        self.max_links = max_links
        self.images = images
        self.skip_nofollow = skip_nofollow
        self.links: dict[str, None] = {}
        self.overflow = 0
        self.title: str | None = None
        self.base: str | None = None
        self.robots: set[str] = set()

    def read(self) -> Page:
        self._scan()
        return Page(
            title=self.title or "",
            links=list(self.links),
            overflow=self.overflow,
            base=self.base,
            nofollow=not _NOFOLLOW.isdisjoint(self.robots),
            noindex=not _NOINDEX.isdisjoint(self.robots),
            encoding=self.encoding,
        )

    def _scan(self) -> None:
        start: int | None = 0
        while start is not None:
            start = self._scan_from(start)

    def _scan_from(self, start: int) -> int | None:
        """Read on from there; returns where to go on after a beginning that is known, if there is
        one, and None at the end."""
        add = self._add
        for match in scanner(self.images).finditer(self.text, start):
            href = match["plain"]
            if href is not None:  # as nearly always
                add(unescape(href) if "&" in href else href)
                continue
            kind = match.lastgroup
            if kind in HREFS:
                self._add_unless_nofollow(match)
            elif kind == "body":
                if end := self._end_of_known(match.end()):
                    return end
            elif kind and not self._heed(kind, match):
                break
        return None

    def _end_of_known(self, at: int) -> int | None:
        """Take the links with which the body that begins there is known to begin; returns where
        they end."""
        known = _beginnings.find(self.text, at, (self.images, self.skip_nofollow), self._beginning)
        # Without a title, a drawing in there would matter.
        if known is None or self.title is None:
            return None
        if len(self.links) + len(known.links) > self.max_links:
            return None
        self.links |= known.links
        return at + len(known.text)

    def _beginning(self, text: str) -> tuple[int, dict[str, None]]:
        """How far a text holds nothing but links, and these."""
        reader = Reader(text, self.encoding, self.max_links, self.images, self.skip_nofollow)
        end = 0
        for match in scanner(self.images).finditer(text):
            kind = match.lastgroup
            is_drawing = kind == "attributes" and match["tag"].lower() == "svg"
            if match.end() == len(text) or not (kind in (*HREFS, "anchor") or is_drawing):
                break
            if kind in HREFS:
                reader._add_unless_nofollow(match)
            if reader.overflow:
                break
            end = match.end()
        return end, reader.links

    def _add_unless_nofollow(self, match: re.Match[str]) -> None:
        if not (self.skip_nofollow and self._is_nofollow(match)):
            self._add(unescape(match[match.lastgroup or ""]))

    def _heed(self, kind: str, match: re.Match[str]) -> bool:
        """Take note of what is no link; False if nothing after it is markup."""
        if kind == "title" and self.title is None:
            self.title = _one_line(match["title"])
        elif kind == "attributes":
            if match["tag"].lower() == "plaintext":
                return False
            self._tag(match["tag"].lower(), match["attributes"])
        return True

    def _add(self, href: str) -> None:
        href, links = href.strip(HTML_SPACE), self.links
        if href in links or not href or href[0] == "#":
            return
        if len(links) < self.max_links:
            links[href] = None
        else:
            self.overflow += 1

    def _is_nofollow(self, match: re.Match[str]) -> bool:
        text = self.text[match.end("anchor") : match.end() - 1]
        if "rel" not in text.lower():  # as most of them
            return False
        return "nofollow" in attributes_of(text).get("rel", "").lower().split()

    def _tag(self, tag: str, text: str) -> None:
        if tag == "svg":
            # The titles inside a drawing are not the page's, and its own comes before any drawing.
            self.title = self.title or ""
            return
        if tag == "meta" and not _MAY_MATTER.search(text):
            return
        attributes = attributes_of(text)
        if tag == "base":
            if self.base is None and "href" in attributes:
                self.base = attributes["href"].strip(HTML_SPACE)
        elif tag == "meta":
            self._meta(attributes)
        else:
            self._add(attributes.get("src", ""))
            for candidate in candidates(attributes.get("srcset", "")):
                self._add(candidate)

    def _meta(self, attributes: dict[str, str]) -> None:
        content = attributes.get("content", "")
        if attributes.get("name", "").lower() == "robots":
            self.robots.update(re.split(r"[\s,]+", content.lower()))
        elif attributes.get("http-equiv", "").lower() == "refresh" and (
            found := _refresh.match(content[: 2 * MAX_LENGTH])
        ):
            self._add(found[1] or found[2] or found[3] or "")


def candidates(srcset: str) -> list[str]:
    """The images of a `srcset`, without what it says of each."""
    return _candidate.findall(srcset)


def _one_line(text: str) -> str:
    line = _spaces.sub(" ", html.unescape(text[: 4 * MAX_TITLE])).strip(" ")
    return line[:MAX_TITLE].rstrip(" ")


def base_of(page: Page, url: Url) -> Url:
    """What the links of a page fetched from `url` are relative to; a bad `<base>` is ignored."""
    if page.base is None:
        return url
    try:
        return normalise(page.base, url, drop=None)
    except UrlError:
        return url


def query_encoding(encoding: str) -> str:
    """What queries of a page's links are escaped in, the standard's "output encoding"."""
    return "utf-8" if encoding.startswith("utf-16") else encoding
