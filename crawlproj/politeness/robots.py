"""What a host's robots.txt says to one crawler, by RFC 9309. Pure.

`judge` tells from the status of its fetch whether there are rules at all, `parse` reads them,
`RobotsRules.allows` applies them, `pack` and `unpack` carry the file between workers. A file is
hostile input: nothing in it raises, and no pattern costs more than a few passes over the URL.

Fetching, caching and clamping the delay are the business of others; knows neither Scrapy nor Redis.
Protego, which Scrapy brings, is not used: it departs from the RFC in the group it picks (`bot` for
`bottle`), in `$`, in slashes of a query and in which of two rules is the longer
(tests/unit/test_robots.py keeps the cases).
"""

from __future__ import annotations

import math
import re
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain
from sys import getsizeof
from typing import NamedTuple

MOST_BYTES = 500 * 1024
"""How much of a file is read; RFC 9309, 2.5."""
MOST_REDIRECTS = 5
"""Redirects followed to reach a file, after which it counts as unavailable; RFC 9309, 2.3.1.2."""
PATH = "/robots.txt"
"""Where the rules are; always allowed (RFC 9309, 2.2.2)."""

_FORMAT = 1
_HEADER = struct.Struct(">BBH")
_BORROWED = 0x80

# Lines are handled as one character a byte, so that a file in any encoding keeps its octets.
_BLANKS = " \t\v\f"
_LINE_END = re.compile(r"[\r\n]+")
# Misspellings are those that Google's parser forgives. Without a colon only a single word is taken
# for a value: a sentence that begins with "Allow" is no rule.
_LINE = re.compile(
    r"(?:(?P<agent>user[ -]?agent)"
    r"|(?P<disallow>dis{1,2}allow|dis{1,2}alow|diasllow|disallaw)"
    r"|(?P<allow>allow)"
    r"|(?P<delay>crawl[ -]?delay)"
    r"|(?P<sitemap>site-?maps?))"
    r"(?:[ \t]*+:(?P<value>.*+)|[ \t]++(?P<word>[^ \t]++))",
    re.IGNORECASE | re.DOTALL,
)
_TOKEN = re.compile(r"[A-Za-z0-9_.\-]+")
_COMPATIBLE = re.compile(r"compatible;[ \t]*([A-Za-z0-9_.\-]+)", re.IGNORECASE)
_ORIGIN = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://[^/?#]*")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_PLAIN = frozenset(map(chr, range(0x21, 0x7F))) - set("/?*$#%")
_ESCAPES = {
    octet: f"%{octet:02X}" for octet in range(256) if chr(octet) not in _PLAIN | set("/?#%")
}


class Verdict(Enum):
    """What the answer to a request for robots.txt means for the host."""

    ALLOW_ALL = 0
    """There is no file: everything may be fetched."""
    RULES = 1
    """The body says."""
    DENY_ALL = 2
    """It could not be reached: nothing may be fetched, and it is to be asked for again."""
    REDIRECT = 3
    """It is elsewhere; nothing may be fetched until it has been followed."""


def judge(status: int, redirects: int = 0) -> Verdict:
    """The meaning of a status; `redirects` have been followed to get it, 0 stands for no answer.

    429 is in the range that RFC 9309 calls unavailable and allows, but says that the server is
    overloaded; it counts as unreachable, as Google documents.
    """
    if 200 <= status < 300:
        return Verdict.RULES
    if 300 <= status < 400:
        return Verdict.REDIRECT if redirects < MOST_REDIRECTS else Verdict.ALLOW_ALL
    if 400 <= status < 500 and status != 429:
        return Verdict.ALLOW_ALL
    return Verdict.DENY_ALL


class _Weight(NamedTuple):
    """How specific a rule is; the greatest that matches decides, and of equals the one to allow."""

    octets: int
    allow: bool


_NO_RULE = _Weight(-1, True)


