"""Workers that die, stand still or are told to go: what they held is done by others, once."""

from __future__ import annotations

import signal
from pathlib import Path

from crawlproj.failpoints import POINTS
from tests.chaos.harness import trial


def test_a_worker_may_die_at_any_step(tmp_path: Path) -> None:
    with trial(tmp_path) as crawl:
        doomed = {point: crawl.start(failpoint=f"{point}:4") for point in POINTS}
        codes = {point: worker.process.wait(60) for point, worker in doomed.items()}
        assert codes == dict.fromkeys(POINTS, -signal.SIGKILL)
        crawl.start()
        assert crawl.conclude()["reclaimed"] > 0
