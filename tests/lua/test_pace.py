"""change_pace.lua and renew.lua: a host's pace is changed while the crawl runs."""

from __future__ import annotations

import pytest

from tests.lua.helpers import MINUTE_MS, HandCrawl, State


def test_a_change_is_kept_with_the_crawl_and_counted(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.stranger()
    worker.change_pace("a.com", {"delay": 2})
    worker.change_pace("a.com", {"per_host": 3, "obey_robots": False})
    worker.change_pace("*.b.com", {"delay": 0.25})
    assert worker.paces() == {
        "a.com": {"delay": 2, "per_host": 3, "obey_robots": False},
        "*.b.com": {"delay": 0.25},
    }
    assert worker.renew(MINUTE_MS, {}).paces == 3
    assert crawl.state() == State(workers={"w": 1}, about={"w": {}})


def test_all_that_was_changed_for_a_host_can_be_taken_back(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.stranger()
    worker.change_pace("a.com", {"delay": 2})
    worker.change_pace("b.com", {"delay": 2})
    worker.change_pace("a.com", None)
    assert worker.paces() == {"b.com": {"delay": 2}}
    assert worker.renew(MINUTE_MS, {}).paces == 3


@pytest.mark.parametrize("damaged", ["", "{", "5"])
def test_what_was_damaged_is_written_anew(crawl: HandCrawl, damaged: str) -> None:
    crawl.open()
    worker = crawl.stranger()
    crawl.redis.hset(crawl.key("meta"), "pace:a.com", damaged)
    assert worker.paces() == {}
    worker.change_pace("a.com", {"delay": 2})
    assert worker.paces() == {"a.com": {"delay": 2}}


def test_a_new_crawl_begins_without_changes(crawl: HandCrawl) -> None:
    crawl.open()
    crawl.stranger().change_pace("a.com", {"delay": 2})
    crawl.stranger().finish()
    crawl.open(run="another")
    assert crawl.stranger().paces() == {}
