"""What a crawl of a given size needs: Redis memory, shards, workers, days, disk.

Pure arithmetic on what `benchmarks/` has measured (measured.json, written by
`python -m benchmarks.page`): a page's cost in a worker and in Redis, the bytes of a queued URL,
of a host, of a URL in the seen filter, and of a page's rows on disk.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from importlib import resources
from typing import Any

from crawlproj.errors import ConfigError
from crawlproj.frontier.bloom import Geometry
from crawlproj.plural import counted

DAY_S = 86_400
GB = 1e9
REDIS_BUSY = 0.7
"""Share of a Redis server's one core that the crawl may take: above it, calls begin to queue."""
SHORTEST_S = 0.001
SPARE_MEMORY = 1.25
"""For fragmentation, client buffers, and the copy-on-write of a snapshot."""


@dataclass(frozen=True)
class Measured:
    """One machine's figures; how they were obtained is in docs/performance.md."""

    bytes_per_url: float
    bytes_per_url_with_referer: float
    bytes_per_host: float
    worker_ms_per_page: float
    """Apart from what grows with the page's size."""
    worker_ms_per_kb: float
    redis_ms_per_page: float
    row_bytes_per_page: float

    @classmethod
    def shipped(cls) -> Measured:
        """What this version of the package was measured at."""
        text = resources.files("crawlproj").joinpath("measured.json").read_text("utf-8")
        found = json.loads(text)
        return cls(**{field.name: float(found[field.name]) for field in fields(cls)})


@dataclass(frozen=True)
class Demand:
    """The crawl to plan. `found` counts all URLs that it will know of, fetched or not. Without
    `workers`, as many are planned as it takes to be done in `days`."""

    pages: int
    hosts: int
    delay_s: float = 1.0
    response_s: float = 0.5
    page_kb: float = 50.0
    connections: int = 64
    found: int = 0
    days: float = 30.0
    workers: int = 0
    redis_gb: float = 16.0
    keeps_referer: bool = True
    error_rate: float = 0.001

    def __post_init__(self) -> None:
        for name in ("pages", "hosts", "page_kb", "days", "redis_gb"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"--{name.replace('_', '-')}: give a number above 0")
        if self.hosts > self.pages:
            raise ConfigError(f"--hosts {self.hosts:,}: there are no more hosts than pages")
        if self.found and self.found < self.pages:
            raise ConfigError(f"--found {self.found:,}: give at least the {self.pages:,} pages")


@dataclass(frozen=True)
class Needs:
    """What it takes, and what keeps it from being quicker: `limit` is workers or politeness."""

    days: float
    limit: str
    workers: int
    pages_per_s: float
    mbit_per_s: float
    shards: int
    redis_gb: float
    redis_gb_per_shard: float
    redis_cores_busy: float
    queued_at_most: int
    seen_gb: float
    disk_gb: float


