"""Looks at a frontier many times a second while workers are disturbed, each time at one instant."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Self

import redis

from crawlproj.frontier import keys
from crawlproj.frontier.records import summarise
from crawlproj.frontier.wire import unpack_all
from tests.chaos.checker import Attempt, Sample, Violation, judge_sample
from tests.servers.redis import RedisServer

EVERY_S = 0.05
_LOOK = """
local held = {}
for _, worker in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do
  held[#held + 1] = {worker, redis.call('HGETALL', ARGV[1] .. worker)}
end
return {redis.call('HMGET', KEYS[1], 'epoch', 'state'), redis.call('HGETALL', KEYS[2]), held}
"""


def look(client: redis.Redis, crawl: str) -> Sample | None:
    """The frontier as it is now; None if no crawl is there."""
    names = (keys.meta(crawl, 0), keys.counts(crawl, 0), keys.workers(crawl, 0))
    found: Any = client.eval(_LOOK, 3, *names, keys.leased_prefix(crawl, 0))
    (epoch, state), counts, held = found
    if epoch is None:
        return None
    ledger = {name.decode(): int(value) for name, value in _pairs(counts)}
    leases = (_held(name, packed) for name, own in held for _, packed in _pairs(own))
    return Sample(epoch.decode(), state.decode(), ledger, tuple(leases))


def _pairs(flat: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return zip(flat[::2], flat[1::2], strict=True)


def _held(worker: bytes, packed: bytes) -> Attempt:
    host, _, entry, *_ = unpack_all(packed)
    return Attempt(worker.decode(), summarise(host.decode(), entry).url, entry[0])


class Watch:
    """Judges every sample from `__enter__` to `__exit__`, while there is a Redis to ask."""

    def __init__(self, server: RedisServer, crawl: str, max_attempts: int) -> None:
        self.violations: list[Violation] = []
        self.samples = 0
        self._server = server
        self._crawl = crawl
        self._max_attempts = max_attempts
        self._before: Sample | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def forget(self) -> None:
        """The next sample is judged by itself: Redis may have gone back in time."""
        self._before = None

    def _run(self) -> None:
        with self._server.client() as client:
            while not self._ended.wait(EVERY_S):
                with suppress(redis.ConnectionError, redis.TimeoutError):
                    self._judge(look(client, self._crawl))

    def _judge(self, now: Sample | None) -> None:
        if now is not None:
            self.violations += judge_sample(now, self._before, self._max_attempts)
            self._before = now
            self.samples += 1
