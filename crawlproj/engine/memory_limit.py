"""A worker's own memory limit: at it the worker hands in what it holds and asks for a successor.

Scrapy's MEMUSAGE extension with three differences: it goes by what is in use now and not by the
most that ever was, it looks first after an interval (so that every worker does some work), and it
says what happens next. Its other settings (MEMUSAGE_WARNING_MB, …) mean what they mean in Scrapy.
"""

from __future__ import annotations

import logging
import os
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.extensions.memusage import MemoryUsage
from scrapy.utils.asyncio import create_looping_call

from crawlproj.config import Config
from crawlproj.engine.watch import EngineWatch

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

OUT_OF_MEMORY = "memory"
"""Why the spider of a worker is closed that has reached its limit."""
REPLACE_ME = 75
"""Exit code of a worker that has reached its limit: sysexits.h calls it "try again"."""

_MB = 1024 * 1024
_STATM = Path("/proc/self/statm")


class MemoryLimit(MemoryUsage):
    """`EXTENSIONS` of a project, in place of Scrapy's."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._limit_mb = Config.from_settings(crawler.settings).memory_limit_mb
        self.limit = 0  # the parent looks at the peak, and at once

    def get_virtual_size(self) -> int:
        """Bytes of memory in use now; where the system does not tell, the most there have been."""
        return resident_bytes()

    def engine_started(self) -> None:
        super().engine_started()
        if self._limit_mb:
            looking = create_looping_call(self._look)
            self.tasks.append(looking)
            looking.start(self.check_interval, now=False)

    def _look(self) -> None:
        used_mb = self.get_virtual_size() / _MB
        watch = EngineWatch(self.crawler)
        if used_mb < self._limit_mb or watch.takes_nothing:
            return
        logger.warning(
            "This worker uses %.0f MB and may use %d (CRAWL_MEMORY_LIMIT_MB): it hands in what it "
            "holds and ends with exit code %d. `scrapy fleet` starts another in its place; without "
            "it, start the worker again: nothing is lost",
            used_mb,
            self._limit_mb,
            REPLACE_ME,
        )
        watch.close(OUT_OF_MEMORY)


def resident_bytes() -> int:
    """Memory in use now; where the system does not tell, the most there has been."""
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
