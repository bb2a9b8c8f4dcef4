"""The summary of a crawl: totals, for scripts (summary.json) and for people (summary.txt).

Pure but for `write`: what is summed up comes in as plain values, from whoever can read them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from crawlproj.output.whole_file import write_whole
from crawlproj.plural import counted, plural

SUMMARY = "summary.json"
MOST_SHOWN = 8
LABEL_WIDTH = 14
NUMBER_WIDTH = 12
BAR_WIDTH = 20
MOST_LABEL = 40
"""Characters of a reason or the name of a class."""


@dataclass(frozen=True)
class Summary:
    """A crawl summed up. Times are ISO 8601; the duration is the time in which it ran, without
    pauses and stops; the reasons are those of the dead, the items those of a spider's own
    classes. Failed hosts are some of those that gave no page, with their failures in a row."""

    crawl: str
    epoch: str | None
    state: str
    started_at: str | None = None
    finished_at: str | None = None
    duration_s: float = 0.0
    pages_per_s: float = 0.0
    bytes: int = 0
    saved_bytes: int = 0
    discovered: int = 0
    queued: int = 0
    delayed: int = 0
    leased: int = 0
    done: int = 0
    dead: int = 0
    duplicates: int = 0
    reclaimed: int = 0
    late: int = 0
    filtered: Mapping[str, int] = field(default_factory=dict)
    statuses: Mapping[str, int] = field(default_factory=dict)
    hosts: int = 0
    workers: tuple[str, ...] = ()
    reasons: Mapping[str, int] = field(default_factory=dict)
    items: Mapping[str, int] = field(default_factory=dict)
    failed_hosts: Mapping[str, int] = field(default_factory=dict)


def as_json(summary: Summary) -> dict[str, Any]:
    """What summary.json holds: the most frequent of everything first."""
    tables = ("filtered", "statuses", "reasons", "items", "failed_hosts")
    return asdict(summary) | {name: _by_count(getattr(summary, name)) for name in tables}


def _by_count(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))


def to_text(summary: Summary, resume: str = "") -> str:
    """The summary as a person reads it in a terminal; `resume` is what to type to go on with a
    crawl that has no worker any more."""
    state = "was interrupted" if _is_interrupted(summary, resume) else f"is {summary.state}"
    lines = [f"Crawl {summary.crawl} {state}{_go_on(resume)}", "", *_figures(summary)]
    tables = {
        "Items": summary.items,
        "Filtered": summary.filtered,
        "Dead, by reason": summary.reasons,
        "Hosts that gave no page, with failures in a row": summary.failed_hosts,
        "Statuses": summary.statuses,
    }
    shown = {heading: _first(_by_count(counts)) for heading, counts in tables.items() if counts}
    rows = [row for table in shown.values() for row in table]
    label_width = max([LABEL_WIDTH, *(len(label) + 2 for label, _ in rows)])
    number_width = max([NUMBER_WIDTH, *(len(f"{count:,}") for _, count in rows)])
    for heading, table in shown.items():
        lines += ["", heading, *_lines(table, label_width, number_width)]
    return "\n".join(lines) + "\n"


def in_short(summary: Summary, resume: str = "") -> str:
    """The summary in a line, for those who leave while it is told elsewhere, or is not the last."""
    left = summary.queued + summary.delayed + summary.leased
    state = "interrupted" if _is_interrupted(summary, resume) else summary.state
    counts = f"{summary.done:,} done, {summary.dead:,} dead, {left:,} left"
    return f"{state}: {counts}{_go_on(resume)}"


def _is_interrupted(summary: Summary, resume: str) -> bool:
    """Whether it runs as far as Redis knows, and nobody is at work on it."""
    return bool(resume) and summary.state == "running"


def _go_on(resume: str) -> str:
    return f"; {resume} goes on with it" if resume else ""


def _figures(summary: Summary) -> Iterable[str]:
    is_open = {"queued": summary.queued, "delayed": summary.delayed, "leased": summary.leased}
    figures = {
        "pages": f"{summary.done:,} done, {summary.dead:,} dead",
        "speed": f"{summary.pages_per_s:,.1f} pages/s for {duration(summary.duration_s)}",
        "received": size(summary.bytes),
        "unchanged": _unchanged(summary),
        "found": (
            f"{counted(summary.discovered, 'URL')}, "
            f"{counted(summary.duplicates, 'more link')} to {plural(summary.discovered, 'it')}"
        ),
        "filtered": f"{sum(summary.filtered.values()):,}",
        "still open": ", ".join(f"{count:,} {name}" for name, count in is_open.items() if count),
        "taken back": _taken_back(summary),
        "hosts": f"{summary.hosts:,}",
        "workers": f"{len(summary.workers):,}",
        "started": summary.started_at,
        "finished" if summary.state == "finished" else "until": summary.finished_at,
    }
    return [f"  {label:<{LABEL_WIDTH}}{text}" for label, text in figures.items() if text]


def _unchanged(summary: Summary) -> str:
    if not summary.saved_bytes:
        return ""
    pages = counted(summary.statuses.get("304", 0), "page")
    return f"{pages}, {size(summary.saved_bytes)} not transferred"


def _taken_back(summary: Summary) -> str:
    if not summary.reclaimed and not summary.late:
        return ""
    reclaimed = counted(summary.reclaimed, "URL")
    return f"{reclaimed} of silent workers, {counted(summary.late, 'late result')}"


def _first(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """The first of a table, each with its label cut to fit a terminal, and the rest added up."""
    shown = list(counts.items())[:MOST_SHOWN]
    if len(counts) > MOST_SHOWN:
        shown.append((f"{len(counts) - MOST_SHOWN:,} others", sum(counts.values()) - _sum(shown)))
    return [(_cut(label), count) for label, count in shown]


def _cut(label: str) -> str:
    return label if len(label) <= MOST_LABEL else f"{label[: MOST_LABEL - 1]}…"


def _lines(table: list[tuple[str, int]], label_width: int, number_width: int) -> list[str]:
    most = max(1, *(count for _, count in table), 0)
    return [
        f"  {label:<{label_width}}{count:>{number_width},}  "
        f"{'█' * round(BAR_WIDTH * count / most)}".rstrip()
        for label, count in table
    ]


def _sum(entries: Iterable[tuple[str, int]]) -> int:
    return sum(count for _, count in entries)


def duration(seconds: float) -> str:
    """7.3 s, 4 min 05 s, 2 h 03 min, 3 d 04 h."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest_s = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest_s:02} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02} min"
    return f"{hours // 24} d {hours % 24:02} h"


def ago(seconds: float) -> str:
    """12 s ago, 4 min 05 s ago, …"""
    return f"{f'{seconds:.0f} s' if seconds < 59.5 else duration(seconds)} ago"


def size(count: float) -> str:
    """512 B, 1.5 kB, 2.0 MB, …"""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def write(folder: Path, summary: Summary, resume: str = "") -> None:
    """summary.json and summary.txt in `folder`, each whole or not at all. Every worker writes them
    when it ends."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(as_json(summary), indent=2, ensure_ascii=False)
    write_whole(folder / SUMMARY, f"{text}\n")
    write_whole(folder / "summary.txt", to_text(summary, resume))
