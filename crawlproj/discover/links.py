"""HTML → links and title, in bulk: what the crawl itself wants to know of a page.

A page is read by one regular expression that follows the tokeniser of the HTML standard
(https://html.spec.whatwg.org/#tokenization): comments, raw text such as scripts, and quoted
attributes are passed over, the few tags that matter are returned. No tree is built. Trees cost
quadratic time on 100,000 nested elements and gigabytes on 100 KB of unclosed `<font>`; here every
quantifier is possessive or ends at the end of the text, so that time is linear in the page, always.

Pure: knows nothing of Scrapy, Redis, scope or priorities.
"""

from __future__ import annotations

import codecs
import html
import re
from collections.abc import Callable
from functools import cached_property, lru_cache, partial
from html.entities import html5
from string import ascii_lowercase
from typing import NamedTuple

from w3lib.encoding import html_body_declared_encoding, resolve_encoding, to_unicode

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
_MAGIC = (
    *(b"\x89PNG", b"GIF8", b"\xff\xd8\xff", b"%PDF-", b"PK\x03\x04", b"\x1f\x8b", b"RIFF"),
    *(b"Rar!", b"7z\xbc\xaf", b"\x7fELF", b"OggS", b"ID3", b"wOFF", b"wOF2", b"\x00asm"),
)


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


# The grammar of tags. Case is spelled out because that is twice as fast as ignoring it. No group
# inside a possessive quantifier captures: Python 3.11 fails on that (SystemError, "report a bug").


def _name(*names: str) -> str:
    spelled = ("".join(f"[{char}{char.upper()}]" for char in name) for name in names)
    return f"(?:{'|'.join(spelled)})"


def _initial_of_none(*names: str) -> str:
    """A letter by which it is already known that a tag is none of these."""
    others = "".join(sorted(set(ascii_lowercase) - {name[0] for name in names}))
    return f"[{others}{others.upper()}]"


def _element(tag: str, group: str = "") -> str:
    """An element whose content is text up to its own end tag, markup or not."""
    name = _name(tag)
    capture = f"?P<{group}>" if group else "?:"
    return rf"""{name}{_STOP}{_ATTRIBUTES}{_END}({capture}[^<]*+(?:<(?!/{name}{_STOP})[^<]*+)*+)"""


_WS = r"[\x20\t\n\f\r]"
_STOP = r"(?=[\x20\t\n\f\r/>])"
_END = r"(?:>|\Z)"
_UNQUOTED = r"""[^\x20\t\n\f\r>"'][^\x20\t\n\f\r>]*+"""
_VALUE = rf"""(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z)|{_UNQUOTED})"""
_ATTRIBUTE = rf"[^\x20\t\n\f\r/>][^\x20\t\n\f\r/>=]*+(?:{_WS}*+={_WS}*+{_VALUE}?+)?+"
_ATTRIBUTES = rf"(?:[\x20\t\n\f\r/]++|{_ATTRIBUTE})*+"
_PLAIN_ATTRIBUTES = r'(?:\x20[a-zA-Z\-]++="[^"]*+")++'  # most of them; a shortcut
_REST = rf"[^\x20\t\n\f\r/>]*+(?:>|{_PLAIN_ATTRIBUTES}>|{_ATTRIBUTES}{_END})"
_HREF = rf"""{_name("href")}{_WS}*+={_WS}*+
    (?:"(?P<double>[^"]*+)"|'(?P<single>[^']*+)'|(?P<bare>{_UNQUOTED}))"""
_HREFS = ("plain", "double", "single", "bare")
# A shortcut for most anchors, too; none of them is marked `rel=nofollow`.
_OTHERS = rf"""(?:\x20(?!{_name("href", "rel")}=)[a-zA-Z\-]++="[^"]*+")*+"""
_PLAIN_HREF = rf"""{_OTHERS}\x20href="(?P<plain>[^"]*+)"{_OTHERS}(?=>)"""

_RAW_TEXT = ("script", "style", "textarea", "xmp", "noembed", "noframes", "iframe")
_TAGS = ("base", "meta", "svg", "plaintext")
_IMAGES = ("img", "source")


@lru_cache
def _scanner(images: bool) -> re.Pattern[str]:
    """One match a tag of interest, preceded by all that is not; the last one is empty."""
    tags = _TAGS + _IMAGES if images else _TAGS
    special = ("a", "area", "title", *tags, *_RAW_TEXT)
    return re.compile(
        rf"""
        (?: [^<]*+
            < (?: /[a-zA-Z]{_REST}
                | {_initial_of_none(*special)}{_REST}
                | (?!{_name(*special)}{_STOP})[a-zA-Z]{_REST}
                | !--(?:-?>|[^-]*+(?:-(?!-!?>)[^-]*+)*+(?:--!?>|\Z))
                | [!?/][^>]*+{_END}
                | {"|".join(_element(tag) for tag in _RAW_TEXT)}
                | (?![a-zA-Z!?/])
              )
        )*+
        [^<]*+
        (?: < (?: {_element("title", "title")}
                | (?: {_name("a", "area")}{_STOP}(?P<anchor>)
                      (?: {_PLAIN_HREF}
                        | (?:[\x20\t\n\f\r/]++|(?!{_name("href")}[\x20\t\n\f\r/>=]){_ATTRIBUTE})*+
                          (?:{_HREF})?{_ATTRIBUTES} )
                    | (?P<tag>{_name(*tags)}){_STOP}(?P<attributes>{_ATTRIBUTES})
                  )
                  (?:>|\Z(?P<cut_off>))
              )
          | \Z )
        """,
        re.DOTALL | re.VERBOSE,
    )


