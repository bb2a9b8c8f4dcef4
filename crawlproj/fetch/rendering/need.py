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
_NOSCRIPT = re.compile(rb"<noscript[^>]*>(.{0,2000}?)</noscript", re.IGNORECASE | re.DOTALL)
_UNSEEN = re.compile(
    rb"<!--.*?-->|<(script|style|template|noscript|head|svg)[\s>].*?</\1\s*>",
    re.IGNORECASE | re.DOTALL,
)
_TAG = re.compile(rb"<[^>]*>")
_SPACE = re.compile(rb"\s+")
_LINK = re.compile(rb"<a\s[^>]*href", re.IGNORECASE)
_EMPTY_ROOT = re.compile(
    rb"""<(?:div|main|section|body)\b[^>]{0,300}?\bid=["']?
         (?:root|app|main|application|__next|__nuxt|___gatsby|svelte|q-app|single-spa[\w-]*)
         ["']?[\s>][^<]{0,200}</
       |<([a-z]+-(?:root|app))\b[^>]{0,300}>[^<]{0,200}</\1
       |<body\b[^>]{0,300}\b(?:ng-app|data-ng-app|x-data|v-cloak)\b""",
    re.IGNORECASE | re.VERBOSE,
)


def needs_scripts(body: bytes) -> bool:
    """Whether this page should be rendered: it has scripts, few words and links, and a mark of
    those that scripts fill."""
    page = body[:LOOKED_AT_BYTES]
    if not _SCRIPT.search(page):
        return False
    seen = _UNSEEN.sub(b" ", page)
    if len(_LINK.findall(seen)) >= FEW_LINKS:
        return False
    text = _SPACE.sub(b" ", _TAG.sub(b" ", seen)).strip()
    if len(text) <= HARDLY_ANY_TEXT:
        return True
    return len(text) < LITTLE_TEXT and bool(_EMPTY_ROOT.search(page) or _asks_for_scripts(page))


def _asks_for_scripts(page: bytes) -> bool:
    return any(b"javascript" in said.lower() for said in _NOSCRIPT.findall(page))
