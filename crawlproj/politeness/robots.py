"""What a host's robots.txt says to one crawler, by RFC 9309. Pure.

`judge` tells from the status of its fetch whether there are rules at all, `parse` reads them,
`RobotsRules.allows` (robot_rules.py) applies them, `digest`, `pack` and `unpack` carry what
concerns us between workers. A file is hostile input: nothing in it raises, what it costs to apply
and to keep is bounded, and one that goes beyond is taken for a refusal.

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
from functools import lru_cache

from crawlproj.politeness.robot_rules import RobotsRules

MOST_BYTES = 500 * 1024
"""How much of a file is read; RFC 9309, 2.5."""
MOST_REDIRECTS = 5
"""Redirects followed to reach a file, after which it counts as unavailable; RFC 9309, 2.3.1.2."""
MOST_PACKED_BYTES = 256 * 1024
"""Kept of one host for all workers: 500 KiB of rules for us fit, unless they are noise."""
MOST_SITEMAPS = 1000
WHOLE_BYTES = 8 * 1024
"""A file of this size is kept as it is, a longer one is cut down to what concerns us."""

_FORMAT = 1
_HEADER = struct.Struct(">BBH")
_REDIRECTED, _COPIED = 0x80, 0x40

# Lines are handled as one character a byte, so that a file in any encoding keeps its octets.
_BLANKS = " \t\v\f"
# Misspellings are those that Google's parser forgives. Without a colon only a single word is taken
# for a value: a sentence that begins with "Allow" is no rule.
_LINE = re.compile(
    r"[\r\n][ \t\v\f]*+"
    r"(?P<name>user[ -]?agent|dis{1,2}allow|dis{1,2}alow|diasllow|disallaw|allow"
    r"|crawl[ -]?delay|site-?maps?)"
    r"(?:[ \t]*+:(?P<value>[^#\r\n]*+)"
    r"|[ \t]++(?P<word>[^ \t#\r\n]*[^ \t\v\f#\r\n])[ \t\v\f]*+(?=[#\r\n]|\Z))",
    re.IGNORECASE,
)
_KINDS = {"u": "agent", "d": "disallow", "a": "allow", "c": "delay", "s": "sitemap"}
_TOKEN = re.compile(r"[A-Za-z0-9_.\-]+")
_COMPATIBLE = re.compile(r"compatible;[ \t]*([A-Za-z0-9_.\-]+)", re.IGNORECASE)


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
    NOT_CONTACTED = 4
    """Its host is at an address that is refused: neither it nor a page is asked for."""


DENIALS = (Verdict.DENY_ALL, Verdict.NOT_CONTACTED)


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


@lru_cache(64)
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
    return _read(body, user_agent).rules()


def digest(status: int, body: bytes, user_agent: str) -> tuple[RobotsRules, bytes]:
    """The rules of a file that has come with this status, and the record that is kept of it: of a
    long one what concerns `user_agent`, of one that takes too much that it allows nothing."""
    reader = _read(body, user_agent)
    rules = reader.rules()
    kept = body if len(body) <= WHOLE_BYTES else reader.text()
    packed = pack(status, Verdict.RULES, kept)
    if rules.is_too_much or len(packed) > MOST_PACKED_BYTES:
        reader.refuse()
        rules, packed = reader.rules(), pack(status, Verdict.RULES, reader.text())
        rules.is_too_much = True
    return rules, packed


def _read(body: bytes, user_agent: str) -> _Reader:
    reader = _Reader(product_token(user_agent))
    for kind, value in _lines(_text(body)):
        reader.read(kind, value)
    return reader


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
            if value and len(self._sitemaps) < MOST_SITEMAPS:
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
        group = self._picked()
        return RobotsRules(group.patterns, group.delay_s, self._sitemaps)

    def text(self) -> bytes:
        """A file that says the same to us, and nothing else."""
        group = self._picked()
        lines = ["User-agent: *"]
        if group.delay_s is not None:
            lines.append(f"Crawl-delay: {group.delay_s!r}")
        for pattern, allow in dict.fromkeys(group.patterns):
            lines.append(f"{'Allow' if allow else 'Disallow'}: {pattern}")
        text = "\n".join(lines).encode("latin-1")
        return b"\n".join([text, *(b"Sitemap: " + one.encode() for one in self._sitemaps)])

    def refuse(self) -> None:
        """Take it that the file allows nothing; the delay that it asks for is kept all the same."""
        self._groups = {"*": _Group([("/", False)], self._picked().delay_s)}
        self._sitemaps = {}

    def _picked(self) -> _Group:
        return self._groups.get(self._token) or self._groups.get("*") or _Group()


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
    for name, value, word in _LINE.findall("\n" + text):
        yield _KINDS[name[0].lower()], (word or value).strip(_BLANKS)


@dataclass(frozen=True, slots=True)
class Stored:
    """What is kept of a host's robots.txt for all workers."""

    status: int
    """Of the fetch; 0 if there was no answer."""
    verdict: Verdict
    body: bytes
    redirected: bool = False
    """It came, by a redirect, from another host."""
    copied: bool = False
    """And it was not fetched for this host, but is what was known of the other."""

    def rules(self, user_agent: str) -> RobotsRules:
        """What it says to `user_agent`."""
        if self.verdict is Verdict.RULES:
            return parse(self.body, user_agent)
        everything = b"" if self.verdict is Verdict.ALLOW_ALL else b"User-agent: *\nDisallow: /"
        return parse(everything, "")


