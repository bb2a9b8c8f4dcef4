"""What `scrapy fleet` shows while its workers run: a line now and then, or on a terminal a block
that stays below what is said."""

from __future__ import annotations

import asyncio
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from crawlproj.operate import crawls
from crawlproj.operate.plain_text import in_one_line, is_terminal
from crawlproj.operate.status_view import in_one_line as status_line
from crawlproj.operate.status_view import still_finished

if TYPE_CHECKING:
    from crawlproj.operate.status import Status
    from crawlproj.server import connection

LINE_EVERY_S = 5.0
BLOCK_EVERY_S = 1.0


class FleetView:
    """Lines, each written if it says something new."""

    every_s = LINE_EVERY_S

    def __init__(self, crawl: str, redis: connection.Resolved) -> None:
        self.crawl = crawl
        self.redis = redis
        self._shown_at = time.monotonic()
        self._line = ""
        before = crawls.look(redis, crawl)
        self._was_over = before.epoch if before and before.state == "finished" else None

    def say(self, text: str) -> None:
        """What is said once."""
        print(text, flush=True)

    def warn(self, text: str) -> None:
        """The same, not as a part of the output."""
        print(text, file=sys.stderr, flush=True)

    def show(self) -> None:
        """Show how the crawl stands, if it is time to."""
        if time.monotonic() - self._shown_at >= self.every_s:
            self._show()
            self._shown_at = time.monotonic()

    def close(self) -> None:
        """All have ended."""

    def finds_nothing(self, now: Status) -> bool:
        """Whether the crawl had finished before the workers came."""
        return now.state == "finished" and now.epoch == self._was_over

    def _show(self) -> None:
        now = crawls.look(self.redis, self.crawl)
        if now is None:
            return
        line = still_finished(now) if self.finds_nothing(now) else status_line(now)
        if line != self._line:
            self._line = line
            self.say(in_one_line(line))


class FleetBlock(FleetView):
    """The same on a terminal."""

    every_s = BLOCK_EVERY_S

    def __init__(self, crawl: str, redis: connection.Resolved) -> None:
        # Late: Rich is for those who have a terminal.
        from crawlproj.operate.terminal.bottom import BottomBlock
        from crawlproj.operate.terminal.lookout import Lookout

        super().__init__(crawl, redis)
        self._bottom = BottomBlock(sys.stdout)
        self._lookout = Lookout(partial(crawls.status_of, redis, crawl, in_detail=True))

    def say(self, text: str) -> None:
        self._bottom.write(f"{text}\n")

    warn = say

    def close(self) -> None:
        self._bottom.close()

    def _show(self) -> None:
        from crawlproj.operate.terminal.block import block, sentence

        asyncio.run(self._lookout.look())
        if (now := self._lookout.now) is not None:
            lookout, width = self._lookout, self._bottom.width
            lines = block(now, lookout.rates, width, lookout.away)
            self._bottom.draw([sentence(still_finished(now))] if self.finds_nothing(now) else lines)


def fleet_view(crawl: str, redis: connection.Resolved) -> FleetView:
    """The one for where the output goes."""
    return (FleetBlock if is_terminal(sys.stdout) else FleetView)(crawl, redis)
