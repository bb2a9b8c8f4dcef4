"""Which pages need their scripts: frames that scripts fill, as frameworks write them, and not those
that only have scripts beside what they say."""

from __future__ import annotations

import pytest

from crawlproj.fetch.rendering.need import LOOKED_AT_BYTES, needs_scripts

WORDS = b"<p>" + b"A page with words that can be read without any script at all. " * 6 + b"</p>"
LINKS = b"".join(b"<a href=/%d>page</a>" % number for number in range(5))
ANALYTICS = b"<script async src=/analytics.js></script>"

FRAMES = {
    "react": b"<body><noscript>You need to enable JavaScript to run this app.</noscript>"
    b'<div id="root"></div><script src=/static/js/main.js></script>',
    "vite": b'<div id=app></div><script type="module" src="/assets/index.js"></script>',
    "angular": b"<app-root>Loading, please wait a moment</app-root><script src=main.js></script>",
    "nuxt": b'<div id="__nuxt"></div><script>window.__NUXT__={}</script>',
    "a spinner": b"<div id=root>The shop is being loaded for you</div><script src=a.js></script>",
    "words for who has no scripts": b"<p>Welcome to the shop of all shops</p>"
    b"<noscript>Please turn JavaScript on</noscript><script src=a.js></script>",
    "nothing at all": b"<html><head><title>A title</title></head><script>render()</script>",
    "one link home": b"<a href=/>Home</a><script src=a.js></script>",
}
PAGES = {
    "no script": b"<div id=root></div>",
    "words": WORDS + ANALYTICS,
    "rendered by its server": b'<div id="__next">' + WORDS + LINKS + b"</div>" + ANALYTICS,
    "only links": LINKS + ANALYTICS,
    "a short page with a counter": b"<h1>It works</h1><p>This server is new here</p>" + ANALYTICS,
    "empty": b"",
    "no page": b"\x00\xff" * 500,
    "a script beyond what is looked at": b"x" * LOOKED_AT_BYTES + b"<script>",
}


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_that_scripts_fill_needs_them(name: str) -> None:
    assert needs_scripts(FRAMES[name])


@pytest.mark.parametrize("name", PAGES)
def test_a_page_that_says_something_by_itself_does_not(name: str) -> None:
    assert not needs_scripts(PAGES[name])


def test_hostile_markup_is_looked_at_in_linear_time() -> None:
    """It would not end within hours if it were quadratic."""
    for piece in (b"<script ", b"<noscript>", b"<div id=root ", b"<!--", b"<app-root ", b"<a "):
        assert needs_scripts(b"<script>" + piece * (LOOKED_AT_BYTES // len(piece)))
