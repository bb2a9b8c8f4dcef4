"""What the dashboard tells of crawls, as JSON: each answer bounded, however large the crawl."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Any

from redis.exceptions import ResponseError
from scrapy.settings import Settings

from crawlproj import reasons
from crawlproj.errors import CrawlError
from crawlproj.frontier import history
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.history import Moment, Span
from crawlproj.frontier.messages import DeadLetter
from crawlproj.operate import crawls, dead_letters, status
from crawlproj.operate.dashboard.crawl_names import CrawlNames
from crawlproj.operate.dashboard.host_search import HostSearches, Question
from crawlproj.operate.dashboard.polling import Remembered
from crawlproj.operate.look_up import look_up
from crawlproj.operate.status import Status
from crawlproj.politeness import robots
from crawlproj.politeness.robots_store import RobotsStore
from crawlproj.worker import join

SHOWN_LETTERS = 100
LETTERS_LOOKED_AT = 20_000
"""Of each shard, in one answer."""
LOOK_UP_S = 20.0
"""After so long, looking for a URL is given up: queues of millions are read from end to end."""


class NotThere(CrawlError):
    """There is no crawl of that name."""


class Answers:
    """Reads from one Redis for all who ask."""

    def __init__(self, client: Any, settings: Settings) -> None:
        self._client = client
        self._settings = settings
        self._searches = HostSearches(client)
        self._statuses: Remembered[Status] = Remembered(0.5)
        self._pasts: Remembered[list[Moment]] = Remembered(5.0)
        self._letters: Remembered[dict[str, Any]] = Remembered(1.0)
        self._looking_up = asyncio.Semaphore(1)
        self.names = CrawlNames(client)

    def frontier(self, crawl: str) -> Frontier:
        """Of a crawl, to look at or to command."""
        return Frontier(self._client, crawl, "dashboard")

    async def known(self, crawl: str) -> Frontier:
        """The same, of one that is there; raises NotThere."""
        frontier = self.frontier(crawl)
        seeds = await join.seed_list_of(self._client, self._settings, crawl)
        if not await crawls.is_known(frontier, seeds.key):
            raise NotThere(f"{crawl}: no such crawl in this Redis")
        self.names.add(crawl)
        return frontier

    async def ping(self) -> None:
        """Raises RedisError if Redis does not answer."""
        await self._client.ping()

    async def status(self, crawl: str) -> Status:
        """How a crawl stands, in detail."""

        async def read() -> Status:
            seeds = await join.seed_list_of(self._client, self._settings, crawl)
            return await status.read(self.frontier(crawl), seeds, in_detail=True)

        return await self._statuses.get(crawl, read)

    def forget_status(self, crawl: str) -> None:
        """It has just been changed."""
        self._statuses.forget(crawl)

    async def all_statuses(self) -> list[Status | str]:
        """How each stands; the name alone of one whose records are damaged."""
        found: list[Status | str] = []
        for name in await self.names.get():
            try:
                found.append(await self.status(name))
            except CrawlError:
                found.append(name)
        return found

    async def overview(self) -> list[dict[str, Any]]:
        """All crawls, a line each."""
        return [_line(one) for one in await self.all_statuses()]

    async def live(self, crawl: str) -> dict[str, Any]:
        """What the page of one crawl shows, as it changes."""
        now = await self.status(crawl)
        past = await self._past(crawl, Span.HOUR)
        lasts_s = history.memory_lasts_s(past, now.memory.limit)
        return {
            **status.as_json(now),
            "average": now.average,
            "memory_lasts_s": lasts_s,
            "unfetched": {name: n for name, n in now.filtered.items() if name not in reasons.READ},
            "meanings": {one: reasons.meaning_of(one) for one in (*now.filtered, *now.reasons)},
        }

    async def history(self, crawl: str, span: Span) -> dict[str, Any]:
        """Rates and queues over time."""
        moments = await self._past(crawl, span)
        return {
            "step_s": span.step_s,
            "rates": [asdict(one) for one in history.rates(moments)],
            "moments": [{**asdict(one), "filtered": one.filtered} for one in moments],
        }

    async def _past(self, crawl: str, span: Span) -> list[Moment]:
        async def read() -> list[Moment]:
            frontier = self.frontier(crawl)
            return (
                await history.read(frontier, span)
                if await frontier.attach(only_to_look=True)
                else []
            )

        return await self._pasts.get((crawl, span), read)

    async def hosts(self, question: Question) -> dict[str, Any]:
        """The first of them, by the question."""
        return await self._searches.ask(question)

    async def host(self, crawl: str, host: str) -> dict[str, Any]:
        """What is kept of one host beside its record: its robots.txt, its changed pace."""
        frontier = self.frontier(crawl)
        if not await frontier.attach(only_to_look=True):
            raise NotThere(f"{crawl}: there is no such crawl")
        robots_txt, paces = await _robots(frontier, host), await frontier.paces()
        return {"host": host, "robots": robots_txt, "paces": paces}

    async def letters(self, crawl: str, reason: str, host: str) -> dict[str, Any]:
        """Some of the dead letters; raises UrlError for a host that is none."""

        async def read() -> dict[str, Any]:
            frontier = self.frontier(crawl)
            if not await frontier.attach(only_to_look=True):
                return {"letters": [], "is_all": True}
            return await _some_letters(frontier, selection(reason, host))

        return await self._letters.get((crawl, reason, host), read)

    async def why(self, crawl: str, url: str) -> dict[str, Any]:
        """What became of a URL."""
        try:
            async with asyncio.timeout(LOOK_UP_S), self._looking_up:
                found = await look_up(self.frontier(crawl), self._settings, url)
        except TimeoutError:
            text = f"not found within {LOOK_UP_S:.0f} s: scrapy why {crawl} URL takes its time"
            return {"url": url, "state": "unknown", "text": text}
        return {"url": url, "state": found.state, "text": found.text, **found.details}


def selection(reason: str, host: str) -> dead_letters.Selection:
    """Which letters a user means."""
    return dead_letters.Selection(reason or None, dead_letters.hosts_named(host) if host else None)


async def _some_letters(frontier: Frontier, wanted: dead_letters.Selection) -> dict[str, Any]:
    """With how many there were: who asks knows by that whether it was before the last one."""
    dead = (await frontier.counts()).get("dead", 0)
    found: list[DeadLetter] = []
    looked_at, is_all = 0, True
    async for letter in dead_letters.find(frontier, dead_letters.Selection()):
        looked_at += 1
        if len(found) >= SHOWN_LETTERS or looked_at > LETTERS_LOOKED_AT:
            is_all = False
            break
        if wanted.includes(letter):
            found.append(letter)
    found.sort(key=dead_letters.newest_first)
    rows = [{**dead_letters.row(one), "id": f"{one.shard}-{one.number}"} for one in found]
    return {"letters": rows, "is_all": is_all, "dead": dead}


async def _robots(frontier: Frontier, host: str) -> dict[str, Any]:
    """What its robots.txt is known to say, in a word, and for how long that is believed."""
    store = RobotsStore(frontier)
    try:
        stored, left_s = robots.unpack(await store.peek(host)), await store.left_s(host)
    except ResponseError:  # of another type
        return {"verdict": "unknown", "left_s": 0}
    verdict = stored.verdict.name.lower() if stored is not None else "unknown"
    return {"verdict": verdict, "left_s": left_s}


def _line(one: Status | str) -> dict[str, Any]:
    if isinstance(one, str):
        return {"crawl": one, "state": crawls.DAMAGED}
    return {
        "crawl": one.crawl,
        "state": one.state,
        "done": one.done,
        "left": one.queued + one.delayed + one.leased,
        "dead": one.dead,
        "hosts": one.hosts,
        "workers": one.alive,
        "late": sum(worker.missed > 0 for worker in one.workers),
        "pages_per_s": one.pages_per_s,
        "started_at": one.started_at,
    }
