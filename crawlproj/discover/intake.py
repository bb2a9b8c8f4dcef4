"""What discovering links needs of the worker that it is for (worker/exchange.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from crawlproj.discover.known_links import Memo
    from crawlproj.frontier.frontier import Frontier
    from crawlproj.frontier.messages import Push


class Intake(Protocol):
    """Takes in URLs for the frontier, and knows many that it has already."""

    frontier: Frontier
    memo: Memo

    @property
    def scope(self) -> set[str]:
        """Hosts or domains that seeds brought into scope."""

    def seen(self, host: str, key: str) -> bool:
        """True if the key is known to have been taken in."""

    def count_seen(self, links: int) -> None:
        """So many links were recognised without asking."""

    def push(self, item: Push) -> None:
        """Collect a URL for the next push."""
