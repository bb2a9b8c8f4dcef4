"""What the results come to: a line for each thing that people ask about, for the head of the page.

Nothing is measured here, and a benchmark that has not been run has no line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.common import Row, rounded, shown
from benchmarks.plots import OURS

MADE = "made"
WEBS = {
    MADE: "57 links a page",
    "real": "real documentation",
    "tls-http1": "real documentation over TLS",
    "tls-http2": "real documentation over TLS, HTTP/2",
    "heavy": "240 KB a page",
    "heavy-tls": "240 KB a page over TLS",
}

AT_WORK = 0.5
"""Share of its core that a crawler takes: with less it stood still, and no figure compares."""

Results = Mapping[str, Sequence[Row]]
Line = tuple[str, str]


def lines(results: Results) -> Iterator[Line]:
    """What was asked, and what was found."""
    told = {"peers": _peers, "frontier": _frontier, "seen": _seen, "polite": _polite}
    told |= {"scaling": _scaling, "memory": _memory, "watch": _watch, "watched": _watched}
    told |= {"drop": _drop}
    for name, tell in told.items():
        if rows := results.get(name):
            yield from tell(rows)


def _peers(rows: Sequence[Row]) -> Iterator[Line]:
    for web, about in WEBS.items():
        found = {row["crawler"]: row for row in rows if row["web"] == web}
        if not found:
            continue
        ours = found.pop(OURS)
        beside = [
            f"{_times(ours, row, 'pages_per_s')} {name}"
            for name, row in found.items()
            if row["core_busy"] >= AT_WORK
        ]
        yield (
            f"pages a second of one worker, {about}",
            f"{_n(ours['pages_per_s'])}: " + ", ".join(beside),
        )
        cpu = f"{_n(ours['cpu_ms_per_page'])} ms"
        redis = f"{_n(ours['redis_cpu_ms_per_page'])} ms of Redis's in"
        calls = f"{_n(ours['redis_calls_per_page'])} calls"
        yield f"CPU of a page, {about}", f"{cpu}, and {redis} {calls}"


def _frontier(rows: Sequence[Row]) -> Iterator[Line]:
    ours = [row for row in rows if row["workers"] == 1]
    for what, name in (("push", "push_ratio"), ("lease and settle, one client", "lease_ratio")):
        yield f"{what}, beside scrapy-redis's", _by_hosts(ours, name)
    sizes = _range([row["bytes"] for row in ours if row["hosts"] <= row["queued"] / 100])
    theirs = next(row["bytes"] for row in rows if row["workers"] == "scrapy-redis")
    yield "bytes of a queued URL", f"{sizes}; scrapy-redis's {_n(theirs)}"


def _by_hosts(rows: Sequence[Row], name: str) -> str:
    """Over all lengths of the queue, for each number of hosts."""
    found = []
    for hosts in sorted({row["hosts"] for row in rows}):
        ratios = [row[name] for row in rows if row["hosts"] == hosts]
        found.append(f"{_range(ratios)} × with {_n(hosts)} hosts")
    return ", ".join(found)


def _seen(rows: Sequence[Row]) -> Iterator[Line]:
    sizes = _range([row["smaller_by_percent"] for row in rows])
    wrong = max(row["measured_error"] for row in rows)
    yield "the seen filter beside a set", f"{sizes} % smaller, {_n(100 * wrong)} % wrong at most"


def _polite(rows: Sequence[Row]) -> Iterator[Line]:
    shares = [f"{_n(100 * row['share'])} % with {_n(row['hosts'])} hosts" for row in rows]
    yield "of the rate that politeness allows", ", ".join(shares)


def _scaling(rows: Sequence[Row]) -> Iterator[Line]:
    added = [row for row in rows if row["table"] == "workers" and row["concurrency"] == 4]
    gains = [f"{_n(row['times_one_worker'])} with {row['workers']}" for row in added[1:]]
    if gains:
        yield "times the pages of one worker, 100 ms away", ", ".join(gains)
    for row in rows:
        if row.get("cpu_of_apart"):
            yield (
                f"CPU of a page, {row['workers']} workers on one core",
                f"{_n(row['cpu_of_apart'])} × that of {row['workers']} that share nothing, "
                f"{_n(row['cpu_of_one_worker'])} × that of one",
            )


def _memory(rows: Sequence[Row]) -> Iterator[Line]:
    sizes = [f"{_n(row['worker_mb'])} MB at {_n(row['seen'])} seen URLs" for row in rows]
    yield "memory of a worker", ", ".join(sizes)


def _watch(rows: Sequence[Row]) -> Iterator[Line]:
    looks = [f"{row['look']} {_n(row['large_ms'])} ms" for row in rows if row.get("large_ms")]
    yield "to look at a crawl as large as in `watch`", ", ".join(looks)
    for row in rows:
        if row.get("redis_share"):
            yield f"Redis's time while {row['look']} look", row["redis_share"]


def _watched(rows: Sequence[Row]) -> Iterator[Line]:
    ratio = next(row for row in rows if row["crawl"] == "ratio")
    worker, server = ratio["cpu_ms_per_page"], ratio["redis_cpu_ms_per_page"]
    yield "CPU of a page while watched", f"{worker:.3f} × the worker's, {server:.3f} × Redis's"


def _drop(rows: Sequence[Row]) -> Iterator[Line]:
    longest_ms = max(row["longest_ms"] for row in rows)
    most = max(rows, key=lambda row: row["seconds"])
    what = f"to delete {_n(most['urls'])} of {_n(most['queued'])} queued URLs by a pattern"
    yield what, f"{_n(most['seconds'])} s, in calls of at most {_n(longest_ms)} ms"


def _times(ours: Row, theirs: Row, name: str) -> str:
    return f"{_n(ours[name] / theirs[name])} ×"


def _range(values: Sequence[float]) -> str:
    low, high = _n(min(values)), _n(max(values))
    return low if low == high else f"{low} to {high}"


def _n(value: Any) -> str:
    return shown(rounded({"": float(value)})[""])
