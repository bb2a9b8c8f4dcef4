"""A worker without a crawl to work at waits in the lobby, and joins one once there is one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from redis.exceptions import RedisError

from crawlproj.errors import CrawlError
from crawlproj.server import connection
from crawlproj.worker import join
from crawlproj.worker.lobby import Lobby, check_seed

if TYPE_CHECKING:
    from scrapy import Spider

    from crawlproj.config import Config
    from crawlproj.worker.place import Place

logger = logging.getLogger(__name__)


class Join(Protocol):
    """Goes to work; False if there is still nothing to work at."""

    async def __call__(self, *, brings_seed: bool, seed_found_at: str = "") -> bool: ...


class Waiting:
    """Waits in the background, from the moment it is made."""

    def __init__(
        self, place: Place, config: Config, join_crawl: Join, brings_own: Callable[[], bool]
    ) -> None:
        self._place = place
        self._join = join_crawl
        self._lobby = _lobby(place, config, brings_own)
        self._task = asyncio.create_task(self._wait())

    async def end(self) -> None:
        """Leave without having found anything."""
        self._task.cancel()
        with suppress(CrawlError, RedisError):
            await self._lobby.leave()
        await self._place.frontier.close()

    async def _wait(self) -> None:
        try:
            while not await self._look():
                pass
        except Exception as error:
            is_known = isinstance(error, CrawlError)
            logger.error("%s", error, exc_info=None if is_known else error)
            self._place.engine.close("could not start")

    async def _look(self) -> bool:
        """Wait for something to do, or for the end; True if waiting is over."""
        epoch = self._place.frontier.shards[0].epoch
        found = await self._lobby.wait()
        if found in ("stopped", "nothing"):
            reason = "stopped" if found == "stopped" else self._place.idle.reason
            self._place.engine.close(reason or "finished")
            return True
        at = "" if found == "own seed" else epoch
        join_it = partial(self._join, brings_seed=found != "crawl", seed_found_at=at)
        return await self._lobby.outages.retry_until_available(join_it)


def _lobby(place: Place, config: Config, brings_own: Callable[[], bool]) -> Lobby:
    frontier, spider = place.frontier, place.spider
    settings, crawl = place.crawler.settings, frontier.crawl
    is_patient = config.stay or join.waits_for_ever(spider) or not place.idle_s
    return Lobby(
        frontier,
        join.seed_list(frontier.client, settings, spider, crawl),
        redis=connection.mask(place.redis.url),
        folder=Path(config.output) / crawl,
        check=_seed_check(spider),
        brings_own=brings_own,
        may_bring=lambda: place.engine.is_starting,
        lease_timeout_s=config.lease_timeout_s,
        idle=place.idle,
        patience_s=float("inf") if is_patient else place.idle_s,
    )


def _seed_check(spider: Spider) -> Callable[[bytes], Any] | None:
    """What tells a seed that can be used from one that cannot, where that is known: seeds may be
    anything to a spider that makes requests of them itself."""
    if hasattr(spider, "make_request_from_data"):
        return getattr(spider, "check_seed", None)
    return check_seed
