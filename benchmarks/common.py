"""What all benchmarks share: the machine, its cores, a Redis, medians, a table and a JSON file."""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import statistics
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import redis

from tests.servers.redis import RedisServer

PROJECT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"

Row: TypeAlias = dict[str, Any]


def end_cleanly() -> None:
    """Let SIGTERM end this process as an exception does, so that whatever it started ends too."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


# The machine


def cores() -> tuple[set[int], set[int]]:
    """The cores of the servers (origin and Redis) and of the crawlers: apart where there are two.

    As they were at the start: a benchmark that pins itself later sees fewer.
    """
    return _CORES


def _shared_out() -> tuple[set[int], set[int]]:
    if not hasattr(os, "sched_getaffinity"):
        return set(), set()
    first, *others = sorted(os.sched_getaffinity(0))
    return {first}, set(others) or {first}


_CORES = _shared_out()


def pin(pid: int, to: set[int]) -> None:
    """Keep a process to these cores, where the system can."""
    if to:
        os.sched_setaffinity(pid, to)


def machine(server: redis.Redis) -> Row:
    """What the figures were measured on."""
    info: Any = server.info("server")
    servers, crawlers = cores()
    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "python": platform.python_version(),
        "redis": info.get("valkey_version") or info["redis_version"],
        "pinned": f"origin and Redis to {servers}, crawlers to {crawlers}" if servers else "no",
        "load_before": os.getloadavg()[0],
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if "model name" in line), "")


# Redis


@contextmanager
def redis_server() -> Iterator[tuple[RedisServer, redis.Redis]]:
    """A Redis on the servers' core, with a client; nothing is kept on disk."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-redis-") as folder,
        RedisServer(Path(folder)) as server,
        server.client() as client,
    ):
        pin(server.pid, cores()[0])
        yield server, client


def redis_cpu_s(client: redis.Redis) -> float:
    """User and system time that the Redis process has used so far."""
    info: Any = client.info("cpu")
    return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])


def redis_calls(client: redis.Redis) -> int:
    """Commands that clients have sent so far. Where scripts are called, those: what is called
    inside of them is counted by Redis as well, and cannot be told apart."""
    stats: Any = client.info("commandstats")
    calls = {name.removeprefix("cmdstat_"): one["calls"] for name, one in stats.items()}
    scripts = calls.get("eval", 0) + calls.get("evalsha", 0)
    return int(scripts or sum(calls.values()))


def empty(client: redis.Redis) -> None:
    """Forget everything, at once: a server that frees its memory later would spoil what follows."""
    client.execute_command("FLUSHALL", "SYNC")


def memory_bytes(client: redis.Redis) -> int:
    """What the data set takes in Redis."""
    info: Any = client.info("memory")
    return int(info["used_memory"])


# Results


def medians(rounds: Iterable[Row], *by: str) -> list[Row]:
    """One row for each different `by`, in the order of the first round: medians of its numbers."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rounds:
        groups.setdefault(tuple(row[name] for name in by), []).append(row)
    return [_median(rows) for rows in groups.values()]


def _median(rows: Sequence[Row]) -> Row:
    return {name: _middle([row[name] for row in rows]) for name in rows[0]}


def _middle(values: Sequence[Any]) -> Any:
    found = [value for value in values if _is_number(value)]
    return statistics.median(found) if found else values[0]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def rounded(row: Mapping[str, Any]) -> Row:
    """Three digits and more before the point need none after it."""
    return {name: _rounded(value) for name, value in row.items()}


def _rounded(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    if value.is_integer():
        return int(value)
    size = abs(value)
    return round(value) if size >= 100 else round(value, 1 if size >= 10 else 2 if size >= 1 else 4)


def publish(
    name: str, about: Mapping[str, Any], options: Mapping[str, Any], rows: Sequence[Row]
) -> None:
    """Print the table and write it, with the machine and the command, to results/NAME.json."""
    shown = [rounded(row) for row in rows]
    print_table(shown)
    print("; ".join(f"{key}: {value}" for key, value in rounded(about).items()))
    result = {
        "benchmark": name,
        "command": " ".join(["python -m", f"benchmarks.{name}", *sys.argv[1:]]),
        "machine": rounded(about),
        "options": rounded(options),
        "rows": shown,
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"written to {path.relative_to(PROJECT)}")


def print_table(rows: Sequence[Row]) -> None:
    """Columns as wide as they need; numbers to the right."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[shown(row.get(name)) for name in names] for row in rows]
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    for line in (names, ["-" * width for width in widths], *cells):
        print("  ".join(_aligned(cell, width) for cell, width in zip(line, widths, strict=True)))


def shown(value: Any) -> str:
    """A cell as people read it."""
    if value is None:
        return "–"
    return f"{value:,}" if _is_number(value) else str(value)


def _aligned(cell: str, width: int) -> str:
    is_number = cell[:1].isdigit() or cell == "–"
    return cell.rjust(width) if is_number else cell.ljust(width)


def say(text: str) -> None:
    """Tell how far the benchmark is, beside its table."""
    print(text, file=sys.stderr, flush=True)


def numbers(text: str) -> list[int]:
    """`1,2,4` or `100_000,1e6` on the command line."""
    try:
        return [int(float(part.replace("_", ""))) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: give whole numbers, such as 10,1e6") from None
