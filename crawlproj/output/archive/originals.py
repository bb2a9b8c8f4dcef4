"""Asks the crawl for payloads that were archived before, from the thread that writes files."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from crawlproj.frontier import payloads
from crawlproj.frontier.frontier import Frontier
from crawlproj.output.archive.records import Original

T = TypeVar("T")

PATIENCE_S = 5.0
"""For an answer; without one a payload is archived again."""

logger = logging.getLogger(__name__)


class SharedOriginals:
    """Those of all workers of a crawl. Not to be asked in the thread of the event loop."""

    def __init__(self, frontier: Frontier, loop: asyncio.AbstractEventLoop) -> None:
        self._frontier, self._loop = frontier, loop

    def find(self, digests: list[bytes]) -> dict[bytes, Original]:
        """Where these payloads were met, as far as is known."""
        found = self._answer(payloads.known(self._frontier.shards, digests)) or {}
        return {digest: Original(url, at_s) for digest, (at_s, url) in found.items()}

    def keep(self, found: dict[bytes, Original]) -> None:
        """Let all workers refer to these, which are on disk."""
        met = {digest: (one.at_s, one.url) for digest, one in found.items()}
        self._answer(payloads.keep(self._frontier.shards, met))

    def _answer(self, question: Coroutine[Any, Any, T]) -> T | None:
        future = asyncio.run_coroutine_threadsafe(question, self._loop)
        try:
            return future.result(PATIENCE_S)
        except (OSError, TimeoutError) as error:
            future.cancel()
            logger.debug("Nothing was said of payloads: %r", error)
            return None
