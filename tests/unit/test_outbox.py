"""What a worker owes the frontier, and which page answers for which links."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from crawlproj.frontier.messages import Kind, Push
from crawlproj.worker.outbox import Outbox


def _link(name: str) -> Push:
    return Push(Kind.LINK, "http://a", 0, b"", name)


def _settled(outbox: Outbox) -> list[str]:
    return [one.what for one in outbox.take_settled(len(outbox.ended))]


def test_a_page_waits_until_the_links_met_in_its_time_have_gone() -> None:
    outbox = Outbox()
    since = outbox.now
    outbox.add(_link("1"), once=True)
    outbox.add(_link("2"), once=True)
    outbox.end("page", since)
    outbox.gone(1)
    assert _settled(outbox) == []
    outbox.gone(1)
    assert _settled(outbox) == ["page"]
    assert outbox.ended == []


def test_a_page_that_met_no_links_does_not_wait_for_those_of_others() -> None:
    outbox = Outbox()
    outbox.add(_link("1"), once=True)
    outbox.end("leaf", outbox.now)
    assert _settled(outbox) == ["leaf"]


def test_a_page_waits_for_a_link_that_another_found_before_it() -> None:
    outbox = Outbox()
    outbox.add(_link("early"), once=True)
    outbox.add(_link("later"), once=True)
    since = outbox.now
    assert not outbox.add(_link("early"), once=True)
    outbox.end("page", since)
    assert _settled(outbox) == []
    outbox.gone(1)
    assert _settled(outbox) == ["page"]


def test_of_the_ended_pages_only_the_first_so_many_are_taken() -> None:
    outbox = Outbox()
    for name in ("1", "2", "3"):
        outbox.end(name, outbox.now)
    assert [one.what for one in outbox.take_settled(2)] == ["1", "2"]
    assert _settled(outbox) == ["3"]


def test_what_may_come_more_than_once_is_collected_each_time() -> None:
    outbox = Outbox()
    assert [outbox.add(_link("1"), once=False) for _ in range(2)] == [True, True]
    assert len(outbox) == 2


def test_a_link_that_has_gone_may_come_again() -> None:
    outbox = Outbox()
    outbox.add(_link("1"), once=True)
    outbox.gone(1)
    assert outbox.add(_link("1"), once=True)


def test_something_urgent_is_urgent_until_it_has_gone() -> None:
    outbox = Outbox()
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
    st.tuples(st.just("meet"), names),
    st.tuples(st.just("end"), names),
    st.tuples(st.just("go"), st.integers(1, 3)),
)


@given(st.lists(steps, max_size=40))
def test_no_page_is_settled_before_a_link_that_was_met_in_its_time(
    script: list[tuple[str, str | int]],
) -> None:
    outbox = Outbox()
    waiting: list[str] = []
    since: dict[str, int] = {}
    met: dict[str, set[str]] = {}
    for verb, what in script:
        if verb == "begin":
            since[str(what)], met[str(what)] = outbox.now, set()
        elif verb == "meet":
            if outbox.add(_link(str(what)), once=True):
                waiting.append(str(what))
            for links in met.values():
                links.add(str(what))
        elif verb == "end" and what in since:
            links = met.pop(str(what))
            outbox.end(links & set(waiting), since.pop(str(what)))
        elif verb == "go":
            count = min(int(what), len(waiting)) if isinstance(what, int) else 0
            outbox.gone(count)
            for one in outbox.ended:
                one.what -= set(waiting[:count])
            del waiting[:count]
        settled = outbox.take_settled(len(outbox.ended))
        assert [one.what for one in settled] == [set()] * len(settled)
        assert all(one.what for one in outbox.ended)
