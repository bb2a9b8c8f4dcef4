"""Writes docs/performance.md from results/*.json: each table with its command and machine."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Sequence

from benchmarks.common import PROJECT, RESULTS, Row, shown

PAGE = PROJECT / "docs" / "performance.md"
BENCHMARKS = ("peers", "frontier", "seen", "polite", "scaling")
BAR = "█"
BAR_WIDTH = 40
PLOTTED = {
    "peers": ("crawler", "cpu_ms_per_page"),
    "seen": ("urls", "filter_mb"),
    "polite": ("hosts", "share"),
    "scaling": ("setup", "pages_per_s"),
}
"""Benchmark -> what its bars are named by, and what they show."""

HEAD = """# Performance

Made by `python -m benchmarks.page` from `benchmarks/results/`. Figures are medians of rounds
in which the contestants took turns on one machine; compare figures of one table, not of two. CPU
is user and system time of the crawler's process between its first and its last request, as the
origin logged them; Redis's own is beside it.
"""


def section(name: str) -> Iterator[str]:
    yield f"## {name}"
    yield (importlib.import_module(f"benchmarks.{name}").__doc__ or "").strip()
    path = RESULTS / f"{name}.json"
    if not path.exists():
        yield f"Not measured yet: `python -m benchmarks.{name}`."
        return
    result = json.loads(path.read_text(encoding="utf-8"))
    yield f"    {result['command']}"
    yield table(result["rows"])
    if name in PLOTTED:
        yield bars(result["rows"], *PLOTTED[name])
    yield "; ".join(f"{key}: {value}" for key, value in result["machine"].items())


def table(rows: Sequence[Row]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [names, ["---"] * len(names)]
    lines += [[shown(row.get(name)) for name in names] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def bars(rows: Sequence[Row], by: str, what: str) -> str:
    """A plot that needs nothing but a fixed-width font."""
    most = max(row[what] for row in rows) or 1
    labels = [shown(row[by]) for row in rows]
    width = max(map(len, labels))
    lines = [
        f"{label:>{width}} {BAR * max(1, round(BAR_WIDTH * row[what] / most))} {shown(row[what])}"
        for label, row in zip(labels, rows, strict=True)
    ]
    return "\n".join(["```", f"{what} by {by}", *lines, "```"])


def main() -> None:
    parts = [HEAD.strip()]
    for name in BENCHMARKS:
        parts += section(name)
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    print(f"written to {PAGE.relative_to(PROJECT)}")


if __name__ == "__main__":
    main()
