"""What a worker owes the frontier, and which page answers for which links."""

from __future__ import annotations

from dataclasses import dataclass, field

import hypothesis.strategies as st
from hypothesis import given

from crawlproj.frontier.messages import Kind, Push
from crawlproj.worker.outbox import Outbox


def _link(name: str) -> Push:
    return Push(Kind.LINK, "http://a", 0, b"", name)


@dataclass
class Page:
    links_found_before: int
    needs: set[str] = field(default_factory=set)


def _settled(outbox: Outbox[Page]) -> list[Page]:
    return [one.page for one in outbox.take_settled(len(outbox.ended))]


def test_a_page_waits_until_the_links_met_in_its_time_have_gone() -> None:
    outbox: Outbox[Page] = Outbox()
    page = Page(outbox.links_found)
    outbox.add(_link("1"), once=True)
    outbox.add(_link("2"), once=True)
    outbox.end(page)
    outbox.gone(1)
    assert _settled(outbox) == []
    outbox.gone(1)
    assert _settled(outbox) == [page]
    assert outbox.ended == []


def test_a_page_that_met_no_links_does_not_wait_for_those_of_others() -> None:
    outbox: Outbox[Page] = Outbox()
    outbox.add(_link("1"), once=True)
    leaf = Page(outbox.links_found)
    outbox.end(leaf)
    assert _settled(outbox) == [leaf]


def test_a_page_waits_for_a_link_that_another_found_before_it() -> None:
    outbox: Outbox[Page] = Outbox()
    outbox.add(_link("early"), once=True)
    outbox.add(_link("later"), once=True)
    page = Page(outbox.links_found)
    assert not outbox.add(_link("early"), once=True)
    outbox.end(page)
    assert _settled(outbox) == []
    outbox.gone(1)
    assert _settled(outbox) == [page]


def test_of_the_ended_pages_only_the_first_so_many_are_taken() -> None:
    outbox: Outbox[Page] = Outbox()
    pages = [Page(outbox.links_found, {name}) for name in ("1", "2", "3")]
    for page in pages:
        outbox.end(page)
    assert [one.page for one in outbox.take_settled(2)] == pages[:2]
    assert _settled(outbox) == pages[2:]


def test_what_may_come_more_than_once_is_collected_each_time() -> None:
    outbox: Outbox[Page] = Outbox()
    assert [outbox.add(_link("1"), once=False) for _ in range(2)] == [True, True]
    assert len(outbox) == 2


def test_a_link_that_has_gone_may_come_again() -> None:
    outbox: Outbox[Page] = Outbox()
    outbox.add(_link("1"), once=True)
    outbox.gone(1)
    assert outbox.add(_link("1"), once=True)


def test_something_urgent_is_urgent_until_it_has_gone() -> None:
    outbox: Outbox[Page] = Outbox()
    outbox.add(_link("1"), once=True)
    outbox.add(_link("robots"), once=False, urgent=True)
    outbox.add(_link("2"), once=True)
    outbox.gone(1)
    assert outbox.is_urgent
    outbox.gone(1)
    assert not outbox.is_urgent


names = st.sampled_from("abcdef")
steps = st.one_of(
    st.tuples(st.just("begin"), names),
    st.tuples(st.just("find"), names),
    st.tuples(st.just("end"), names),
    st.tuples(st.just("go"), st.integers(1, 3)),
)


@given(st.lists(steps, max_size=40))
def test_no_page_is_settled_before_a_link_that_was_met_in_its_time(
    script: list[tuple[str, str | int]],
) -> None:
    outbox: Outbox[Page] = Outbox()
    waiting: list[str] = []
    begun: dict[str, Page] = {}
    for verb, what in script:
        if verb == "begin":
            begun[str(what)] = Page(outbox.links_found)
        elif verb == "find":
            if outbox.add(_link(str(what)), once=True):
                waiting.append(str(what))
            for page in begun.values():
                page.needs.add(str(what))
        elif verb == "end" and what in begun:
            page = begun.pop(str(what))
            page.needs &= set(waiting)
            outbox.end(page)
        elif verb == "go":
            count = min(int(what), len(waiting)) if isinstance(what, int) else 0
            outbox.gone(count)
            for one in outbox.ended:
                one.page.needs -= set(waiting[:count])
            del waiting[:count]
        settled = outbox.take_settled(len(outbox.ended))
        assert not any(one.page.needs for one in settled)
        assert all(one.page.needs for one in outbox.ended)
