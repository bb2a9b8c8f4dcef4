"""Links that a worker has met often enough to know them by their text."""

from __future__ import annotations


class Memo:
    """Bounded, forgetful, and as good as the server that has seen the links: cleared when that
    may have changed."""

    MOST = 100_000

    def __init__(self) -> None:
        self._young: set[str] = set()
        self._old: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._young or name in self._old

    def add(self, name: str) -> None:
        """Remember a link; when there are too many, the older half is forgotten."""
        if name:
            self._young.add(name)
        if len(self._young) > self.MOST // 2:
            self._young, self._old = set(), self._young

    def clear(self) -> None:
        """Forget everything."""
        self._young, self._old = set(), set()
