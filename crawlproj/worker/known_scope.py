"""The hosts or domains that seeds brought into scope, as one worker knows them.

The frontier keeps their names in the order in which they came, so that a worker reads only what is
new; when another server keeps it, names may be gone, and all are read again.
"""

from __future__ import annotations

from crawlproj.frontier.frontier import Frontier


class KnownScope:
    """Keeps a set of names up to date."""

    def __init__(self, frontier: Frontier, names: set[str]) -> None:
        self._frontier = frontier
        self._names = names
        self.size = 0
        """How many the frontier had when it was last read."""

    async def learn_new(self) -> None:
        position = self.size
        new = await self._frontier.scope_since(position)
        self._names.update(new)
        if self.size == position:  # else it was learnt anew meanwhile
            self.size += len(new)

    async def learn_anew(self) -> None:
        names = await self._frontier.scope_since(0)
        self.size = len(names)
        self._names.intersection_update(names)
        self._names.update(names)
