"""Finds near-duplicates while a crawl runs: each page's row says which page it is a near-copy of.

A page's fingerprint is made when the page is read, and the crawl is asked about it then: together
with those that are read while another question is under way, so that a busy worker asks once for
many. The row waits for the answer before it goes to the item pipelines; the event loop does not. A
Redis that does not answer, or has no room, leaves rows without a mark and holds nothing up.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from redis.exceptions import RedisError

from crawlproj.discover.fingerprint import bands, fingerprint
from crawlproj.errors import CrawlError
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.meta_keys import VISIT
from crawlproj.frontier.near_index import ASKED_AT_ONCE, Fingerprinted, first_near
from crawlproj.items import PageItem
from crawlproj.urls import Url

if TYPE_CHECKING:
    from scrapy.http import Response

logger = logging.getLogger(__name__)

MOST_UNREAD = 1000
"""Answers that no row has come for: a spider may yield none of a page."""


class _Asked(NamedTuple):
    page: Fingerprinted
    url: Url
    answer: asyncio.Future[str]


class NearDuplicates:
    """What one worker asks. `weigh` is told of each page's first answer: whether it was a
    near-copy. A page that is revisited would look like many of its folder."""

    def __init__(self, frontier: Frontier, weigh: Callable[[Url, bool], None]) -> None:
        self._frontier = frontier
        self._weigh = weigh
        self._waiting: deque[_Asked] = deque()
        self._answers: dict[str, asyncio.Future[str]] = {}
        self._asking: asyncio.Task[None] | None = None
        self._is_without = False

    def ask(self, url: Url, row: PageItem, response: Response, encoding: str) -> None:
        """A page has been read, and its row will come; nothing is asked of one without text."""
        found = fingerprint(response.body, encoding)
        if found is None:
            return
        answer = asyncio.get_running_loop().create_future()
        page = Fingerprinted(row.url, found, bands(found), VISIT in response.meta)
        self._waiting.append(_Asked(page, url, answer))
        self._answers[row.url] = answer
        if len(self._answers) > MOST_UNREAD:
            del self._answers[next(iter(self._answers))]
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask_all())

    def mark(self, item: Any) -> Any | Awaitable[Any]:
        """The first that items come to: a row is marked once its answer is there."""
        answer = self._answers.pop(item.url, None) if type(item) is PageItem else None
        return item if answer is None else _marked(item, answer)

    async def _ask_all(self) -> None:
        while self._waiting:
            most = min(ASKED_AT_ONCE, len(self._waiting))
            batch = [self._waiting.popleft() for _ in range(most)]
            found = await self._first_near([asked.page for asked in batch])
            for asked, near in zip(batch, found or [""] * most, strict=True):
                if not asked.answer.done():  # its row may have been broken off
                    asked.answer.set_result(near)
                if found and not asked.page.is_revisit:
                    self._weigh(asked.url, bool(near))

    async def _first_near(self, pages: list[Fingerprinted]) -> list[str] | None:
        """None where the crawl does not answer."""
        try:
            found = await first_near(self._frontier.shards, pages)
        except (CrawlError, RedisError) as error:
            if not self._is_without:
                logger.warning("Rows have no near_duplicate_of for now: %s", error)
            self._is_without = True
            return None
        self._is_without = False
        return found if len(found) == len(pages) else None


async def _marked(row: PageItem, answer: asyncio.Future[str]) -> PageItem:
    row.near_duplicate_of = await answer
    return row
