"""What a worker that looks at its crawl notices, each once until it changes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from scrapy.exceptions import NotConfigured
from scrapy.utils.test import get_crawler

from crawlproj.operate.notify import Notifier, Watcher
from crawlproj.operate.status import Status
from crawlproj.operate.worker_metrics import WorkerMetrics
from crawlproj.operate.worker_status import WorkerStatus

WORKER = WorkerStatus("w", "machine", 1, True, 1.0, 3, 10, 2.0, 5000, 0)
NOW = Status("site", epoch="e", state="running", queued=3, done=5, workers=(WORKER,))


def kinds(watcher: Watcher, now: Status, at_s: float = 0.0) -> list[tuple[str, str]]:
    return [event[:2] for event in watcher.events(now, at_s)]


def test_a_crawl_that_goes_on_is_nothing_to_tell_of() -> None:
    watcher = Watcher(600)
    assert kinds(watcher, NOW) == kinds(watcher, NOW, 599) == []
    assert kinds(watcher, replace(NOW, done=6), 900) == []
    assert kinds(watcher, replace(NOW, done=6), 1499) == []


def test_it_stalls_while_nothing_is_done_though_something_is_left() -> None:
    watcher = Watcher(600)
    kinds(watcher, NOW)
    assert kinds(watcher, NOW, 600) == [("stalled", "5")]
    assert kinds(watcher, NOW, 605) == [("stalled", "5")]  # Redis knows that it was told
    assert kinds(watcher, replace(NOW, done=6), 610) == []


def test_a_crawl_that_is_paused_or_through_does_not_stall() -> None:
    for still in (replace(NOW, state="paused"), replace(NOW, queued=0)):
        watcher = Watcher(600)
        kinds(watcher, still)
        assert kinds(watcher, still, 10_000) == []
        assert kinds(watcher, NOW, 10_001) == []


def test_a_worker_that_counts_as_dead_is_lost() -> None:
    silent = replace(NOW, workers=(WORKER, replace(WORKER, name="x", alive=False, missed=4)))
    assert kinds(Watcher(600), silent) == [("worker_lost", "x")]


def test_one_that_was_late_and_is_gone_is_lost_and_one_that_was_not_has_left() -> None:
    watcher = Watcher(600)
    late = replace(WORKER, name="late", missed=2)
    assert kinds(watcher, replace(NOW, workers=(WORKER, late))) == []
    assert kinds(watcher, replace(NOW, workers=())) == [("worker_lost", "late")]
    assert kinds(watcher, replace(NOW, workers=())) == []


@pytest.mark.parametrize("extension", [Notifier, WorkerMetrics])
def test_what_is_off_is_not_warned_of(extension: type[Notifier | WorkerMetrics]) -> None:
    with pytest.raises(NotConfigured) as off:
        extension.from_crawler(get_crawler())
    assert not off.value.args, "Scrapy warns at every start of what gives a reason"
