"""A worker that hands in a page by the real code, and may die on the way, between two scripts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pytest

from crawlproj.frontier.clock import clock_s
from crawlproj.frontier.messages import Lease, Push, Settlement
from crawlproj.frontier.outcomes import Attempt
from crawlproj.frontier.scripts import script
from crawlproj.worker import heartbeat
from crawlproj.worker.exchange import Worker
from crawlproj.worker.hooks import Hooks

Death = Literal["push", "settle"] | None
"""The script that the worker does not live to call."""


class Died(Exception):
    """The worker's process is gone."""


class Mortal:
    """A client that runs everything up to a certain script."""

    def __init__(self, client: Any, dies_before: Death) -> None:
        self._client = client
        self._fatal = script(dies_before).sha1 if dies_before else ""

    async def evalsha(self, sha1: str, *rest: Any) -> Any:
        if sha1 == self._fatal:
            raise Died
        return await self._client.evalsha(sha1, *rest)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


async def hand_in(
    worker: Worker, links: list[Push], settlement: Settlement, dies_before: Death
) -> None:
    """What becomes of a page that has been fetched: its links, then its end; raises Died."""
    [shard] = worker.frontier.shards
    client, shard.client = shard.client, Mortal(shard.client, dies_before)
    try:
        worker.begun = 1
        for link in links:
            worker.push(link)
        worker.end(judged(settlement))
        await worker.flush()
    finally:
        shard.client = client


@dataclass(slots=True)
class JudgedAttempt(Attempt):
    """An attempt whose settlement is known."""

    settlement: Settlement | None = None


def judged(settlement: Settlement) -> Attempt:
    """An attempt that ends with this settlement, where a worker has the hooks `Judged`. It was
    begun before all links, and so answers for all of them."""
    return JudgedAttempt(Lease(0, settlement.token, "http://a", 0, b""), settlement=settlement)


class Judged(Hooks):
    """Hooks that know no settlement but that of an attempt that brings it."""

    async def judge(self, ended: Attempt) -> tuple[int, Settlement]:
        assert isinstance(ended, JudgedAttempt)
        assert ended.settlement is not None
        return 0, ended.settlement


def let_pass(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let a worker believe that so much time has passed since it was made."""
    monkeypatch.setattr(heartbeat, "clock_s", lambda: clock_s() + seconds)
