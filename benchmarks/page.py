"""Writes docs/performance.md with its plots, and what `scrapy plan` goes by, from results/*.json.

Every table has its command and its machine beside it. Nothing here is measured.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import gist, plots
from benchmarks.common import PROJECT, RESULTS, Row, rounded, shown

PAGE = PROJECT / "docs" / "performance.md"
PLOTS = PROJECT / "docs" / "plots"
MEASURED = PROJECT / "crawlproj" / "measured.json"
WATCHING = ("watch", "watched", "drop")
BENCHMARKS = ("peers", "frontier", "seen", "polite", "scaling", "memory", "soak", *WATCHING)

HEAD = """# Performance

Made by `python -m benchmarks.page` from `benchmarks/results/`. Figures are medians of rounds
in which the contestants took turns on one machine; compare figures of one table, not of two. CPU
is user and system time of the crawler's process between its first and its last request, as the
origin logged them; Redis's own is beside it.
"""

Result = dict[str, Any]


def result_of(name: str) -> Result | None:
    path = RESULTS / f"{name}.json"
    found: Result | None = json.loads(path.read_text("utf-8")) if path.exists() else None
    return found


# Plots


def plots_of(name: str, rows: Sequence[Row]) -> dict[str, str]:
    """File name → SVG of what a benchmark found."""
    drawn = {"peers": _peers, "frontier": _frontier, "polite": _polite, "scaling": _scaling}
    return drawn[name](rows) if name in drawn else {}


def _peers(rows: Sequence[Row]) -> dict[str, str]:
    found = {}
    for web in dict.fromkeys(row["web"] for row in rows):
        for name, what in (("cpu_ms_per_page", "CPU ms a page"), ("pages_per_s", "pages a second")):
            of_web = {row["crawler"]: row[name] for row in rows if row["web"] == web}
            file = f"peers-{web}-{name.replace('_', '-')}.svg"
            found[file] = plots.bars(f"{what}, one process, {web} web", of_web)
    return found


def _frontier(rows: Sequence[Row]) -> dict[str, str]:
    ours = [row for row in rows if row["workers"] == 1]
    series = {}
    for hosts in sorted({row["hosts"] for row in ours}):
        points = [
            (row["queued"], row["redis_us_per_lease"]) for row in ours if row["hosts"] == hosts
        ]
        series[f"{hosts:,} hosts"] = sorted(points)
    title = "Redis CPU to lease and settle a URL, µs"
    return {"frontier.svg": plots.lines(title, "URLs queued", series, is_log=True)}


def _polite(rows: Sequence[Row]) -> dict[str, str]:
    series = {"one worker": [(row["hosts"], 100 * row["share"]) for row in rows]}
    title = "% of the rate that a pause of one second allows"
    return {"polite.svg": plots.lines(title, "hosts", series, is_log=True)}


def _scaling(rows: Sequence[Row]) -> dict[str, str]:
    added = [row for row in rows if row["table"] == "workers"]
    series = {
        f"{few} connections each": sorted(
            (row["workers"], row["pages_per_s"]) for row in added if row["concurrency"] == few
        )
        for few in dict.fromkeys(row["concurrency"] for row in added)
    }
    if not series:
        return {}
    title = "pages a second on an origin that takes 100 ms"
    return {"scaling.svg": plots.lines(title, "workers", series)}


# The page


def section(name: str, result: Result | None, plotted: Iterable[str]) -> Iterator[str]:
    yield f"## {name}"
    yield (importlib.import_module(f"benchmarks.{name}").__doc__ or "").strip()
    if result is None:
        yield f"Not measured yet: `python -m benchmarks.{name}`."
        return
    for file in plotted:
        yield f"![{name}](plots/{file})"
    yield f"    {result['command']}"
    for rows in _tables(result["rows"]):
        yield table(rows)
    yield "; ".join(f"{key}: {value}" for key, value in result["machine"].items())


def in_short(results: Iterable[Result]) -> str:
    found = gist.lines({one["benchmark"]: one["rows"] for one in results})
    return "\n".join(["| in short | |", "| --- | --- |", *(f"| {a} | {b} |" for a, b in found)])


def _tables(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Rows of one kind are one table, without the columns that it has no figures for."""
    kinds = dict.fromkeys(row.get("table") or row.get("web") for row in rows)
    for kind in kinds:
        yield [row for row in rows if (row.get("table") or row.get("web")) == kind]


def table(rows: Sequence[Row]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    names = [name for name in names if any(row.get(name) is not None for row in rows)]
    cells = [names, ["---"] * len(names)]
    cells += [[shown(row.get(name)) for name in names] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


# What the planner goes by


def measured() -> Row | None:
    """The constants of operate/capacity.py; nothing while a benchmark for them is missing."""
    peers, frontier = result_of("peers"), result_of("frontier")
    if peers is None or frontier is None:
        return None
    ours = {row.get("web", "made"): row for row in peers["rows"] if row["crawler"] == plots.OURS}
    made, real = ours["made"], ours.get("real", ours["made"])
    more_kb = real["page_kb"] - made["page_kb"]
    more_ms = max(0.0, real["cpu_ms_per_page"] - made["cpu_ms_per_page"])
    per_kb = more_ms / more_kb if more_kb else 0.0
    queues = [row for row in frontier["rows"] if row["workers"] == 1]
    few, many = (_by_hosts(queues, pick) for pick in (min, max))
    per_host = (many["bytes"] - few["bytes"]) * many["queued"] / (many["hosts"] - few["hosts"])
    referers = [row["bytes_with_referer"] for row in queues if row["bytes_with_referer"]]
    return rounded(
        {
            "bytes_per_url": few["bytes"],
            "bytes_per_url_with_referer": max(referers[:1]),
            "bytes_per_host": per_host,
            "worker_ms_per_page": max(0.0, made["cpu_ms_per_page"] - per_kb * made["page_kb"]),
            "worker_ms_per_kb": per_kb,
            "redis_ms_per_page": made["redis_cpu_ms_per_page"],
            "row_bytes_per_page": 2 * made["bytes_per_row"],
        }
    )


def _by_hosts(rows: Sequence[Row], pick: Any) -> Row:
    """Of the queues of one length over different numbers of hosts, that over the least or most."""
    lengths = [row["queued"] for row in rows]
    usual = max(set(lengths), key=lambda length: (lengths.count(length), length))
    row: Row = pick((row for row in rows if row["queued"] == usual), key=lambda row: row["hosts"])
    return row


def files() -> dict[Path, str]:
    """All that is made from the results, and where it belongs."""
    results = {name: result_of(name) for name in BENCHMARKS}
    parts, made = [HEAD.strip(), in_short(one for one in results.values() if one)], {}
    for name, result in results.items():
        drawn = plots_of(name, result["rows"]) if result else {}
        made |= {PLOTS / file: svg for file, svg in drawn.items()}
        parts += section(name, result, drawn)
    made[PAGE] = "\n\n".join(parts) + "\n"
    if constants := measured():
        made[MEASURED] = json.dumps(constants, indent=1) + "\n"
    return made


def main() -> None:
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"written to {path.relative_to(PROJECT)}")


if __name__ == "__main__":
    main()
