"""How a crawl stands, read from the frontier: for `scrapy status`, progress lines and summaries."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from crawlproj.frontier import keys
from crawlproj.frontier.frontier import UNSETTLED, Frontier
from crawlproj.frontier.hosts import read_host
from crawlproj.items import utc_timestamp
from crawlproj.operate import pattern_release
from crawlproj.output import summary
from crawlproj.server.memory import Memory, memory_of
from crawlproj.worker.identity import plain, read_about

SHOWN_HOSTS = 5
MOST_HOSTS = 20_000
LEDGER = ("discovered", *UNSETTLED, "done", "dead")
_FILTERED, _DEAD, _STATUS, _ITEMS = "filtered:", "dead:", "status:", "items:"


async def read(frontier: Frontier) -> dict[str, Any]:
    """The ledger, workers, hosts and the filter's health of the crawl that is there."""
    meta = await frontier.attach()
    if not meta:
        return _nothing(frontier.crawl)
    counts = await frontier.counts()
    ledger = {name: counts.get(name, 0) for name in LEDGER}
    filtered = _named(counts, _FILTERED)
    settled = sum(ledger[name] for name in LEDGER[1:]) + sum(filtered.values())
    workers = await _workers(frontier)
    state = _state(meta["state"], ledger["discovered"], workers)
    return {
        "crawl": frontier.crawl,
        "epoch": meta["epoch"],
        "state": state,
        **ledger,
        "filtered": filtered,
        "duplicates": counts.get("duplicates", 0),
        "balance": ledger["discovered"] - settled,
        "hosts": await _host_count(frontier),
        "workers": workers,
        "memory": _memory(await memory_of(frontier.client), workers),
        "crew": list(dict.fromkeys(map(plain, meta.get("crew", "").split()))),
        "seen": await _seen(frontier, counts),
        "reclaimed": counts.get("reclaimed", 0),
        "late": counts.get("late", 0),
        "corrupt": counts.get("corrupt", 0),
        "bytes": counts.get("bytes", 0),
        "statuses": _named(counts, _STATUS),
        "reasons": _named(counts, _DEAD),
        "items": _named(counts, _ITEMS),
        "started_at": _time(meta.get("started_ms")),
        "finished_at": _time(meta.get("finished_ms")) if state in ("finished", "stopped") else None,
        "plan": json.loads(meta["plan"]),
    }


async def read_all(frontier: Frontier) -> dict[str, Any]:
    """The same for who asks once: with the URL patterns that are set aside, and notable hosts."""
    now = await read(frontier)
    patterns = await pattern_release.rows(frontier, await pattern_release.find(frontier))
    return {**now, "patterns": patterns, **await notable_hosts(frontier)}


async def notable_hosts(frontier: Frontier) -> dict[str, list[dict[str, Any]]]:
    """The busiest hosts by pages, and the slowest: those that fail or are left alone. Of a
    crawl with very many hosts, as far as a look at some thousands shows."""
    hosts = [host async for host in _some_hosts(frontier)]
    troubled = [host for host in hosts if host["failures"] or host["held"]]
    return {
        "busiest": sorted(hosts, key=lambda host: -host["pages"])[:SHOWN_HOSTS],
        "slowest": sorted(troubled, key=lambda host: -host["failures"])[:SHOWN_HOSTS],
    }


async def _some_hosts(frontier: Frontier) -> AsyncIterator[dict[str, Any]]:
    looked_at = 0
    for shard in frontier.shards:
        key = keys.hosts(frontier.crawl, shard.number)
        async for name, packed in frontier.client.hscan_iter(key, count=1000):
            looked_at += 1
            if looked_at > MOST_HOSTS:
                return
            with suppress(Exception):  # a damaged record is the scripts' to mend
                host = read_host(packed)
                yield {
                    "host": name.decode(),
                    "pages": host.pages,
                    "out": host.out,
                    "failures": host.failures,
                    "held": host.hold_ms is not None,
                }


