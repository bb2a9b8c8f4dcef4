"""What the frontier knows each worker process by.

A name that was given (`CRAWL_WORKER_ID`) may have been that of a process before this one, or, by
mistake, be that of another that works now. The frontier therefore knows every process by its name
and a mark of its own: it never takes one for the other.
"""

from __future__ import annotations

import json
import secrets
from typing import Any, NamedTuple

from crawlproj.frontier.shard import Shard

MARK = "~"


class Namesake(NamedTuple):
    """Another worker of the same name, by its marked one, with what it tells of itself and for how
    long it still counts as alive."""

    worker: str
    about: bytes
    left_ms: float


def marked(name: str) -> str:
    """What the frontier knows this process by."""
    return f"{name}{MARK}{secrets.token_hex(4)}"


def plain(worker: str) -> str:
    """The worker's name as users know it."""
    name, _, _ = worker.rpartition(MARK)
    return name or worker


async def claim(
    shard: Shard, worker: str, timeout_ms: int, about: dict[str, Any]
) -> list[Namesake]:
    """Have the worker counted as alive, unless another of its name is; returns all that have it."""
    args = [worker, timeout_ms, json.dumps(about), plain(worker) + MARK, MARK]
    return [
        Namesake(other.decode(errors="replace"), told or b"", left_ms)
        for other, told, left_ms in await shard.call("claim_name", args)
    ]