class _Wildcard(NamedTuple):
    """A rule with a `*` in it: the literals around the stars."""

    weight: _Weight
    rarest: str
    """The longest of them, which most paths do not contain."""
    parts: tuple[str, ...]
    to_the_end: bool

    @property
    def size_bytes(self) -> int:
        """What it takes in memory; Python has texts of a single character anyway."""
        texts = (part for part in self.parts if len(part) > 1)
        return sum(map(getsizeof, chain((self, self.weight, self.parts), texts)))

    def matches(self, path: str) -> bool:
        """Each literal at its first place after the one before: no way back, so linear time."""
        if self.rarest not in path or not path.startswith(self.parts[0]):
            return False
        first, *middle, last = self.parts
        at = len(first)
        for part in middle:
            found = path.find(part, at)
            if found < 0:
                return False
            at = found + len(part)
        return path.endswith(last, at) if self.to_the_end else path.find(last, at) >= 0


class RobotsRules:
    """What one host's robots.txt says to one user agent."""

    def __init__(
        self,
        patterns: Iterable[tuple[str, bool]] = (),
        delay_s: float | None = None,
        sitemaps: Iterable[str] = (),
    ) -> None:
        """`patterns` are paths as the file has them, an octet a character, and True to allow."""
        self.delay_s = delay_s
        """Crawl-delay: finite and not negative, of any size."""
        self.sitemaps = list(sitemaps)
        """As they are written: usually absolute URLs, of any host."""
        self._prefixes: dict[str, bool] = {}
        self._exact: dict[str, bool] = {}
        wildcards = {rule for pattern in set(patterns) if (rule := self._compile(*pattern))}
        self._wildcards = sorted(wildcards, reverse=True)
        self._prefix_lengths = sorted(set(map(len, self._prefixes)), reverse=True)

    @property
    def size_bytes(self) -> int:
        """About what they take in memory: many times the file, if its rules are short."""
        tables = (self._prefixes, self._exact, self._wildcards, self.sitemaps)
        texts = chain(self._prefixes, self._exact, self.sitemaps)
        rules = sum(rule.size_bytes for rule in self._wildcards)
        return sum(map(getsizeof, chain(tables, texts))) + rules

    def allows(self, url: str) -> bool:
        """Whether a URL, or a path with its query, may be fetched."""
        path = _path(url)
        return path == PATH or max(map(self._most_specific, _spellings(path))).allow

    def _most_specific(self, path: str) -> _Weight:
        allow = self._exact.get(path)
        exact = _NO_RULE if allow is None else _Weight(len(path) + 1, allow)
        tried = (rule.weight for rule in self._wildcards if rule.matches(path))
        return max(exact, self._longest_prefix(path), next(tried, _NO_RULE))

    def _longest_prefix(self, path: str) -> _Weight:
        for length in self._prefix_lengths:
            if length <= len(path) and (allow := self._prefixes.get(path[:length])) is not None:
                return _Weight(length, allow)
        return _NO_RULE

    def _compile(self, pattern: str, allow: bool) -> _Wildcard | None:
        """Keep a literal where it is looked up; return a rule that has to be tried."""
        to_the_end = pattern.endswith("$")
        parts = tuple(_canonical(part) for part in pattern.removesuffix("$").split("*"))
        if len(parts) > 1:
            weight = _Weight(sum(map(len, parts)) + len(parts) - 1 + to_the_end, allow)
            return _Wildcard(weight, max(parts, key=len), parts, to_the_end)
        literals = self._exact if to_the_end else self._prefixes
        literals[parts[0]] = allow or literals.get(parts[0], False)
        return None


def _path(url: str) -> str:
    """Path and query of a URL in the spelling that rules are compared in."""
    origin = None if url.startswith("/") else _ORIGIN.match(url)
    path = url[origin.end() if origin else 0 :].partition("#")[0]
    path = path if path.startswith("/") else "/" + path
    return _canonical(path.encode("utf-8", "surrogatepass").decode("latin-1"))