def pack(status: int, verdict: Verdict, body: bytes = b"") -> bytes:
    """The outcome of a fetch in a few bytes; a body is kept where there are rules, up to the
    limit."""
    kept = _first(body) if verdict is Verdict.RULES else b""
    known = status if 0 <= status <= 0xFFFF else 0
    return _HEADER.pack(_FORMAT, verdict.value, known) + zlib.compress(kept)


def for_another_host(packed: bytes, *, copied: bool = False) -> bytes:
    """What `pack` made of one host's file, for another whose robots.txt leads there."""
    version, marked, status = _HEADER.unpack_from(packed)
    marked |= _REDIRECTED | (_COPIED if copied else 0)
    return bytes(_HEADER.pack(version, marked, status) + packed[_HEADER.size :])


def provenance(packed: bytes) -> tuple[bool, bool]:
    """Whether a record was redirected to, and whether it is a copy: see `Stored`."""
    _, marked, _ = _HEADER.unpack_from(packed)
    return bool(marked & _REDIRECTED), bool(marked & _COPIED)


def is_not_contacted(packed: bytes) -> bool:
    """Whether a record says that its host's own address is refused."""
    return bool(_HEADER.unpack_from(packed)[1] == Verdict.NOT_CONTACTED.value)


def is_denial(packed: bytes) -> bool:
    """Whether a record says that the file cannot be had, or must not be asked for."""
    marked = _HEADER.unpack_from(packed)[1] & ~(_REDIRECTED | _COPIED)
    return marked in {verdict.value for verdict in DENIALS}


def is_longer(packed: bytes, size_bytes: int) -> bool:
    """Whether there is more of a file in a record than this, found without unpacking it all."""
    try:
        begun = zlib.decompressobj().decompress(packed[_HEADER.size :], size_bytes + 1)
    except zlib.error:
        return False
    return len(begun) > size_bytes


def unpack(packed: bytes) -> Stored | None:
    """What `pack` made; None for anything else, so that the file is fetched again."""
    try:
        version, marked, status = _HEADER.unpack_from(packed)
        verdict = Verdict(marked & ~(_REDIRECTED | _COPIED))
        inflate = zlib.decompressobj()
        body = inflate.decompress(packed[_HEADER.size :], MOST_BYTES + 1)
        whole = inflate.eof and not inflate.unused_data and len(body) <= MOST_BYTES
        is_ours = whole and version == _FORMAT
        return Stored(status, verdict, body, *provenance(packed)) if is_ours else None
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
