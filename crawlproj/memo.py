"""Links that a worker has met often enough to know them by their text."""

from __future__ import annotations

MOST = 100_000
LONGEST = 300
"""Characters of a link that is worth remembering: longer ones are rarely met again."""


class Memo:
    """Bounded and forgetful. It is as good as the server that has seen the links: cleared when
    that may have changed."""

    def __init__(self) -> None:
        self._young: set[str] = set()
        self._old: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._young or name in self._old

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def add(self, name: str) -> None:
        """Remember a link; when there are too many, the older half is forgotten."""
        if 0 < len(name) <= LONGEST:
            self._young.add(name)
        if len(self._young) >= MOST // 2:
            self._young, self._old = set(), self._young

    def clear(self) -> None:
        """Forget everything."""
        self._young, self._old = set(), set()
