"""Calls of the scripts of one shard: what goes along with each, and what its errors mean.

Each call but the first ones carries the crawl's epoch, and how long ago this worker asked before:
by that a script tells whether the server's clock has stepped (lua/_clock.lua).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from redis.exceptions import ResponseError

from crawlproj.frontier import keys
from crawlproj.frontier.clock import clock_s
from crawlproj.frontier.readings import as_refusal, refusing_damage
from crawlproj.frontier.refusals import ClockInDoubt
from crawlproj.frontier.scripts import script

STEP_MS = 2000
"""A step of the server's clock that is made up for; as in lua/_clock.lua."""
MOST_DOUBTS = 5
"""After so many, whatever time the server says is believed."""


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
        self.on_answer: Callable[[float], None] | None = None
        """Called with the seconds that an answer took, where somebody measures."""

    @property
    def has_answered(self) -> bool:
        """True once a script has: what is known of the server's clock counts from then."""
        return self._asked_at_s is not None

    async def call(self, name: str, args: list[Any], client: Any = None) -> Any:
        """Call a script within the crawl's epoch, by way of another client if one is given; again
        if it is in doubt about the time."""
        answered_s, step, doubts = self._asked_at_s, "", 0
        while True:
            asked_at_s = clock_s()
            stamp = self.epoch
            if answered_s is not None and doubts < MOST_DOUBTS:
                stamp += f" {_ms_since(answered_s)}{step}"
            try:
                reply = await self.run(name, [stamp, *args], client)
            except ClockInDoubt as doubt:
                doubts += 1
                step = _step_since(answered_s or asked_at_s, doubt)
                continue
            self._asked_at_s = max(asked_at_s, self._asked_at_s or 0.0)
            return reply

    async def run(self, name: str, args: list[Any], client: Any = None) -> Any:
        """Call a script with nothing but these arguments."""
        self.calls += 1
        self.bytes_sent += self._bytes_of_keys + _bytes_in(args)
        on_answer = self.on_answer  # of the call, not of what is set while it is under way
        called_at_s = clock_s() if on_answer is not None else 0.0
        try:
            reply = await script(name)(client or self.client, self.keys, args)
            self.bytes_received += _bytes_in(reply)
            if on_answer is not None:
                on_answer(clock_s() - called_at_s)
            return reply
        except ResponseError as error:
            raise as_refusal(error) from None

    async def now_ms(self) -> int:
        """The time on the crawl's clock (lua/_clock.lua)."""
        seconds, micros = await self.client.time()
        skew_ms = await self.client.hget(keys.meta(self.crawl, self.number), "skew_ms")
        with refusing_damage("skew_ms"):
            return int(seconds) * 1000 + int(micros) // 1000 + int(skew_ms or 0)


def _step_since(answered_s: float, doubt: ClockInDoubt) -> str:
    """By how much the server's clock has stepped, as the next call tells it; nothing if it has not:
    this call was on its way for that long. No more has passed since `before_ms` than since an
    earlier call was sent that had been answered."""
    step_ms = doubt.passed_ms - _ms_since(answered_s)
    return f" {step_ms} {doubt.before_ms}" if step_ms > STEP_MS else ""


def _ms_since(moment_s: float) -> int:
    return max(0, round((clock_s() - moment_s) * 1000))


def _bytes_in(values: Any) -> int:
    """The size of arguments or of a reply, their frame left out; numbers are small."""
    if isinstance(values, list):
        return sum(map(_bytes_in, values))
    return len(values) if isinstance(values, bytes | str) else 0
