"""Seeds that users push to the crawl's list (or set, or sorted set) while it runs.

A seed is looked at, pushed to the frontier, and only then removed, so a worker that dies in
between leaves it where it was. Workers take turns: where a spider wants its seeds unfiltered, as
scrapy-redis's do, the frontier would keep one for each worker that had seen it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

from redis.exceptions import LockError, RedisError, ResponseError
from scrapy import Request, Spider

from crawlproj.errors import CrawlError
from crawlproj.frontier import keys
from crawlproj.frontier.messages import Push
from crawlproj.frontier.meta_keys import FOUND
from crawlproj.plural import counted
from crawlproj.server.connection import OUTAGE
from crawlproj.urls import UrlError, bare_name, normalise

logger = logging.getLogger(__name__)

LIST, SET, SORTED_SET = "list", "set", "zset"

LOOK_EVERY_S = 0.5
AT_ONCE = 200
TURN_S = 5
"""How long a worker may take in seeds before it is another's turn: whoever takes longer, behind a
full disk say, has pushed nothing, and whoever died keeps the others waiting no longer."""
TROUBLE: tuple[type[Exception], ...] = (*OUTAGE, RedisError, CrawlError)
"""Why seeds may have to wait."""

_HOW_TO_PUSH = {
    LIST: "push seeds with lpush",
    SET: "push seeds with sadd, or leave REDIS_START_URLS_AS_SET out",
    SORTED_SET: "push seeds with zadd, or leave REDIS_START_URLS_AS_ZSET out",
}


_FIELDS: dict[str, tuple[type, str]] = {
    "url": (str, "text"),
    "priority": (int, "a whole number"),
    "meta": (dict, "an object"),
    "method": (str, "text"),
    "body": (str, "text"),
    "headers": (dict, "an object"),
    "cookies": (dict, "an object"),
}
"""Of a seed in JSON: its type, and what to call it."""


MakeRequests = Callable[[bytes], Any]
"""Makes a request of a seed, or several: a spider's `make_request_from_data`."""

Refused = tuple[bytes, str]
"""A seed, and why it cannot be used."""


class SeedListError(CrawlError):
    """The key that seeds are pushed to holds something else."""


class TurnOver(CrawlError):
    """A worker's time to take in seeds is over."""


