"""Beginnings that pages share are read once, and nothing else is found for it."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import example, given, settings

from crawlproj.discover import beginnings, links
from crawlproj.discover.beginnings import MOST, Beginning, Beginnings, Read

NAVIGATION = "".join(f'<li><a href="/part-{number}/">Part</a></li>' for number in range(9))
# fmt: off
PIECES = (
    NAVIGATION, '<a href="/one">', "<a href='/two' rel='nofollow'>", "<a href=/three>", "<a id=x>",
    '<a href="/four?a=1&amp;b=2#c">', '<a href="#top">', "<p>", "</p>", "text < > text", "<svg>",
    "<title>Inner</title>", "<!-- ", " -->", "<script>", "</script>", '<i title="', '">', "'", '"',
    '<meta name="robots" content="nofollow">', '<base href="/b/">', "<body>", "<plaintext>", "<a",
    "<img src=/i.png>", "é",
)
# fmt: on


class Forgetful(Beginnings):
    """Knows none."""

    def find(self, page: str, at: int, how: object, read: Read) -> Beginning | None:
        return None


def _page(body: str, title: str = "<title>Page</title>") -> bytes:
    return f"<html><head>{title}</head><body class=x>{body}".encode()


def _read(
    pages: list[bytes], known: Beginnings, *, images: bool = False, most: int = 50
) -> list[links.Page]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(links, "_beginnings", known)
        read = links.extract
        return [read(one, max_links=most, images=images, skip_nofollow=True) for one in pages]


@settings(max_examples=150, deadline=None)
@example(beginning=[NAVIGATION], rests=[[], [], []], title="<title></title>", images=False, most=8)
@given(
    beginning=st.lists(st.sampled_from(PIECES), max_size=8),
    rests=st.lists(st.lists(st.sampled_from(PIECES), max_size=5), min_size=3, max_size=6),
    title=st.sampled_from(["", "<title>Page</title>"]),
    images=st.booleans(),
    most=st.sampled_from([8, 50]),
)
def test_a_known_beginning_changes_nothing_that_is_found(
    beginning: list[str], rests: list[list[str]], title: str, images: bool, most: int
) -> None:
    pages = [_page("".join(beginning + rest), title) for rest in rests]
    with_memory = _read(pages, Beginnings(), images=images, most=most)
    assert with_memory == _read(pages, Forgetful(), images=images, most=most)


def test_what_two_bodies_begin_with_is_known_for_the_third() -> None:
    known = Beginnings()
    found: list[Beginning | None] = []

    class Watched(Beginnings):
        def find(self, page: str, at: int, how: object, read: Read) -> Beginning | None:
            found.append(known.find(page, at, how, read))
            return found[-1]

    pages = [_page(f'{NAVIGATION}<p>{name}<a href="/{name}">') for name in "abc"]
    read = _read(pages, Watched())
    assert [one and list(one.links) for one in found] == [None, None, read[0].links[:-1]]
    assert read[2].links[-1] == "/c"


def test_only_so_many_beginnings_are_kept_and_none_is_longer_than_the_longest() -> None:
    known = Beginnings()
    for number in range(2 * MOST):
        known.find(f"{number:64}" + "x" * 100_000, 0, None, lambda text: (0, {}))
    assert len(known.known) == MOST
    assert {len(one.last) for one in known.known.values()} == {beginnings.LONGEST}


def test_bodies_that_never_begin_alike_are_compared_ever_more_rarely() -> None:
    compared = 0

    def read(text: str) -> tuple[int, dict[str, None]]:
        nonlocal compared
        compared += 1
        return 0, {}

    known = Beginnings()
    for number in range(1000):
        known.find(f"{'<':64}{number}", 0, None, read)
    assert compared == 10
