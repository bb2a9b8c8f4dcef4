"""What a worker asks of its surroundings, and what it tells them.

Each method does nothing unless it is overridden: a crawl overrides all of them (assembly.py), a
test what it looks at. What becomes of an ended request must be said by everybody.
"""

from __future__ import annotations

from typing import Any

from crawlproj.frontier.messages import Lease, Push, Settlement, State


class Surroundings:
    """Whoever runs a worker."""

    async def verdict(self, ended: Any) -> tuple[int, Settlement]:
        """What becomes of a request that has ended, and in which shard its lease is."""
        raise NotImplementedError

    # Scrapy's engine

    def wake(self) -> None:
        """There may be something to fetch."""

    def break_off(self) -> None:
        """End what is under way: others may soon begin with it."""

    def give_up(self, error: Exception) -> None:
        """A loop of the worker has failed: it can do no more."""

    # Rows

    def flush_rows(self) -> None:
        """Have every row on disk, or raise OSError; called in a thread."""

    def new_items(self) -> dict[str, int]:
        """Items of the spider's own classes that have come since this was last asked."""
        return {}

    # The crawl

    async def obey(self, state: State) -> None:
        """The crawl is in this state, and the worker has leased nothing or may not go on."""

    async def prepare(self, leases: list[Lease]) -> None:
        """These leases have come: learn what must be known before they are begun."""

    async def share(self) -> None:
        """Tell other workers what they must know before they are given what is pushed next."""

    async def report_lost(self, dead: list[tuple[str, float, bytes]]) -> None:
        """These URLs were lost with their workers too often."""

    def heed_holds(self, held_ms: dict[str, int]) -> None:
        """These hosts are to be left alone for so long."""

    def scope_names(self, seed: Push) -> set[str]:
        """Hosts or domains that a seed brings into scope."""
        return set()

    def awaits_seeds(self) -> bool:
        """Whether more seeds are about to come, for which a page budget has to last."""
        return False

    def about(self) -> dict[str, Any]:
        """What this worker tells about itself with each heartbeat."""
        return {}
