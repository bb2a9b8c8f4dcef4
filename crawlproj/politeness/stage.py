"""The parts that are asked before a page is fetched, made for one worker: what this room gives to
worker/assembly.py."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from crawlproj.config import Config, user_agent_of
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.messages import Lease, Lost, Push
from crawlproj.frontier.outcomes import Attempt, Filtered, PutOff
from crawlproj.frontier.pacing import RetryDelay
from crawlproj.frontier.plan import ADDRESS, HOST
from crawlproj.politeness.groups import AddressGroups, Resolver
from crawlproj.politeness.holds import Holds
from crawlproj.politeness.permission import Permission

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)


class Worker(Protocol):
    """The worker that they are for (worker/exchange.py)."""

    frontier: Frontier

    def push(self, item: Push) -> None: ...

    def end(self, attempt: Attempt) -> None: ...


@dataclass(frozen=True, slots=True)
class Politeness:
    """Hosts that asked for rest, robots.txt where it is obeyed, and the addresses of hosts where
    those at one address keep one pace. Where robots.txt is not obeyed, nothing is asked for and
    nothing refused."""

    holds: Holds
    permission: Permission | None
    groups: AddressGroups | None

    @property
    def queue_robots_txt(self) -> Callable[[str], None]:
        """To be told of the host of every page that is about to be queued."""
        return _ask_nothing if self.permission is None else self.permission.queue_robots_txt

    def outcome_for(self, host: str, url: str) -> Filtered | PutOff | None:
        """What robots.txt makes of a page, if it keeps us from it or is not known yet."""
        return None if self.permission is None else self.permission.outcome_for(host, url)

    def offer_sitemaps_to(self, take: Callable[[str, list[str]], None]) -> None:
        """Tell of each host whose robots.txt has come, and of the sitemaps that it names."""
        if self.permission is not None:
            self.permission.offer_sitemaps_to(take)

    async def learn(self, leases: Sequence[Lease]) -> None:
        """Learn what other workers have found about the hosts of these leases."""
        if self.permission is not None:
            await self.permission.learn(leases)

    async def lost(self, dead: Iterable[Lost]) -> None:
        """Nobody asks any more for a robots.txt that was lost with its workers too often."""
        if self.permission is not None:
            await self.permission.lost(dead)

    async def close(self) -> None:
        """Give up what is under way."""
        if self.groups is not None:
            await self.groups.close()
        if self.permission is not None:
            await self.permission.close()


def make_politeness(
    worker: Worker, config: Config, settings: BaseSettings, resolver: Callable[[], Resolver]
) -> Politeness:
    """By the crawl's plan, for one worker."""
    group = worker.frontier.plan.group
    return Politeness(
        Holds(by_group=group != HOST),
        _permission(worker, config, settings),
        AddressGroups(worker.end, resolver()) if group == ADDRESS else None,
    )


def _permission(worker: Worker, config: Config, settings: BaseSettings) -> Permission | None:
    if not (config.robots and settings.getbool("ROBOTSTXT_OBEY")):
        if config.sitemaps:
            logger.warning("CRAWL_SITEMAPS: no robots.txt is asked for, so none names a sitemap")
        return None
    return Permission(
        worker.frontier,
        worker.push,
        user_agent=user_agent_of(settings),
        max_attempts=worker.frontier.plan.max_attempts,
        retry_delay=retry_delay_of(config),
        longest_pause_s=config.longest_pause_s,
    )


def retry_delay_of(config: Config) -> RetryDelay:
    """By the settings of this worker."""
    return RetryDelay(round(config.retry_delay_s * 1000), round(config.longest_hold_s * 1000))


def _ask_nothing(host: str) -> None:
    """No robots.txt is asked for."""