def needs(demand: Demand, measured: Measured) -> Needs:
    """The crawl as it would go on machines like the measured one."""
    polite_rate = demand.hosts / max(SHORTEST_S, demand.delay_s + demand.response_s)
    rate, workers = _rate(demand, _worker_rate(demand, measured), polite_rate)
    found = demand.found or 2 * demand.pages
    queued = max(found - demand.pages, found // 2)
    seen_bytes = _seen_bytes(found, demand.error_rate)
    each = measured.bytes_per_url_with_referer if demand.keeps_referer else measured.bytes_per_url
    data_bytes = queued * each + demand.hosts * measured.bytes_per_host + seen_bytes
    redis_bytes = SPARE_MEMORY * data_bytes
    redis_busy = rate * measured.redis_ms_per_page / 1000
    shards = max(
        math.ceil(redis_busy / REDIS_BUSY),
        math.ceil(redis_bytes / (demand.redis_gb * GB)),
        _bitmaps(found, demand.error_rate),
    )
    return Needs(
        days=demand.pages / rate / DAY_S,
        limit="politeness" if rate >= polite_rate else "workers",
        workers=workers,
        pages_per_s=rate,
        mbit_per_s=rate * demand.page_kb * 8 / 1000,
        shards=shards,
        redis_gb=redis_bytes / GB,
        redis_gb_per_shard=redis_bytes / GB / shards,
        redis_cores_busy=redis_busy,
        queued_at_most=queued,
        seen_gb=seen_bytes / GB,
        disk_gb=demand.pages * measured.row_bytes_per_page / GB,
    )


def _worker_rate(demand: Demand, measured: Measured) -> float:
    """Pages a second of one worker: what its core can do, or what its connections wait for."""
    page_ms = measured.worker_ms_per_page + measured.worker_ms_per_kb * demand.page_kb
    return min(1000 / page_ms, demand.connections / max(SHORTEST_S, demand.response_s))


def _rate(demand: Demand, worker_rate: float, polite_rate: float) -> tuple[float, int]:
    """Pages a second, and the workers that it takes to be done in time. Workers are whole ones, and
    go at full speed also if there is time left."""
    needed = min(demand.pages / (demand.days * DAY_S), polite_rate)
    workers = demand.workers or max(1, math.ceil(needed / worker_rate))
    return min(workers * worker_rate, polite_rate), workers


def _bitmaps(found: int, error_rate: float) -> int:
    """Shards that it takes for each one's first layer to fit a Redis string."""
    shards = 1
    while not _fits(math.ceil(found / shards), error_rate):
        shards *= 2
    return shards


def _fits(capacity: int, error_rate: float) -> bool:
    try:
        Geometry(capacity, error_rate)
    except ConfigError:
        return False
    return True


def _seen_bytes(found: int, error_rate: float) -> float:
    """The seen filter, sized for so many URLs."""
    # Half of the error is the first layer's; see Geometry.
    return found * -math.log(error_rate / 2) / math.log(2) ** 2 / 8


_TIMES = (("days", DAY_S), ("hours", 3600), ("minutes", 60), ("seconds", 1))
_SIZES = (("GB", 1.0), ("MB", 1e-3), ("kB", 1e-6))


def as_text(demand: Demand, made: Needs) -> str:
    """For people."""
    found = demand.found or 2 * demand.pages
    took, time_unit = _scaled(made.days * DAY_S, _TIMES, least=2)
    memory, memory_unit = _scaled(made.redis_gb, _SIZES)
    a_server, seen = _size(made.redis_gb_per_shard), _size(made.seen_gb)
    disk, disk_unit = _scaled(made.disk_gb, _SIZES)
    lines = (
        ("time", f"{took:,.1f}", f"{time_unit}, limited by {made.limit}"),
        ("workers", f"{made.workers:,}", f"processes of {demand.connections} connections each"),
        ("speed", _rounded(made.pages_per_s), f"pages/s, {_rounded(made.mbit_per_s)} Mbit/s"),
        ("shards", f"{made.shards:,}", f"Redis servers (FRONTIER_SHARDS={made.shards})"),
        ("memory", f"{memory:,.1f}", f"{memory_unit} in all, {a_server} a server"),
        ("", "", f"{counted(made.queued_at_most, 'URL')} queued at most, of {_hosts(demand)},"),
        ("", "", f"{seen} for {found:,} seen (SEEN_CAPACITY={found})"),
        ("Redis", _rounded(made.redis_cores_busy), "cores busy, all servers together"),
        ("disk", f"{disk:,.1f}", f"{disk_unit} of rows, CSV and JSON lines"),
    )
    head = f"{counted(demand.pages, 'page')} of {_hosts(demand)}, a pause of {demand.delay_s:g} s"
    rows = (f"  {name:<8} {value:>12}  {unit}" for name, value, unit in lines)
    return "\n".join([head, "", *rows])


def _hosts(demand: Demand) -> str:
    return counted(demand.hosts, "host")


def _size(gigabytes: float) -> str:
    value, unit = _scaled(gigabytes, _SIZES)
    return f"{value:,.1f} {unit}"


def _scaled(
    value: float, units: Sequence[tuple[str, float]], least: float = 1
) -> tuple[float, str]:
    """The value in the largest unit of which there are at least so many, else in the last."""
    for name, worth in units:
        if value >= least * worth:
            return value / worth, name
    name, worth = units[-1]
    return value / worth, name


def _rounded(value: float) -> str:
    """Two digits that mean something."""
    if value < 0.01:
        return "under 0.01"
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def as_json(made: Needs) -> dict[str, Any]:
    """For scripts."""
    return vars(made)
