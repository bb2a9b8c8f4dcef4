"""Whether the rules of a robots.txt allow a URL, by RFC 9309, 2.2.2. Pure.

The rule that matches with the most octets decides. Rules are compared in one spelling: each octet
has one. Those without a star are looked up; those with stars are tried one by one where they are
few, and else all at once, an octet of the URL at a time. So the cost of a question is bounded by
what the rules with stars may take together, `MOST_STARRED_OCTETS`, however they are written.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from itertools import chain, repeat
from sys import getsizeof
from typing import NamedTuple, Protocol

PATH = "/robots.txt"
"""Where the rules are; always allowed (RFC 9309, 2.2.2)."""

MOST_STARRED_OCTETS = 64 * 1024
"""Of rules with stars that one crawler is given. They take 0.2 ms for a URL of 60 octets."""

FEW_OCTETS = 1024
"""Up to so many, trying rule by rule is quicker for most URLs, and never slower than 2 ms."""

_ORIGIN = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://[^/?#]*")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_PLAIN = frozenset(map(chr, range(0x21, 0x7F))) - set("/?*$#%")
_ESCAPES = {
    octet: f"%{octet:02X}" for octet in range(256) if chr(octet) not in _PLAIN | set("/?#%")
}


class _Weight(NamedTuple):
    """How specific a rule is; the greatest that matches decides, and of equals the one to allow."""

    octets: int
    allow: bool


_NO_RULE = _Weight(-1, True)


class _Starred(NamedTuple):
    """A rule with a `*` in it: the literals around the stars."""

    weight: _Weight
    rarest: str
    """The longest of them, which most paths do not contain."""
    parts: tuple[str, ...]
    to_the_end: bool

    def matches(self, path: str) -> bool:
        """Each literal at its first place after the one before: no way back."""
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

    @property
    def size_bytes(self) -> int:
        """What it takes in memory; Python has texts of a single character anyway."""
        texts = (part for part in self.parts if len(part) > 1)
        return sum(map(getsizeof, chain((self, self.weight, self.parts), texts)))


class _Matcher(Protocol):
    """Rules with stars."""

    @property
    def size_bytes(self) -> int: ...

    def most_specific(self, path: str) -> _Weight:
        """The greatest weight of those that match."""


class OneByOne:
    """Tries each rule, the most specific first, until one matches."""

    __slots__ = ("_rules",)

    def __init__(self, rules: list[_Starred]) -> None:
        self._rules = rules[::-1]

    @property
    def size_bytes(self) -> int:
        return getsizeof(self._rules) + sum(rule.size_bytes for rule in self._rules)

    def most_specific(self, path: str) -> _Weight:
        for rule in self._rules:
            if rule.matches(path):
                return rule.weight
        return _NO_RULE


class AllAtOnce:
    """Tries all rules in one pass over the path, in time that does not depend on what they say.

    Every rule has a bit for each of its literal octets, and one before them; a bit is set while
    the rule has matched so far. An octet of the path moves those bits on whose literal it is.
    Where a star follows, the bit also stays. What is set at the end of a rule has matched.
    """

    __slots__ = ("_begin", "_ends", "_matched", "_moves", "_stay", "_weights")

    def __init__(self, rules: list[_Starred]) -> None:
        """`rules` in the order of their weights, so that the last bit set is the most specific."""
        weights = {rule.weight: rule.weight for rule in rules}  # many are equal: one for all
        self._weights = [weights[rule.weight] for rule in rules]
        self._ends: list[int] = []
        begin: list[int] = []
        stay: list[int] = []
        moves: dict[str, list[int]] = {}
        for rule in rules:
            begin.append(self._ends[-1] + 1 if self._ends else 0)
            self._ends.append(_lay_out(rule, begin[-1], moves, stay))
        size = self._ends[-1] + 1 if self._ends else 0
        self._begin, self._stay = _bits(begin, size), _bits(stay, size)
        self._matched = _bits(self._ends, size)
        self._moves = {octet: _bits(places, size) for octet, places in moves.items()}

    @property
    def size_bytes(self) -> int:
        bits = chain((self._begin, self._stay, self._matched), self._moves.values())
        tables = (self._moves, self._ends, self._weights)
        return sum(map(getsizeof, chain(bits, tables, self._ends, set(self._weights))))

    def most_specific(self, path: str) -> _Weight:
        now, stay = self._begin, self._stay
        for moves in map(self._moves.get, path, repeat(0)):
            now = now << 1 & moves | now & stay
            if not now:
                return _NO_RULE
        last = (now & self._matched).bit_length() - 1
        return self._weights[bisect_left(self._ends, last)] if last >= 0 else _NO_RULE


def _lay_out(rule: _Starred, at: int, moves: dict[str, list[int]], stay: list[int]) -> int:
    """Note what each bit of a rule is for; returns the last of them."""
    for number, part in enumerate(rule.parts):
        if number:
            stay.append(at)
        for octet in part:
            at += 1
            moves.setdefault(octet, []).append(at)
    if not rule.to_the_end:
        stay.append(at)
    return at


def _bits(places: list[int], size: int) -> int:
    packed = bytearray(size // 8 + 1)
    for place in places:
        packed[place >> 3] |= 1 << (place & 7)
    return int.from_bytes(packed, "little")


class RobotsRules:
    """What one host's robots.txt says to one user agent."""

    __slots__ = (
        "_exact",
        "_prefix_lengths",
        "_prefixes",
        "_starred",
        "delay_s",
        "is_too_much",
        "sitemaps",
    )

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
        starred = self.compile(set(patterns))
        self.is_too_much = starred is None
        """There were more stars than can be answered for: then nothing is allowed."""
        if starred is None:
            self._prefixes, self._exact = {"/": False}, {}
        self._starred = _matcher(starred or [])
        self._prefix_lengths = sorted(set(map(len, self._prefixes)), reverse=True)

    @property
    def size_bytes(self) -> int:
        """About what they take in memory: many times the file, if its rules are short."""
        tables = (self, self._prefixes, self._exact, self._prefix_lengths, self.sitemaps)
        texts = chain(self._prefixes, self._exact, self.sitemaps)
        return sum(map(getsizeof, chain(tables, texts))) + self._starred.size_bytes

    def allows(self, url: str) -> bool:
        """Whether a URL, or a path with its query, may be fetched."""
        path = _path(url)
        return path == PATH or max(map(self._most_specific, _spellings(path))).allow

    def _most_specific(self, path: str) -> _Weight:
        allow = self._exact.get(path)
        exact = _NO_RULE if allow is None else _Weight(len(path) + 1, allow)
        return max(exact, self._longest_prefix(path), self._starred.most_specific(path))

    def _longest_prefix(self, path: str) -> _Weight:
        for length in self._prefix_lengths:
            if length <= len(path) and (allow := self._prefixes.get(path[:length])) is not None:
                return _Weight(length, allow)
        return _NO_RULE

    def compile(self, patterns: set[tuple[str, bool]]) -> list[_Starred] | None:
        """Keep literals where they are looked up; return the rules that have to be tried, the most
        specific last, or None if they are too many."""
        starred: set[_Starred] = set()
        octets = 0
        for pattern, allow in patterns:
            to_the_end = pattern.endswith("$")
            parts = tuple(_canonical(part) for part in pattern.removesuffix("$").split("*"))
            if len(parts) > 1:
                weight = _Weight(sum(map(len, parts)) + len(parts) - 1 + to_the_end, allow)
                starred.add(_Starred(weight, max(parts, key=len), parts, to_the_end))
                octets += weight.octets
                if octets > MOST_STARRED_OCTETS:
                    return None
            else:
                literals = self._exact if to_the_end else self._prefixes
                literals[parts[0]] = allow or literals.get(parts[0], False)
        return sorted(starred)


def _matcher(rules: list[_Starred]) -> _Matcher:
    octets = sum(rule.weight.octets for rule in rules)
    return OneByOne(rules) if octets <= FEW_OCTETS else AllAtOnce(rules)


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