class SeedList:
    """The Redis key that users push seeds to."""

    def __init__(self, client: Any, key: str, shape: str = LIST) -> None:
        self.client = client
        self.key = key
        self.shape = shape

    async def size(self) -> int:
        """Seeds that wait."""
        count = {LIST: self.client.llen, SET: self.client.scard, SORTED_SET: self.client.zcard}
        with self._explained():
            return int(await count[self.shape](self.key))

    async def peek(self, most: int | None = None) -> list[bytes]:
        """The seeds whose turn it is: of a list its head, as scrapy-redis takes them, so that with
        `rpush` it is first come, first served; of a sorted set the best."""
        with self._explained():
            if self.shape == SET:
                return list(await self.client.srandmember(self.key, most or await self.size()))
            if self.shape == SORTED_SET:
                return list(await self.client.zrevrange(self.key, 0, (most or 0) - 1))
            return list(await self.client.lrange(self.key, 0, (most or 0) - 1))

    async def add(self, seeds: Sequence[str]) -> None:
        """Let seeds wait behind those that do; in a sorted set they have no priority."""
        with self._explained():
            if self.shape == SET:
                await self.client.sadd(self.key, *seeds)
            elif self.shape == SORTED_SET:
                await self.client.zadd(self.key, dict.fromkeys(seeds, 0), nx=True)
            else:
                await self.client.rpush(self.key, *seeds)

    async def mark_found(self, found: Collection[str], named: Collection[str]) -> None:
        """Remember names of hosts that seeds lead to though no user has named them, and forget
        those that one has."""
        key = keys.found_hosts(self.key)
        if found:
            await self.client.sadd(key, *found)
        if named:
            await self.client.srem(key, *named)

    async def found_hosts(self, among: Collection[str]) -> set[str]:
        """Those of these names of hosts that only something on the web has named."""
        names = list(among)
        if not names:
            return set()
        is_found = await self.client.smismember(keys.found_hosts(self.key), names)
        return {name for name, found in zip(names, is_found, strict=True) if found}

    async def remove(self, seeds: Iterable[bytes]) -> None:
        """Forget seeds that the frontier has."""
        if self.shape == SET:
            await self.client.srem(self.key, *seeds)
        elif self.shape == SORTED_SET:
            await self.client.zrem(self.key, *seeds)
        else:
            removal = self.client.pipeline(transaction=False)
            for seed in seeds:
                removal.lrem(self.key, 1, seed)
            await removal.execute()

    async def refuse(self, seed: bytes, reason: str) -> None:
        """Set aside a seed that cannot be used, with its reason."""
        shown = seed[:2000].decode(errors="replace")
        logger.warning("Seed refused: %s: %s", _on_one_line(shown[:200]), _on_one_line(reason))
        await self.client.rpush(
            keys.rejected(self.key), json.dumps({"seed": shown, "reason": reason})
        )

    async def purge(self) -> None:
        """Forget all that waits here, and what was noted beside it."""
        key = self.key  # each has a slot of its own on a cluster
        for one in (key, keys.rejected(key), keys.taking(key), keys.found_hosts(key)):
            await self.client.unlink(one)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[bool]:
        """True for the one worker that may take in seeds now. What is not done when its turn is
        over is broken off, and raises TurnOver: another may have begun with the same seeds."""
        try:
            async with asyncio.timeout(TURN_S) as turn:  # it begins before the lock's own time does
                lock = self.client.lock(keys.taking(self.key), timeout=TURN_S, blocking=False)
                mine: bool = await lock.acquire()
                try:
                    yield mine
                finally:
                    if mine:
                        with suppress(LockError):
                            await lock.release()
        except TimeoutError:
            if not turn.expired():
                raise
            raise TurnOver(
                f"this worker could not take them in within {TURN_S} s, others may take them"
            ) from None

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except ResponseError as error:
            if not str(error).startswith("WRONGTYPE"):
                raise
            raise SeedListError(
                f"{self.key} is no {self.shape}: delete it and {_HOW_TO_PUSH[self.shape]}"
            ) from None


def usual_key(crawl: str) -> str:
    """Where users push seeds of a crawl, unless a project says otherwise."""
    return keys.start_urls(crawl)


def parse_seed(data: bytes) -> Request:
    """The request that a seed stands for; raises UrlError if there can be none."""
    fields = seed_fields(data)
    normalise(fields["url"])  # which says better than Scrapy what is wrong
    return Request(**fields)


def seed_fields(data: bytes) -> dict[str, Any]:
    """What a seed says: a plain URL, or scrapy-redis's JSON with url, priority, meta, method, body,
    headers, cookies."""
    text = data.decode().strip()
    if not text.startswith("{"):
        return {"url": text}
    fields: dict[str, Any] = json.loads(text)
    if "url" not in fields:
        raise ValueError('the JSON has no "url"')
    for name, value in fields.items():
        if name not in _FIELDS:
            raise ValueError(f"unknown field {name!r}; there are {', '.join(_FIELDS)}")
        kind, called = _FIELDS[name]
        if type(value) is not kind:
            raise ValueError(f'"{name}" must be {called}')
    return fields


_BETWEEN_SEEDS = re.compile(r",(?=\s*(?:#?\s*[a-z][a-z0-9+.-]*://|,|$))", re.IGNORECASE)


