"""Numbers in sentences: `1 row`, `2,000 rows`. Pure."""

from __future__ import annotations

_IRREGULAR = {"try": "tries", "is": "are", "it": "them"}


def plural(count: int, word: str) -> str:
    """The word as it stands after such a number."""
    return word if count == 1 else _IRREGULAR.get(word, f"{word}s")


def counted(count: int, noun: str) -> str:
    """The number, with thousands separated, and the noun."""
    return f"{count:,} {plural(count, noun)}"
