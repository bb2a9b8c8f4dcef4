"""Lines of JSON, and which logs of earlier fleets are kept."""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path

from crawlproj.operate.logs import JsonFormatter, forget_oldest


def test_an_event_is_one_line_whatever_it_says() -> None:
    try:
        raise ValueError("bad \u2028 \x1b[2J")
    except ValueError:
        error = sys.exc_info()
    args = ("\n\x1b[2J", {1, 2})
    record = logging.LogRecord("x.y", logging.ERROR, "", 1, "%s and %s", args, error)
    line = JsonFormatter({"worker": "w", "crawl": "c"}).format(record)
    assert "\n" not in line and "\x1b" not in line
    event = json.loads(line)
    assert event["message"] == "\n\x1b[2J and {1, 2}"
    assert "ValueError: bad" in event["error"]
    assert (event["worker"], event["crawl"], event["level"]) == ("w", "c", "ERROR")


def test_the_latest_logs_of_earlier_fleets_are_kept(tmp_path: Path) -> None:
    for n in range(5):
        path = tmp_path / f"worker-1-until-{n}.log"
        path.touch()
        os.utime(path, (n, n))
    (tmp_path / "worker-2-until-0.log").touch()
    forget_oldest(tmp_path, "worker-1-until-*.log", 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("worker-1-until-3.log", "worker-1-until-4.log", "worker-2-until-0.log")
    ]