def _canonical(text: str) -> str:
    """One spelling for each octet: printable ASCII as itself, the rest as an upper-case escape.

    RFC 9309, 2.2.2, wants reserved characters equal to their escapes; those that mean something
    to a path or a pattern differ from theirs all the same.
    """
    return _ESCAPE.sub(_unescape, text).translate(_ESCAPES)


def _unescape(escape: re.Match[str]) -> str:
    char = chr(int(escape[1], 16))
    return char if char in _PLAIN else escape[0].upper()


def _spellings(path: str) -> Iterable[str]:
    """A slash in a query may be written either way, as in RFC 9309's table of encodings."""
    before, mark, query = path.partition("?")
    plain = query.replace("%2F", "/")
    if "/" not in plain:
        return (path,)
    return {path, before + mark + plain, before + mark + plain.replace("/", "%2F")}


def product_token(user_agent: str) -> str:
    """The name by which a robots.txt addresses a crawler, in lower case; '' if it has none.

    The first word of the user agent, or what a `Mozilla/5.0 (compatible; ExampleBot/0.1)` is
    compatible as. Versions do not count.
    """
    token = _COMPATIBLE.search(user_agent)
    if token:
        return token[1].lower()
    first = _TOKEN.match(user_agent.strip())
    return first[0].lower() if first else ""


def parse(body: bytes, user_agent: str) -> RobotsRules:
    """Read whatever is there; what is no rule for `user_agent` is passed over.

    Groups are picked and merged by RFC 9309, 2.2.1: those that name our product token, else those
    for `*`. A Crawl-delay counts as a rule and ends a group's list of agents, as its authors mean
    it; of several the longest holds.
    """
    ours = _Reader(product_token(user_agent))
    for kind, value in _lines(_text(body)):
        ours.read(kind, value)
    return ours.rules()


@dataclass(slots=True)
class _Group:
    """The rules under one name, from everywhere in the file."""

    patterns: list[tuple[str, bool]] = field(default_factory=list)
    delay_s: float | None = None

    def add(self, kind: str, value: str) -> None:
        """One line; a path that begins with neither a slash nor a star can match nothing."""
        if kind == "delay":
            delays_s = (self.delay_s, _seconds(value))
            self.delay_s = max((delay for delay in delays_s if delay is not None), default=None)
        elif value.startswith(("/", "*")):
            self.patterns.append((value, kind == "allow"))


class _Reader:
    """Collects the lines that concern one crawler, group by group."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._groups: dict[str, _Group] = {}
        self._current: set[str] = set()
        self._in_rules = False
        self._sitemaps: dict[str, None] = {}

    def read(self, kind: str, value: str) -> None:
        """One line that is of the protocol or of its customary additions."""
        if kind == "sitemap":
            if value:
                self._sitemaps[value.encode("latin-1").decode("utf-8", "replace")] = None
        elif kind == "agent":
            self._address(value)
        else:
            self._in_rules = True
            for agent in self._current:
                self._groups[agent].add(kind, value)

    def _address(self, value: str) -> None:
        if self._in_rules:
            self._current, self._in_rules = set(), False
        agent = "*" if value[:2].strip(_BLANKS) == "*" else product_token(value)
        if agent and agent in (self._token, "*"):
            self._groups.setdefault(agent, _Group())
            self._current.add(agent)

    def rules(self) -> RobotsRules:
        """What the groups that were picked say."""
        group = self._groups.get(self._token) or self._groups.get("*") or _Group()
        return RobotsRules(group.patterns, group.delay_s, self._sitemaps)


def _seconds(value: str) -> float | None:
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _text(body: bytes) -> str:
    """The part of a file that is read, one character an octet of its UTF-8."""
    body = _first(body)
    if body.startswith((b"\xff\xfe", b"\xfe\xff")):
        body = body.decode("utf-16", "ignore").encode("utf-8", "surrogatepass")
    # Without its NULs, UTF-16 that carries no mark reads as ASCII. Marks come in mid-file where
    # files were joined, no-break spaces where they were pasted from a web page.
    for noise, instead in ((b"\0", b""), (b"\xef\xbb\xbf", b""), (b"\xc2\xa0", b" ")):
        body = body.replace(noise, instead)
    return body.decode("latin-1")


def _first(body: bytes) -> bytes:
    """As much as is read: a line that the limit cuts could say the opposite of the whole one."""
    if len(body) <= MOST_BYTES:
        return body
    start = body[: MOST_BYTES + 1]
    return start[: max(start.rfind(b"\n"), start.rfind(b"\r"), 0)]


def _lines(text: str) -> Iterator[tuple[str, str]]:
    for line in _LINE_END.split(text):
        found = _LINE.fullmatch(line.partition("#")[0].strip(_BLANKS))
        if found:
            kind = next(name for name in _KINDS if found[name] is not None)
            yield kind, (found["word"] or found["value"] or "").strip(_BLANKS)


_KINDS = ("disallow", "allow", "agent", "delay", "sitemap")


@dataclass(frozen=True, slots=True)
class Stored:
    """What is kept of a host's robots.txt for all workers."""

    status: int
    """Of the fetch; 0 if there was no answer."""
    verdict: Verdict
    body: bytes
    borrowed: bool = False
    """It came, by a redirect, from another host."""

    def rules(self, user_agent: str) -> RobotsRules:
        """What it says to `user_agent`."""
        if self.verdict is Verdict.RULES:
            return parse(self.body, user_agent)
        everything = b"" if self.verdict is Verdict.ALLOW_ALL else b"User-agent: *\nDisallow: /"
        return parse(everything, "")


