"""Asks Redis for all who look, as often as for one, and not at all while nobody does.

`Channel` is one thing that many may watch: it is read again and again as long as somebody does.
What is asked for and not watched (`Remembered`) is read once for all who ask within a moment. A
channel leaves Redis alone for many times as long as a reading takes.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager, suppress
from typing import Any, Generic, NamedTuple, TypeVar

from redis.exceptions import RedisError

from crawlproj.errors import CrawlError

T = TypeVar("T")

EVERY_S = 1.0
"""Between two readings for who watches."""

PATIENCE_S = 10.0
"""After so long without an answer, a reading is given up."""

SILENT_S = 3.0
"""After so long without an answer, who watches is told: what they see is older."""

REST = 25
"""A reading is followed by a rest of so many times its length: Redis is busy with us for at most a
twenty-fifth of its time, however large the crawl."""

COMPARED = 5
"""The length of a reading is that of the shortest of the last so many. One alone may have been slow
for any reason: the first connection, a machine that was busy with something else."""

MOST_REMEMBERED = 200
"""Answers that are kept for others who ask the same."""


class News(NamedTuple):
    """What was read at last, and what is wrong since when if it cannot be read any more."""

    number: int = 0
    value: Any = None
    error: str = ""
    error_since_s: float = 0.0
    read_at_s: float = 0.0
    """When the value was read."""


class Channel:
    """One thing that is read again and again while somebody watches."""

    def __init__(self, read: Callable[[], Awaitable[Any]], every_s: float = EVERY_S) -> None:
        self._read = read
        self._every_s = every_s
        self._viewers = 0
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Condition()
        self._wanted = asyncio.Event()
        self._took_s: deque[float] = deque(maxlen=COMPARED)
        self.news = News()

    @property
    def viewers(self) -> int:
        """How many watch."""
        return self._viewers

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Inside, it is read."""
        self._viewers += 1
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            self._viewers -= 1
            if not self._viewers:
                self._task.cancel()
                self._task = None

    async def next_news(self, after: int, most_s: float) -> News:
        """What is newer than that; the same, if nothing is for so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(most_s), self._changed:
                await self._changed.wait_for(lambda: self.news.number > after)
        return self.news

    def read_now(self) -> None:
        """Something has just changed: who watches sees it without waiting for the next reading."""
        self._wanted.set()

    async def _run(self) -> None:
        while True:
            self._wanted.clear()
            began_s = time.monotonic()
            await self._attempt()
            self._took_s.append(time.monotonic() - began_s)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._rest_s()):
                    await self._wanted.wait()

    def _rest_s(self) -> float:
        # One that does not answer is not busy with us, and is asked again soon.
        if self.news.error or len(self._took_s) == 1:
            return self._every_s
        return max(self._every_s - self._took_s[-1], min(self._took_s) * REST)

    async def _attempt(self) -> None:
        """Read once, and tell what came of it: also while nothing does."""
        reading = asyncio.ensure_future(_awaited(self._read()))
        try:
            if not await _is_done(reading, SILENT_S):
                await self._tell_of(f"no answer for {SILENT_S:.0f} s", SILENT_S)
            if await _is_done(reading, PATIENCE_S - SILENT_S):
                await self._tell(News(value=reading.result(), read_at_s=time.time()))
            else:
                await self._tell_of(f"no answer within {PATIENCE_S:.0f} s", PATIENCE_S)
        except (RedisError, CrawlError, OSError) as error:
            await self._tell_of(" ".join(str(error).split()) or type(error).__name__)
        finally:
            reading.cancel()

    async def _tell_of(self, error: str, silent_s: float = 0.0) -> None:
        """What was read last is still shown."""
        since_s = self.news.error_since_s or time.time() - silent_s
        await self._tell(self.news._replace(error=error, error_since_s=since_s))

    async def _tell(self, news: News) -> None:
        async with self._changed:
            self.news = news._replace(number=self.news.number + 1)
            self._changed.notify_all()


async def _is_done(work: asyncio.Future[Any], within_s: float) -> bool:
    return bool((await asyncio.wait([work], timeout=within_s))[0])


class Channels:
    """The channels that are watched, by name; one that nobody watches is forgotten."""

    def __init__(self, make: Callable[[str], Channel], most_viewers: int) -> None:
        self._make = make
        self._most_viewers = most_viewers
        self._open: dict[str, Channel] = {}

    @property
    def is_full(self) -> bool:
        return sum(channel.viewers for channel in self._open.values()) >= self._most_viewers

    @asynccontextmanager
    async def watched(self, name: str) -> AsyncIterator[Channel]:
        channel = self._open.setdefault(name, self._make(name))
        try:
            async with channel.watched():
                yield channel
        finally:
            if not channel.viewers:
                self._open.pop(name, None)

    def read_now(self, *names: str) -> None:
        """Those of these names that are watched are read without waiting."""
        for name in names:
            if name in self._open:
                self._open[name].read_now()


class Remembered(Generic[T]):
    """Answers for all who ask the same within a moment, also while one is being read."""

    def __init__(self, for_s: float) -> None:
        self._for_s = for_s
        self._answers: OrderedDict[Hashable, tuple[float, asyncio.Future[T]]] = OrderedDict()

    async def get(self, key: Hashable, read: Callable[[], Awaitable[T]]) -> T:
        """The answer, read if there is none that is fresh."""
        at_s, answer = self._answers.get(key, (0.0, None))
        if answer is None or (answer.done() and time.monotonic() - at_s > self._for_s):
            answer = asyncio.ensure_future(_awaited(read()))
            self._answers[key] = time.monotonic(), answer
            answer.add_done_callback(lambda done: self._ended(key, done))
            while len(self._answers) > MOST_REMEMBERED:
                self._answers.popitem(last=False)
        return await asyncio.shield(answer)

    def forget(self, key: Hashable) -> None:
        """What is remembered, or being read, is from before a change."""
        self._answers.pop(key, None)

    def _ended(self, key: Hashable, answer: asyncio.Future[T]) -> None:
        has_failed = answer.cancelled() or answer.exception() is not None
        if self._answers.get(key, (0.0, None))[1] is not answer:
            return
        if has_failed:
            del self._answers[key]
        else:
            self._answers[key] = time.monotonic(), answer


async def _awaited(answer: Awaitable[T]) -> T:
    return await answer


class Gently:
    """Many calls one after the other, with a rest after each, so that Redis has time for others."""

    def __init__(self, rest: float = 10) -> None:
        self._rest = rest
        self._began_s = 0.0

    async def turn(self) -> None:
        """Return when the next call may be made."""
        took_s = time.monotonic() - self._began_s if self._began_s else 0.0
        await asyncio.sleep(took_s * self._rest)
        self._began_s = time.monotonic()
