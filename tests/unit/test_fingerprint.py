"""The fingerprint of a page's own text."""

from __future__ import annotations

import random
import time

import pytest

from crawlproj.discover.fingerprint import (
    BANDS,
    LEAST_WORDS,
    MOST_MARKUP,
    MOST_WORDS,
    PLACES,
    bands,
    fingerprint,
    own_words,
    resemblance,
)

NEAR = 0.8
VOCABULARY = [f"word{number}" for number in range(5000)]
MENU = "".join(f"<li><a href=/{n}>A part of this site, number {n}</a></li>" for n in range(60))


def text(seed: int, words: int = 300) -> str:
    return " ".join(random.Random(seed).choices(VOCABULARY, k=words))


def page(body: str) -> bytes:
    return f"<html><head><title>t</title></head><body><p>{body}</p></body></html>".encode()


def of(body: bytes, encoding: str = "utf-8") -> bytes:
    found = fingerprint(body, encoding)
    assert found is not None
    return found


def test_it_is_the_same_for_every_worker_whatever_its_python() -> None:
    words = " ".join(f"w{number}" for number in range(LEAST_WORDS))
    assert of(page(words)).hex() == (
        "000000000000ba0000695200007e8f000000b10000ef0000008137000000"
        "e1000000a6d0000097000079411a000037340000f6000000279100000aac"
    )


def test_texts_that_share_most_of_their_words_are_near_and_others_are_not() -> None:
    words = text(1).split()
    for changed, is_near in ((0, True), (6, True), (90, False)):
        other = words.copy()
        for at in random.Random(changed).sample(range(len(words)), changed):
            other[at] = "another"
        found = resemblance(of(page(" ".join(words))), of(page(" ".join(other))))
        assert (found >= NEAR) == is_near, changed
    assert resemblance(of(page(text(1))), of(page(text(2)))) < 0.2


@pytest.mark.parametrize(
    "around",
    [
        "<nav><ul>{0}</ul></nav>",
        "<header><ul>{0}</ul></header>",
        "<aside>{0}</aside>",
        "<footer>{0}</footer>",
        "<div class='left sidebar'><div><ul>{0}</ul></div></div>",
        '<div id="main-menu"><ul>{0}</ul></div>',
        '<ul role="navigation">{0}</ul>',
        '<script>document.write("{0}")</script>',
        "<style>{0}</style>",
    ],
)
def test_what_stands_around_the_text_does_not_count(around: str) -> None:
    own = f"<p>{text(3)}</p>"
    bare = of(page(own))
    for order in ("{1}{0}", "{0}{1}"):
        framed = of(page(order.format(own, around.format(MENU))))
        assert resemblance(bare, framed) == 1


def test_a_frame_around_everything_is_no_sidebar() -> None:
    framed = f'<div class="page has-sidebar"><p>{text(4)}</p></div>'
    assert resemblance(of(page(framed)), of(page(text(4)))) == 1


def test_a_page_with_little_text_of_its_own_has_none() -> None:
    little = " ".join(VOCABULARY[: LEAST_WORDS - 1])
    for body in (b"", b"<p>", page(""), page(little), page(f"<nav>{MENU}</nav>"), b"\0" * 5000):
        assert fingerprint(body, "utf-8") is None
    assert fingerprint(page(text(1)), "binary") is None


def test_a_page_is_known_in_any_encoding() -> None:
    words = text(5).replace("word1", "wörd1")
    markup = page(words).decode()
    assert of(markup.encode("cp1252"), "cp1252") == of(markup.encode())
    assert of(markup.encode("utf-16-le"), "utf-16-le") == of(markup.encode())


def test_every_near_text_is_found_by_one_of_its_bands() -> None:
    words = text(6).split()
    copy = [*words[:100], "changed", *words[101:]]
    one, other = bands(of(page(" ".join(words)))), bands(of(page(" ".join(copy))))
    assert len(one) == 4 * BANDS
    assert any(one[at : at + 4] == other[at : at + 4] for at in range(0, len(one), 4))


@pytest.mark.parametrize(
    "hostile",
    [
        b"<nav>" * 200_000,
        b"<div class=menu>" * 100_000,
        b"<div " * 300_000,
        b'<div class="' + b"a" * 3_000_000,
        b"<div class=" * 200_000,
        b"<nav></nav>" * 100_000,
        b"<div class=toc></div>" * 100_000,
        b"<ul id='" * 200_000,
        b"a > b < c " * 300_000,
        b"<p>" + b"word " * 1_000_000,
    ],
    ids=lambda body: body[:12].decode(),
)
def test_hostile_markup_takes_no_longer_than_its_size_allows(hostile: bytes) -> None:
    began_s = time.process_time()
    found = fingerprint(hostile, "utf-8")
    assert found is None or len(found) == PLACES
    assert len(own_words(hostile, "utf-8")) <= MOST_WORDS
    assert len(hostile) > MOST_MARKUP
    assert time.process_time() - began_s < 1  # a tenth of it, or, if it were not linear, minutes
