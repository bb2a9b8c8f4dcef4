"""The summary of a crawl: totals, for scripts (summary.json) and for people (summary.txt).

Pure but for `write`: what is summed up comes in as plain values, from whoever can read them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

TOTALS = (
    *("discovered", "queued", "delayed", "leased", "done", "dead"),
    *("duplicates", "reclaimed", "late"),
)

MOST_SHOWN = 8
LABEL_WIDTH = 14
BAR_WIDTH = 20


def build(
    ledger: Mapping[str, Any],
    *,
    started_at: str | None = None,
    finished_at: str | None = None,
    bytes_fetched: int = 0,
    statuses: Mapping[str, int] | None = None,
    hosts: Mapping[str, int] | None = None,
    workers: Sequence[str] | None = None,
    reasons: Mapping[str, int] | None = None,
    items: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Sum a crawl up.

    `ledger` is what `scrapy status --json` prints: crawl, epoch, state, the totals, `filtered`
    (reason → count) and, unless they are given here, hosts and workers. `statuses`, `hosts` and
    `reasons` map a name to a count, the reasons being those of the dead; `items` are those of a
    spider's own classes. Times are ISO 8601.
    """
    duration_s = _duration_s(started_at, finished_at)
    done = int(ledger.get("done", 0))
    return {
        "crawl": ledger.get("crawl", ""),
        "epoch": ledger.get("epoch"),
        "state": ledger.get("state", ""),
        "started_at": started_at,
        "finished_at": finished_at,
        "duration_s": duration_s,
        "pages_per_s": round(done / duration_s, 2) if duration_s else 0.0,
        "bytes": bytes_fetched,
        **{name: int(ledger.get(name, 0)) for name in TOTALS},
        "filtered": _by_count(ledger.get("filtered") or {}),
        "statuses": _by_count(statuses or {}),
        "hosts": _by_count(hosts) if hosts is not None else ledger.get("hosts", 0),
        "workers": list(workers if workers is not None else ledger.get("workers") or ()),
        "reasons": _by_count(reasons or {}),
        "items": _by_count(items or {}),
    }


def _duration_s(started_at: str | None, finished_at: str | None) -> float:
    if not started_at or not finished_at:
        return 0.0
    spent = datetime.fromisoformat(finished_at) - datetime.fromisoformat(started_at)
    return round(max(0.0, spent.total_seconds()), 3)


def _by_count(counts: Mapping[str, int]) -> dict[str, int]:
    ordered = sorted(counts.items(), key=lambda entry: (-int(entry[1]), str(entry[0])))
    return {str(name): int(count) for name, count in ordered}


def to_text(summary: Mapping[str, Any]) -> str:
    """The summary as a person reads it in a terminal."""
    lines = [f"Crawl {summary['crawl']} is {summary['state']}", "", *_figures(summary)]
    for title in ("items", "filtered", "reasons", "statuses", "hosts"):
        if isinstance(summary[title], Mapping) and summary[title]:
            heading = {"reasons": "dead, by reason"}.get(title, title)
            lines += ["", heading.capitalize(), *_table(summary[title])]
    return "\n".join(lines) + "\n"


def in_short(summary: Mapping[str, Any]) -> str:
    """The summary in a line, for those who leave while it is told elsewhere, or is not the last."""
    left = sum(summary[name] for name in ("queued", "delayed", "leased"))
    return f"{summary['state']}: {summary['done']:,} done, {summary['dead']:,} dead, {left:,} left"


def _figures(summary: Mapping[str, Any]) -> Iterable[str]:
    open_urls = {name: summary[name] for name in ("queued", "delayed", "leased") if summary[name]}
    hosts = summary["hosts"]
    figures = {
        "pages": f"{summary['done']:,} done, {summary['dead']:,} dead",
        "speed": f"{summary['pages_per_s']:,.1f} pages/s for {duration(summary['duration_s'])}",
        "received": size(summary["bytes"]),
        "found": f"{summary['discovered']:,} URLs, {summary['duplicates']:,} more links to them",
        "filtered": f"{sum(summary['filtered'].values()):,}",
        "still open": ", ".join(f"{count:,} {name}" for name, count in open_urls.items()),
        "taken back": _taken_back(summary),
        "hosts": f"{len(hosts) if isinstance(hosts, Mapping) else hosts:,}",
        "workers": f"{len(summary['workers']):,}",
        "started": summary["started_at"],
        "finished" if summary["state"] == "finished" else "until": summary["finished_at"],
    }
    return [f"  {label:<{LABEL_WIDTH}}{text}" for label, text in figures.items() if text]


def _taken_back(summary: Mapping[str, Any]) -> str:
    if not summary["reclaimed"] and not summary["late"]:
        return ""
    return f"{summary['reclaimed']:,} URLs of silent workers, {summary['late']:,} late results"


def _table(counts: Mapping[str, int]) -> list[str]:
    shown = list(counts.items())[:MOST_SHOWN]
    if len(counts) > MOST_SHOWN:
        shown.append((f"{len(counts) - MOST_SHOWN:,} others", sum(counts.values()) - _sum(shown)))
    label_width = max(LABEL_WIDTH, *(len(name) + 2 for name, _ in shown))
    most = max(1, *(count for _, count in shown), 0)
    return [
        f"  {name:<{label_width}}{count:>12,}  {'█' * round(BAR_WIDTH * count / most)}".rstrip()
        for name, count in shown
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


def size(count: float) -> str:
    """512 B, 1.5 kB, 2.0 MB, …"""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def write(folder: Path, summary: Mapping[str, Any]) -> None:
    """summary.json and summary.txt in `folder`, each whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    as_json = json.dumps(summary, indent=2, ensure_ascii=False) + "\n"
    _write_whole(folder / "summary.json", as_json)
    _write_whole(folder / "summary.txt", to_text(summary))


def _write_whole(path: Path, text: str) -> None:
    # Every worker writes the summary when it ends, perhaps at the same moment.
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_text(text, encoding="utf-8", errors="replace")
    unfinished.replace(path)
