"""What a worker calls at the crawl that it works for: to ask, and to let it know.

Each method does nothing unless it is overridden: a crawl overrides all of them (crawl_hooks.py), a
test those that it looks at. `judge` must be overridden by all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from crawlproj.frontier.messages import Lease, Lost, Push, Settlement, State
from crawlproj.frontier.outcomes import Attempt


class Store(Protocol):
    """Where pages are kept by URL (output/store/writer.py). Each has a position, in the order in
    which they come."""

    on_commit: Callable[[], None]
    on_error: Callable[[Exception], None]

    @property
    def added(self) -> int:
        """The position of the last."""

    @property
    def committed(self) -> int:
        """The position up to which all are kept."""

    @property
    def is_full(self) -> bool:
        """True when so much waits that no more should come."""

    def expect(self, ended: Attempt) -> None:
        """A page has ended, and is taken in later: what is kept of it waits from now on."""

    def take(self, ended: Attempt, settlement: Settlement) -> int:
        """Take in what there is to keep of a page; returns its position, or 0 for nothing."""

    def commit_now(self) -> None:
        """Do not wait for more."""


class Hooks:
    """Whoever runs a worker."""

    store: Store | None = None
    """Where pages must be before they are settled; None: pages are not kept."""

    async def judge(self, ended: Attempt) -> tuple[int, Settlement]:
        """Judge a request that has ended, once: a dead one gets its row of failure. Returns the
        shard of its lease, and how that is settled."""
        raise NotImplementedError

    # Scrapy's engine

    def wake(self) -> None:
        """There may be something to fetch."""

    def break_off(self) -> None:
        """End what is under way: others may soon begin with it."""

    def leave(self) -> None:
        """A user takes this worker out of service; said with each heartbeat from then on."""

    def is_ending(self) -> bool:
        """Whether no more is begun, and only what is under way is waited for."""
        return False

    def give_up(self, error: Exception) -> None:
        """A loop of the worker has failed: it can do no more."""

    # Rows

    async def refused(self, ended: list[tuple[Attempt, int | None]]) -> None:
        """Rows of these requests do not count, since others have settled them before; or, where a
        token is given, those that another worker may have written under it."""

    def flush_rows(self) -> None:
        """Have every row on disk, or raise OSError; called in a thread."""

    def is_behind(self) -> bool:
        """Whether so much waits to be read or written that no more pages should be begun."""
        return False

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

    async def report_lost(self, dead: list[Lost]) -> None:
        """These URLs were lost with their workers too often. Repeated if Redis is away."""

    def update_holds(self, held_ms: dict[str, int]) -> None:
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
