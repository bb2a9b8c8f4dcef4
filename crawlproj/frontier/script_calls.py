"""Calls of the scripts of one shard: what goes along with each, and what its errors mean.

Each call but the first ones carries the crawl's epoch, and how long ago this worker asked before:
by that a script tells whether the server's clock has stepped (lua/_clock.lua).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from redis.exceptions import ResponseError

from crawlproj.frontier import keys
from crawlproj.frontier.clock import clock_s
from crawlproj.frontier.readings import as_written, meaning_of
from crawlproj.frontier.scripts import script


@dataclass
class ScriptCalls:
    """Of one worker and one shard; they are counted, and so are their bytes."""

    client: Any
    crawl: str
    number: int
    epoch: str = field(default="", kw_only=True)
    calls: int = field(default=0, init=False)
    bytes_sent: int = field(default=0, init=False)
    bytes_received: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.keys = keys.vector(self.crawl, self.number)
        self._bytes_of_keys = _bytes_in(self.keys)
        self._asked_at_s: float | None = None

    async def call(self, name: str, args: list[Any], client: Any = None) -> Any:
        """Call a script within the crawl's epoch, by way of another client if one is given."""
        asked_at_s = clock_s()
        reply = await self.run(name, [self._stamp(asked_at_s), *args], client)
        self._asked_at_s = max(asked_at_s, self._asked_at_s or 0.0)
        return reply

    def _stamp(self, now_s: float) -> str:
        """The epoch, and what tells a script whether the server's clock has stepped."""
        if self._asked_at_s is None:
            return self.epoch
        return f"{self.epoch} {max(0, round((now_s - self._asked_at_s) * 1000))}"

    async def run(self, name: str, args: list[Any], client: Any = None) -> Any:
        """Call a script with nothing but these arguments."""
        self.calls += 1
        self.bytes_sent += self._bytes_of_keys + _bytes_in(args)
        try:
            reply = await script(name)(client or self.client, self.keys, args)
            self.bytes_received += _bytes_in(reply)
            return reply
        except ResponseError as error:
            raise meaning_of(error) from None

    async def now_ms(self) -> int:
        """The time on the crawl's clock (lua/_clock.lua)."""
        seconds, micros = await self.client.time()
        skew_ms = await self.client.hget(keys.meta(self.crawl, self.number), "skew_ms")
        with as_written("skew_ms"):
            return int(seconds) * 1000 + int(micros) // 1000 + int(skew_ms or 0)


def _bytes_in(values: Any) -> int:
    """The size of arguments or of a reply, their frame left out; numbers are small."""
    if isinstance(values, list):
        return sum(map(_bytes_in, values))
    return len(values) if isinstance(values, bytes | str) else 0