_one_attribute = re.compile(
    rf"""[\x20\t\n\f\r/]*+(?P<name>[^\x20\t\n\f\r/>][^\x20\t\n\f\r/>=]*+)
    (?:{_WS}*+={_WS}*+(?P<value>{_VALUE})?)?""",
    re.VERBOSE,
)
# As in attributes, where `&copy=1` is a parameter and not a sign.
_entity = re.compile(r"&(?:#[0-9]++;?|#[xX][0-9a-fA-F]++;?|[A-Za-z][A-Za-z0-9]*+(?:;|(?!=)))")
_refresh = re.compile(
    r"""[\s\d.]*[\s;,]\s*(?:url\s*=\s*)?(?:"([^"]*)|'([^']*)|(.+))""", re.IGNORECASE | re.DOTALL
)
_candidate = re.compile(r"([^\s,]\S*[^\s,]|[^\s,])(?:\s[^,]*+)?+")
_HTML_SPACE = " \t\n\f\r"
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
    may_skip = partial(_may_have_nofollow, body, used) if skip_nofollow else _has_no_nofollow
    return _Reader(text, used, max_links, images, may_skip).read()


def _may_have_nofollow(body: bytes, encoding: str) -> bool:
    """Most pages have no such mark at all, and then no anchor needs a closer look. Bytes are put
    into lower case ten times as fast as text."""
    return encoding.startswith("utf-16") or b"nofollow" in body.lower()


def _has_no_nofollow() -> bool:
    """Of a page whose marks do not matter."""
    return False


class _Reader:
    """One page being read; what is kept between its tags."""

    def __init__(
        self,
        text: str,
        encoding: str,
        max_links: int,
        images: bool,
        may_skip: Callable[[], bool],
    ) -> None:
        self.text = text
        self.encoding = encoding
        self.max_links = max_links
        self.images = images
        self._may_skip = may_skip
        self.links: dict[str, None] = {}
        self.overflow = 0
        self.title: str | None = None
        self.base: str | None = None
        self.robots: set[str] = set()

    def read(self) -> Page:
        for match in _scanner(self.images).finditer(self.text):
            kind = match.lastgroup
            if kind in _HREFS:
                if kind == "plain" or not (self.may_skip and self._is_nofollow(match)):
                    href = match[kind]
                    self._add(_unescape(href) if "&" in href else href)
            elif kind == "title" and self.title is None:
                self.title = _one_line(match["title"])
            elif kind == "attributes":
                if match["tag"].lower() == "plaintext":
                    break
                self._tag(match["tag"].lower(), match["attributes"])
        return Page(
            title=self.title or "",
            links=list(self.links),
            overflow=self.overflow,
            base=self.base,
            nofollow=not self.robots.isdisjoint({"nofollow", "none"}),
            noindex=not self.robots.isdisjoint({"noindex", "none"}),
            encoding=self.encoding,
        )

    @cached_property
    def may_skip(self) -> bool:
        return self._may_skip()

    def _add(self, href: str) -> None:
        href = href.strip(_HTML_SPACE)
        if not href or href[0] == "#" or href in self.links:
            return
        if len(self.links) < self.max_links:
            self.links[href] = None
        else:
            self.overflow += 1

    def _is_nofollow(self, match: re.Match[str]) -> bool:
        attributes = _attributes(self.text[match.end("anchor") : match.end() - 1])
        return "nofollow" in attributes.get("rel", "").lower().split()

    def _tag(self, tag: str, text: str) -> None:
        if tag == "svg":
            # The titles inside a drawing are not the page's, and its own comes before any drawing.
            self.title = self.title or ""
            return
        attributes = _attributes(text)
        if tag == "base":
            if self.base is None and "href" in attributes:
                self.base = attributes["href"].strip(_HTML_SPACE)
        elif tag == "meta":
            self._meta(attributes)
        else:
            self._add(attributes.get("src", ""))
            for candidate in _candidate.findall(attributes.get("srcset", "")):
                self._add(candidate)

    def _meta(self, attributes: dict[str, str]) -> None:
        content = attributes.get("content", "")
        if attributes.get("name", "").lower() == "robots":
            self.robots.update(re.split(r"[\s,]+", content.lower()))
        elif attributes.get("http-equiv", "").lower() == "refresh" and (
            found := _refresh.match(content[: 2 * MAX_LENGTH])
        ):
            self._add(found[1] or found[2] or found[3] or "")


def _attributes(text: str) -> dict[str, str]:
    """The attributes of a tag, by lower-case name; the first of a name counts."""
    found: dict[str, str] = {}
    for attribute in _one_attribute.finditer(text):
        value = attribute["value"] or ""
        if value[:1] in ("'", '"'):
            value = value[1:-1]
        found.setdefault(attribute["name"].lower(), _unescape(value))
    return found


def _unescape(value: str) -> str:
    return _entity.sub(_decode_entity, value)


def _decode_entity(entity: re.Match[str]) -> str:
    text = entity[0]
    if text[1] == "#":
        return html.unescape(text) if len(text) < 16 else "\ufffd"
    return html5.get(text[1:], text)


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