def _state(state: str, discovered: int, workers: list[dict[str, Any]]) -> str:
    """As users see it: a crawl that nobody works on has stopped, however that came about."""
    if not discovered:
        return "empty"
    is_manned = any(worker["alive"] for worker in workers)
    return "stopped" if state in ("running", "stopping") and not is_manned else state


async def is_last_word(frontier: Frontier, status: dict[str, Any]) -> bool:
    """True for one of the workers that leave a crawl: the first to see that it has ended, or who
    leaves nobody behind at it."""
    if status["state"] not in ("finished", "stopped"):
        return False
    meta = keys.meta(frontier.crawl, 0)
    ended_ms = await frontier.client.hget(meta, "finished_ms")
    if status["state"] == "stopped" or not ended_ms:
        return True
    field = f"summed_up:{ended_ms.decode()}"
    return bool(await frontier.client.hsetnx(meta, field, frontier.worker))


def sum_up(status: dict[str, Any]) -> dict[str, Any]:
    """The summary of a crawl that stands so."""
    return summary.build(
        status,
        started_at=status["started_at"],
        finished_at=status["finished_at"] or utc_timestamp(),
        bytes_fetched=status["bytes"],
        statuses=status["statuses"],
        workers=status["crew"],
        reasons=status["reasons"],
        items=status["items"],
    )


def _nothing(crawl: str) -> dict[str, Any]:
    return {
        "crawl": crawl,
        "epoch": None,
        "state": "empty",
        **dict.fromkeys(LEDGER, 0),
        "filtered": {},
        "duplicates": 0,
        "balance": 0,
        "hosts": 0,
        "items": {},
        "workers": [],
        "memory": _memory(Memory(), []),
        "crew": [],
        "seen": {"capacity": 0, "items": 0, "expected_fp": 0.0, "measured_fp": None},
    }


def _named(counts: dict[str, int], prefix: str) -> dict[str, int]:
    return {
        name.removeprefix(prefix): value
        for name, value in sorted(counts.items())
        if name.startswith(prefix) and value
    }


async def _host_count(frontier: Frontier) -> int:
    total = 0
    for shard in frontier.shards:
        total += await frontier.client.hlen(keys.hosts(frontier.crawl, shard.number))
    return total


async def _workers(frontier: Frontier) -> list[dict[str, Any]]:
    crawl, client = frontier.crawl, frontier.client
    silent_at_ms = dict(await client.zrange(keys.workers(crawl, 0), 0, -1, withscores=True))
    now_ms = await frontier.shards[0].now_ms()
    workers = []
    for name, about in sorted((await client.hgetall(keys.about(crawl, 0))).items()):
        held = 0
        for shard in frontier.shards:
            held += await client.hlen(keys.leased_prefix(crawl, shard.number).encode() + name)
        alive = silent_at_ms.get(name, 0) > now_ms
        shown = plain(name.decode(errors="replace"))
        workers.append({**read_about(about), "name": shown, "leased": held, "alive": alive})
    return workers


def _memory(memory: Memory, workers: list[dict[str, Any]]) -> dict[str, Any]:
    """Redis's memory, and the links that wait in workers for room there."""
    waiting = sum(int(worker.get("waiting") or 0) for worker in workers)
    return {**memory._asdict(), "share": round(memory.share, 4), "waiting": waiting}


async def _seen(frontier: Frontier, counts: dict[str, int]) -> dict[str, Any]:
    items, expected = await frontier.expected_error()
    audited = counts.get("audit_new", 0)
    geometry = frontier.shards[0].geometry
    capacity = sum(geometry.layer_capacity(n) for layers in items for n in range(len(layers)))
    return {
        "capacity": capacity,
        "items": sum(sum(layers) for layers in items),
        "expected_fp": expected,
        "measured_fp": counts.get("audit_false", 0) / audited if audited else None,
        "audited": audited,
    }


def _time(epoch_ms: str | None) -> str | None:
    with suppress(ValueError, OverflowError, OSError):
        return utc_timestamp(int(epoch_ms) / 1000) if epoch_ms else None
    return None
