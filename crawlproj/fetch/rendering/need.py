"""Whether a page has little to say before its scripts have run. Pure.

A page that is rendered without need costs time, one that is not rendered in spite of it loses its
links: in doubt a page needs its scripts. Nothing is learnt from other pages, for one of them may
have failed.
"""

from __future__ import annotations

import re

LOOKED_AT_BYTES = 256 * 1024
LITTLE_TEXT = 250
"""Characters of visible text below which a page may be a frame that scripts fill."""
HARDLY_ANY_TEXT = 25
FEW_LINKS = 3

_SCRIPT = re.compile(rb"<script[\s>]", re.IGNORECASE)
_PIECE = re.compile(rb"<(!--|/?[a-z][a-z0-9-]*)([^<>]{0,500})>?|[^<]+|<", re.IGNORECASE)
"""A tag with the beginning of its attributes, or what stands between two tags. Linear: each piece
begins where the one before has ended."""
_UNSEEN = frozenset({b"script", b"style", b"template", b"noscript", b"head", b"svg", b"!--"})
_ROOT = re.compile(
    rb"""\bid=["']?(?:root|app|main|application|__next|__nuxt|___gatsby|svelte|q-app)["'\s/]?"""
    rb"""|\b(?:ng-app|data-ng-app|v-cloak)\b""",
    re.IGNORECASE,
)
_ROOT_NAME = re.compile(rb"[a-z]+-(?:root|app)", re.IGNORECASE)


class _Seen:
    """What a visitor without scripts would see of a page, and the marks of a frame."""

    def __init__(self) -> None:
        self.links = 0
        self.has_root = False
        self.asks_for_scripts = False
        self._words: list[bytes] = []

    @property
    def text(self) -> bytes:
        return b" ".join(b" ".join(self._words).split())

    def add_tag(self, name: bytes, attributes: bytes) -> None:
        self.links += name == b"a" and b"href" in attributes.lower()
        self.has_root |= bool(_ROOT.search(attributes) or _ROOT_NAME.fullmatch(name))

    def add_text(self, text: bytes, inside: bytes) -> None:
        if not inside:
            self._words.append(text)
        elif inside == b"noscript":
            self.asks_for_scripts |= b"javascript" in text.lower()


def needs_scripts(body: bytes) -> bool:
    """Whether this page should be rendered: it has scripts, few words and links, and a mark of
    those that scripts fill."""
    page = body[:LOOKED_AT_BYTES]
    if not _SCRIPT.search(page):
        return False
    seen = _read(page)
    if seen.links >= FEW_LINKS:
        return False
    length = len(seen.text)
    is_frame = seen.has_root or seen.asks_for_scripts
    return length <= HARDLY_ANY_TEXT or (length < LITTLE_TEXT and is_frame)


def _read(page: bytes) -> _Seen:
    seen, inside = _Seen(), b""
    for piece in _PIECE.finditer(page):
        tag, attributes = piece[1], piece[2]
        name = tag.lower() if tag else b""
        if inside and name != b"/" + inside and not (inside == b"!--" and b"--" in piece[0]):
            seen.add_text(piece[0], inside)
        elif inside:
            inside = b""
        elif not name:
            seen.add_text(piece[0], inside)
        elif name in _UNSEEN:
            inside = b"" if name == b"!--" and attributes.endswith(b"--") else name
        else:
            seen.add_tag(name, attributes)
    return seen
