"""A worker's stats in a file beside its rows, for what only the worker itself can count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from crawlproj.engine.stats import Stats

FILE = "stats-of-worker.json"


class KeptStats(Stats):
    def _persist_stats(self, stats: dict[str, Any]) -> None:
        folder = Path(self._crawler.settings["CRAWL_OUTPUT"])
        (folder / FILE).write_text(json.dumps(stats, default=str))
