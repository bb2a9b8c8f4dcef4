"""How all shards of a crawl stand, for those who only look: one round trip, however many there are.

Commands for all shards go together (on a Redis Cluster, to all of its nodes side by side), so that
a look costs as many calls for one worker, host and shard as for thousands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from redis.exceptions import ResponseError

from crawlproj.frontier import keys
from crawlproj.frontier.readings import as_refusal, read_counts, read_layers, refusing_damage
from crawlproj.frontier.scripts import script
from crawlproj.frontier.wire import in_groups

if TYPE_CHECKING:
    from crawlproj.frontier.frontier import Frontier

HOSTS_LOOKED_AT = 1000
"""On all shards together, about."""

FEWEST_HOSTS = 20
"""On a shard, however many there are."""

SHOWN_COUNTS = ("queued", "delayed", "leased", "done", "dead")


class WorkerFound(NamedTuple):
    """A worker as one shard knows it: by its marked name."""

    name: str
    silent_at_ms: float
    leases: int
    about: bytes


class HostFound(NamedTuple):
    """A host, or a group of hosts (whose name has no scheme), with its record as it is stored."""

    name: str
    packed: bytes
    queued: int


@dataclass(frozen=True)
class Survey:
    """One shard, at one moment by the crawl's clock."""

    now_ms: int
    counts: dict[str, int]
    layers: list[int]
    hosts: int
    workers: list[WorkerFound]
    some_hosts: list[HostFound]


@dataclass(frozen=True)
class Tick:
    """What a worker's row of stats and its line in the log say of the whole crawl."""

    queued: int = 0
    delayed: int = 0
    leased: int = 0
    done: int = 0
    dead: int = 0
    hosts: int = 0
    workers: int = 0


async def survey(frontier: Frontier, *, with_hosts: bool) -> list[Survey]:
    """All shards of a frontier that is attached; with some hosts of each, if wanted."""
    each = max(FEWEST_HOSTS, HOSTS_LOOKED_AT // len(frontier.shards)) if with_hosts else 0
    text = script("survey").text

    def ask(pipeline: Any) -> None:
        for shard in frontier.shards:
            is_first = int(shard.number == 0)
            pipeline.eval(text, len(shard.keys), *shard.keys, is_first, each)

    return [_read(reply) for reply in await _all_replies(frontier, ask)]


async def tick(frontier: Frontier) -> Tick:
    """Only what is shown at every interval of every worker."""

    def ask(pipeline: Any) -> None:
        pipeline.zcard(keys.workers(frontier.crawl, 0))
        for shard in frontier.shards:
            pipeline.hmget(keys.counts(frontier.crawl, shard.number), SHOWN_COUNTS)
            pipeline.hlen(keys.hosts(frontier.crawl, shard.number))

    with refusing_damage("counts"):
        workers, *replies = await _all_replies(frontier, ask)
        counts, hosts = replies[::2], replies[1::2]
        totals = dict.fromkeys(SHOWN_COUNTS, 0)
        for found in counts:
            for name, value in zip(SHOWN_COUNTS, found, strict=True):
                totals[name] += int(value or 0)
        return Tick(**totals, hosts=sum(map(int, hosts)), workers=int(workers))


async def _all_replies(frontier: Frontier, ask: Callable[[Any], None]) -> list[Any]:
    """The replies to all that is asked; raises what the first error among them means."""
    pipeline = frontier.client.pipeline(transaction=False)
    ask(pipeline)
    replies: list[Any] = await pipeline.execute(raise_on_error=False)
    for reply in replies:
        if isinstance(reply, ResponseError):
            raise as_refusal(reply)
        if isinstance(reply, Exception):
            raise reply
    return replies


def _read(reply: Sequence[Any]) -> Survey:
    now_ms, counts, layers, hosts, workers, some_hosts = reply
    with refusing_damage("counts"):
        found = read_counts(dict(in_groups(counts, 2)))
    with refusing_damage("layers"):
        items = read_layers(dict(in_groups(layers, 2)))
    return Survey(
        now_ms,
        found,
        items,
        hosts,
        [_worker(*one) for one in in_groups(workers, 4)],
        [HostFound(_text(name), packed, urls) for name, packed, urls in in_groups(some_hosts, 3)],
    )


def _worker(name: bytes, silent_at_ms: bytes, leases: int, about: bytes) -> WorkerFound:
    return WorkerFound(_text(name), float(silent_at_ms), leases, about)


def _text(name: bytes) -> str:
    return name.decode(errors="replace")