def pack(status: int, verdict: Verdict, body: bytes = b"", *, borrowed: bool = False) -> bytes:
    """The outcome of a fetch in a few bytes; a body is kept where there are rules, up to the
    limit."""
    kept = _first(body) if verdict is Verdict.RULES else b""
    known = status if 0 <= status <= 0xFFFF else 0
    mark = _BORROWED if borrowed else 0
    return _HEADER.pack(_FORMAT, verdict.value | mark, known) + zlib.compress(kept)


def unpack(packed: bytes) -> Stored | None:
    """What `pack` made; None for anything else, so that the file is fetched again."""
    try:
        version, marked, status = _HEADER.unpack_from(packed)
        verdict, borrowed = Verdict(marked & ~_BORROWED), bool(marked & _BORROWED)
        inflate = zlib.decompressobj()
        body = inflate.decompress(packed[_HEADER.size :], MOST_BYTES + 1)
        whole = inflate.eof and not inflate.unused_data and len(body) <= MOST_BYTES
        is_ours = whole and version == _FORMAT
        return Stored(status, verdict, body, borrowed) if is_ours else None
    except (struct.error, zlib.error, ValueError):
        return None


_BOTH = {"none": {"noindex", "nofollow"}, "all": set[str]()}
_VALUED = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})
_WORD = re.compile(r"[a-z][a-z\-]*")


def directives(values: Iterable[str | bytes], user_agent: str) -> set[str]:
    """What X-Robots-Tag headers, or the content of robots meta tags, say to `user_agent`.

    `name:` addresses what follows it in the same value to the crawler of that name. `none` is
    returned as noindex and nofollow; dates and sizes (`unavailable_after: …`) are left out.
    """
    found: set[str] = set()
    token = product_token(user_agent)
    for value in values:
        text = value.decode("latin-1") if isinstance(value, bytes) else value
        for word in _addressed(text.lower(), token):
            found |= _BOTH.get(word, {word})
    return found


def _addressed(text: str, token: str) -> Iterator[str]:
    to_us = True
    for part in text.split(","):
        name, colon, rest = (piece.strip() for piece in part.partition(":"))
        word = rest if colon and name not in _VALUED else part.strip()
        if colon and name not in _VALUED and _TOKEN.fullmatch(name):
            to_us = name == token
        if to_us and _WORD.fullmatch(word):
            yield word
