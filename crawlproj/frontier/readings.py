"""What a shard's keys hold, and what its scripts' errors mean, as plain values. Knows no Redis but
its errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from redis.exceptions import ResponseError

from crawlproj.frontier.refusals import (
    ClockInDoubt,
    CrawlDamaged,
    CrawlFinished,
    CrawlReplaced,
    CrawlWiped,
    WorkerDeclaredDead,
)

_REFUSALS: dict[str, type[Exception]] = {
    "WIPED": CrawlWiped,
    "EPOCH": CrawlReplaced,
    "FINISHED": CrawlFinished,
    "UNKNOWN": WorkerDeclaredDead,
    "CLOCK": ClockInDoubt,
}

_STUMBLED = "@user_script"
"""In what Redis says when a script has met something that no script of ours has written."""

MOST_LAYERS = 64
"""Layers of a seen filter that were written by us: each is twice as large as the one before."""


def as_refusal(error: ResponseError) -> Exception:
    """What a script's error says about the crawl; the error itself if it says nothing."""
    code, _, text = str(error).partition(" ")
    if code in _REFUSALS:
        return _REFUSALS[code](text)
    if _STUMBLED in text and not (code.isupper() and code != "WRONGTYPE"):
        return CrawlDamaged(str(error))
    return error


@contextmanager
def refusing_damage(what: str) -> Iterator[None]:
    """Inside, what is read must be what a script has written."""
    try:
        yield
    except (ValueError, RecursionError) as error:
        raise CrawlDamaged(f"{what}: {error}") from None
    except ResponseError as error:
        if not str(error).startswith("WRONGTYPE"):
            raise
        raise CrawlDamaged(f"{what} is of another type") from None


def read_counts(found: Mapping[bytes, bytes]) -> dict[str, int]:
    """The ledger, as COUNTS holds it."""
    return {name.decode(): int(value) for name, value in found.items()}


def read_layers(found: Mapping[bytes, bytes]) -> list[int]:
    """URLs recorded in each open layer of the seen filter, as LAYERS holds them."""
    layers = layer_count(int(found.get(b"open", 1)))
    return [int(found.get(f"items:{layer}".encode(), 0)) for layer in range(layers)]


def layer_count(count: int) -> int:
    """The number of layers, if it can be that of a filter that was written by us."""
    if not 1 <= count <= MOST_LAYERS:
        raise CrawlDamaged(f"{count} layers of the seen filter")
    return count
