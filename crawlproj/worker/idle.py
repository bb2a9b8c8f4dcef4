"""`spider_idle`: a spider that has nothing left to do is told so before its crawl ends.

Scrapy's engine never sends the signal, since our scheduler may always have something pending; it is
sent from here, when nothing is left anywhere. Handlers can answer as in Scrapy: DontCloseSpider
keeps the spider open, CloseSpider names the reason, and what they add goes on with the crawl.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from pydispatch.errors import DispatcherKeyError  # type: ignore[import-untyped]
from scrapy import signals
from scrapy.exceptions import CloseSpider, DontCloseSpider
from scrapy_redis.spiders import RedisMixin
from twisted.python.failure import Failure

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

EVERY_S = 5.0
"""How often a spider that stays idle is told again; as often as Scrapy does."""

EXPECTED = (DontCloseSpider, CloseSpider)


class Idle:
    """Asks a spider that is idle whether it may be closed."""

    def __init__(self, crawler: Crawler, has_more: Callable[[], bool]) -> None:
        self._crawler = crawler
        self._has_more = has_more
        self._told_at = 0.0
        self._told_of: int | None = None
        self._agrees = True
        self.reason = ""
        """The one for which a handler wants the spider closed."""
        self._take_over_seeds()

    def busy(self) -> None:
        """It is not idle: what was said is over."""
        self.reason = ""

    def may_end(self, discovered: int) -> bool:
        """Whether no handler objects or adds something. `discovered` counts the URLs so far: unless
        there are more, a handler that adds what is known already is not asked again at once."""
        now = time.monotonic()
        if discovered != self._told_of or now - self._told_at >= EVERY_S:
            self._told_at, self._told_of = now, discovered
            self._agrees = self._ask()
        return self._agrees and not self._has_more()

    def _ask(self) -> bool:
        replies = self._crawler.signals.send_catch_log(
            signals.spider_idle, spider=self._crawler.spider, dont_log=EXPECTED
        )
        said = [reply.value for _, reply in replies if isinstance(reply, Failure)]
        if any(isinstance(one, DontCloseSpider) for one in said):
            return False
        reasons = [one.reason for one in said if isinstance(one, CloseSpider)]
        self.reason = reasons[0] if reasons else ""
        return True

    def _take_over_seeds(self) -> None:
        """When idle, scrapy-redis's spiders pop start URLs, which a crash then loses. Our intake
        takes them in; a handler of the project's own is told all the same."""
        spider = self._crawler.spider
        if not isinstance(spider, RedisMixin):
            return
        if type(spider).spider_idle is RedisMixin.spider_idle:
            with suppress(DispatcherKeyError):
                self._crawler.signals.disconnect(spider.spider_idle, signals.spider_idle)
        else:
            spider.fetch_data = _nothing


def _nothing(key: str, most: int) -> list[bytes]:
    return []
