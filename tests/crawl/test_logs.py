"""The logs of workers: JSON, and bounded files."""

from __future__ import annotations

import json

from tests.servers.fleet import Fleet
from tests.servers.origin import Origin, Reply

PAGE = Reply(body=b"".join(b"<a href=/%d>x</a>" % n for n in range(30)))


def test_every_line_of_a_json_log_is_an_event_with_worker_and_crawl(fleet: Fleet) -> None:
    with Origin({"/robots.txt": Reply(status=404), "/": PAGE}, default=Reply()) as origin:
        settings = {"CRAWL_LOG_FORMAT": "json", "CRAWL_WORKER_ID": "box"}
        worker = fleet.start(settings, seeds=origin.url("/"), delay=0, crawl="news")
        worker.wait()
    events = [json.loads(line) for line in worker.log.splitlines()]
    assert {(one["worker"], one["crawl"]) for one in events} == {("box", "news")}
    assert {"at", "level", "logger", "message"} <= events[0].keys()
    [ended] = [one for one in events if one["message"].startswith("Spider closed")]
    assert (ended["level"], ended["message"]) == ("INFO", "Spider closed (finished)")
    [summary] = [one for one in events if "Summary in" in one["message"]]
    assert "\n" in summary["message"], "several lines are one event"


def test_log_files_are_put_aside_when_they_are_full_and_no_more_than_so_many_are_kept(
    fleet: Fleet,
) -> None:
    log = fleet.folder / "own.log"
    settings = {
        "LOG_FILE": log,
        "LOG_LEVEL": "DEBUG",
        "CRAWL_LOG_MAX_BYTES": 3000,
        "CRAWL_LOG_FILES": 2,
    }
    with Origin({"/robots.txt": Reply(status=404), "/": PAGE}, default=Reply()) as origin:
        fleet.start(settings, seeds=origin.url("/"), delay=0).wait()
    assert sorted(path.name for path in fleet.folder.glob("own.log*")) == [
        *("own.log", "own.log.1", "own.log.2")
    ]
    assert all(path.stat().st_size < 6000 for path in fleet.folder.glob("own.log*"))
    assert "Spider closed (finished)" in log.read_text() + (fleet.folder / "own.log.1").read_text()