def read_seeds(seeds: str) -> list[str]:
    """Comma-separated URLs, or the lines of @file. A comma belongs to the URL that it stands in,
    unless another begins behind it."""
    if seeds.startswith("@"):
        lines: Iterable[str] = Path(seeds[1:]).read_text(encoding="utf-8").splitlines()
    else:
        lines = _BETWEEN_SEEDS.split(seeds)
    return [line.strip() for line in lines if line.strip() and not line.strip().startswith("#")]


class SeedIntake:
    """Moves seeds from their list into the frontier, as long as the crawl runs."""

    def __init__(
        self,
        seeds: SeedList,
        make: MakeRequests,
        to_push: Callable[[Request], Push],
        push: Callable[[list[Push]], Awaitable[None]],
        is_open: Callable[[], bool],
    ) -> None:
        self._seeds = seeds
        self._make = make
        self._to_push = to_push
        self._push = push
        self._is_open = is_open
        self.seeds_wait = True
        """Whether seeds may be in the list that could be taken in, as of the last look."""

    async def run(self) -> None:
        """Look at the list again and again."""
        said = ""
        while True:
            taken = 0
            try:
                taken = await self.take() if self._is_open() else 0
            except TROUBLE as error:
                self.seeds_wait = False
                if str(error) != said:
                    said = str(error)
                    logger.warning("Seeds wait: %s", said)
            await asyncio.sleep(0 if taken else LOOK_EVERY_S)

    async def take(self) -> int:
        """Take in some of the seeds that wait; returns how many."""
        self.seeds_wait = await self._seeds.size() > 0
        if not self.seeds_wait:
            return 0
        async with self._seeds.turn() as mine:
            return await self._take() if mine else 0

    async def _take(self) -> int:
        waiting = await self._seeds.peek(AT_ONCE)
        if not waiting:
            return 0
        made: list[tuple[bytes, list[Request]]] = []
        pushes: list[Push] = []
        refused: list[Refused] = []
        for data in waiting:
            with noting_refusal(data, refused):
                made.append((data, make_requests(self._make, data)))
        hosts = {_name(request) for _, requests in made for request in requests}
        found_hosts = await self._seeds.found_hosts(hosts - {""})
        for data, requests in made:
            with noting_refusal(data, refused):
                _mark_found(requests, found_hosts)
                pushes += [self._to_push(request) for request in requests]
        await self._push(pushes)
        for data, reason in refused:
            await self._seeds.refuse(data, reason)
        await self._seeds.remove(waiting)
        logger.info("Took in %s", counted(len(waiting) - len(refused), "seed"))
        return len(waiting)


def seed_maker(spider: Spider) -> MakeRequests:
    """What makes requests of seeds: the spider, to which they may be anything, or ourselves."""
    make: MakeRequests = getattr(spider, "make_request_from_data", parse_seed)
    return make


def make_requests(make: MakeRequests, data: bytes) -> list[Request]:
    """The requests that a spider makes of a seed, of which there is at least one."""
    made = make(data)
    requests = [made] if isinstance(made, Request) else list(made or ())
    if not requests:
        raise ValueError("the spider made no request of it")
    for one in requests:
        if not isinstance(one, Request):
            raise TypeError(f"the spider made a {type(one).__name__} of it, and no request")
    return requests


@contextmanager
def noting_refusal(data: bytes, refused: list[Refused]) -> Iterator[None]:
    """Inside, what is wrong with a seed is noted: what a spider makes of it can fail in any way."""
    try:
        yield
    except Exception as error:
        refused.append((data, str(error) or type(error).__name__))


def _on_one_line(text: str) -> str:
    """A text of anybody's that cannot pass for another line of the log, or command a terminal."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def _name(request: Request) -> str:
    """The host of a seed; nothing where its URL can be none."""
    try:
        return bare_name(normalise(request.url).host)
    except UrlError:
        return ""


def _mark_found(requests: Iterable[Request], found_hosts: Collection[str]) -> None:
    for request in requests:
        if _name(request) in found_hosts:
            request.meta[FOUND] = True
