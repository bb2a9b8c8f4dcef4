"""The fingerprint of a page's own text: near-copies have fingerprints that agree in most places.

Text is what stands between tags, without what stands around it on every page of a site: elements
that are marked as navigation, headers, footers, sidebars and the like. No tree is built; time is
linear in the page, always, and what is looked at is bounded.

A fingerprint is a MinHash by one permutation: each pair of neighbouring words is hashed into one of
60 places, and of each place the smallest hash is kept, as a byte. The share of places in which two
fingerprints agree estimates the share of pairs that two texts have in common (their resemblance).
Why not a SimHash: docs/near-duplicates.md has both beside each other. Pure.
"""

from __future__ import annotations

import re
from operator import sub
from zlib import crc32

PLACES = 60
BANDS = 10
"""A fingerprint is cut into so many, and looked up by each: pages that agree in none of them are
never compared. Texts that resemble each other by 0.8 agree in one with a probability of 0.95."""

LEAST_WORDS = 40
"""A page with fewer words of its own has no fingerprint: by so few, pages that have nothing to do
with each other would be taken for copies."""
MOST_WORDS = 1200
MOST_MARKUP = 40 << 10
"""Words, and bytes of markup before them, by which a page is judged."""

MOST_FRAMES = 20
"""Elements around almost all of a page, of which the end is looked for: with more of them it would
take too long."""

_WIDTH = PLACES // BANDS
_ENOUGH_PAIRS = 340
"""Of many pairs those with the smallest hashes are looked at: though a third of them come more than
once, there are some for each place."""

_AS_IT_IS = frozenset({"utf-8", "ascii"})
_ELEMENTS = rb"(script|style|nav|header|footer|aside|select|svg|template|noscript)\b"
_MARKED = (
    rb"(div|ul|section|td)\s[^<>]{0,300}?\b(?:class|id|role)=[\"']?[^\"'<>]{0,200}?"
    rb"(?:\b(?:nav|menu|toc|cookie|banner|social|related|header|breadcrumb|copyright)"
    rb"|sidebar|footer)"
)
_boilerplate = re.compile(rb"<(?=[nsfhadut])(?:" + _ELEMENTS + rb"|" + _MARKED + rb")")
_tags_of = {
    name: re.compile(rb"<(/?)" + name + rb"\b") for name in (b"div", b"ul", b"section", b"td")
}
_text = re.compile(rb">([^<]{4,})")


def fingerprint(body: bytes, encoding: str) -> bytes | None:
    """Of a page in that encoding; None if it has too little text of its own."""
    words = own_words(body, encoding)
    if len(words) < LEAST_WORDS:
        return None
    return _smallest(list(map(crc32, words)))


def bands(found: bytes) -> bytes:
    """What a fingerprint is looked up by: four bytes for each band."""
    starts = range(0, PLACES, _WIDTH)
    return b"".join([crc32(found[at : at + _WIDTH], at).to_bytes(4, "big") for at in starts])


def resemblance(one: bytes, other: bytes) -> float:
    """The share of places in which two agree, of those that one of them has something in."""
    filled = [(a, b) for a, b in zip(one, other, strict=True) if a or b]
    return sum(a == b for a, b in filled) / max(1, len(filled))


def own_words(body: bytes, encoding: str) -> list[bytes]:
    """The words of a page, in small letters, without what is marked as standing around its text."""
    markup = body[:MOST_MARKUP]
    if encoding not in _AS_IT_IS:
        markup = _in_utf8(markup, encoding)
    markup = markup.lower()
    texts = _text.findall(_without_boilerplate(markup, max(0, markup.find(b"<body"))))
    return b" ".join(texts).split(None, MOST_WORDS)[:MOST_WORDS]


def _in_utf8(markup: bytes, encoding: str) -> bytes:
    try:
        return markup.decode(encoding, "replace").encode("utf-8", "replace")
    except LookupError:  # no text at all
        return b""


def _without_boilerplate(markup: bytes, at: int) -> bytes:
    kept, size, frames = [], len(markup), 0
    while frames < MOST_FRAMES and (found := _boilerplate.search(markup, at)):
        kept.append(markup[at : found.start()])
        element, marked = found.groups()
        if element:
            end = markup.find(b"</" + element, found.end())
            at = size if end < 0 else end
        else:
            at = _end_of(marked, markup, found.end())
            if at - found.start() > 0.8 * size:
                at = found.end()  # a frame around everything, that says what it holds
                frames += 1
    kept.append(markup[at:])
    return b" ".join(kept)


def _end_of(name: bytes, markup: bytes, at: int) -> int:
    """Where the element ends that was opened before this place."""
    depth = 1
    for tag in _tags_of[name].finditer(markup, at):
        depth += -1 if tag[1] else 1
        if not depth:
            return tag.start()
    return len(markup)


def _smallest(words: list[int]) -> bytes:
    """Of each place the smallest hash of a pair, as a byte from 1 to 255; 0 where there is none.
    The hash of a pair is by how much that of its second word is larger: a subtraction mixes well
    enough, and is cheaper than to hash again."""
    pairs = map(sub, words[1:], words)
    if len(words) < 2 * _ENOUGH_PAIRS:
        least = [pair & 0xFFFFFFFF for pair in pairs]
    else:
        below = (_ENOUGH_PAIRS << 32) // len(words)
        least = [pair for pair in pairs if 0 < pair < below]
    least.sort(reverse=True)
    places = {one % PLACES: one for one in least}  # the last, which is the smallest, stays
    return bytes([places[at] // PLACES % 255 + 1 if at in places else 0 for at in range(PLACES)])
