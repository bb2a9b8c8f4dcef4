"""The parts that workers wrote → one clean file of each kind.

A part ends where its worker was stopped, perhaps in the middle of a row, and a page whose worker
died is fetched again, so that its row is in two parts. The merged files have neither:

- One row a URL: the latest one, by its time. Of stats, one row a worker and moment.
- Rows in the order of their times, then of their URLs, whichever part they came from.
- A row that is not whole is left out and counted as *torn*, wherever in a part it is; one with
  the wrong number of columns or without a time is counted as *malformed*.
- Items of a project's own classes have neither time nor key, and stay in the order of their parts.
  Where pages may have been fetched twice, those that are alike to the letter are one; where no
  worker was lost, as the summary of a finished crawl says, they are as many as were yielded.
- A failure is left out when the URL was fetched well (status below 400) at that time or later, or
  its dead letter was thrown away (`scrapy dead --forget`).

Memory does not grow with the crawl: rows are dealt out by a hash of their key to buckets on disk,
again and again until each is small enough to be sorted in memory, and the sorted buckets are
merged. That takes as much room again beside the result, in a hidden folder that is removed at the
end and by the next run.
A result appears under its name only when it is whole, and no part is ever changed, so merging can
be stopped and repeated at any time, also while the crawl runs. This module knows files, not Redis.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from crawlproj.errors import CrawlError
from crawlproj.output.buckets import Buckets
from crawlproj.output.merge_report import KindReport, MergeReport
from crawlproj.output.parts import (
    FETCHED_WELL,
    FORGOTTEN,
    ITEMS,
    KINDS,
    Kind,
    Row,
    parts_of,
    rows_of,
)
from crawlproj.output.summary import SUMMARY


class MergeError(CrawlError):
    """Nothing to merge, or somebody else is merging."""


def merge(folder: Path, out: Path, *, may_repeat: bool | None = None) -> MergeReport:
    """Merge the parts in `folder` into one file of each kind in `out`. Items may be there twice or
    not, as whoever knows it says; else as the summary does."""
    is_apart = not (_may_repeat(folder) if may_repeat is None else may_repeat)
    parts = {kind: parts_of(folder, kind) for kind in KINDS}
    if not any(parts.values()):
        raise MergeError(f"Nothing to merge in {folder}: run the crawl first, or check its name.")
    largest = max(sum(part.stat().st_size for part in parts[kind]) for kind in KINDS)
    out.mkdir(parents=True, exist_ok=True)
    with _workshop(out) as workshop:
        buckets = Buckets(workshop, largest)
        buckets.deal(FORGOTTEN, rows_of(FORGOTTEN, parts_of(folder, FORGOTTEN), KindReport("")))
        kinds = [kind for kind in KINDS if kind is not ITEMS or parts[kind]]
        reports = [
            _merge_kind(kind, rows_of(kind, parts[kind], report, is_apart), report, buckets, out)
            for kind, report in ((kind, KindReport(kind.file, len(parts[kind]))) for kind in kinds)
        ]
    return MergeReport(str(out), reports)


def _may_repeat(folder: Path) -> bool:
    """Whether pages may have been fetched again whose items are there already: no, if the crawl is
    over and its summary tells of no lease that was taken from its worker."""
    try:
        summary = json.loads((folder / SUMMARY).read_bytes())
        return (summary["state"], summary["reclaimed"], summary["late"]) != ("finished", 0, 0)
    except (OSError, ValueError, TypeError, KeyError):
        return True


@contextmanager
def _workshop(out: Path) -> Iterator[Path]:
    """A folder for what is in the making, one merge at a time."""
    workshop = out / ".merging"
    lock = os.open(out, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(workshop, ignore_errors=True)
        workshop.mkdir()
        yield workshop
        shutil.rmtree(workshop)
    except BlockingIOError:
        raise MergeError(f"Another merge into {out} is running: wait until it ends.") from None
    finally:
        os.close(lock)


def _merge_kind(
    kind: Kind, rows: Iterable[Row], report: KindReport, buckets: Buckets, out: Path
) -> KindReport:
    buckets.deal(kind, rows)
    for number in range(buckets.count):
        _sort(kind, buckets, number, report, partial(buckets.better_known, kind, number))
    unfinished = buckets.folder / kind.file
    with unfinished.open("w", encoding="utf-8", newline="") as result:
        result.write(kind.header)
        for row in buckets.merged(kind):
            result.write(row.text)
            report.rows += 1
    unfinished.replace(out / kind.file)
    return report


def _sort(
    kind: Kind,
    buckets: Buckets,
    number: int,
    report: KindReport,
    better: Callable[[], Iterable[Row]],
) -> None:
    """Sort a bucket in memory, or the smaller ones that it is dealt out to again. Failures are
    compared with what is better known of their URLs."""
    smaller = buckets.dealt_again(kind, number)
    if smaller:
        for each in range(smaller.count):
            _sort(kind, smaller, each, report, better)
        buckets.put_sorted(kind, number, smaller.merged(kind))
        smaller.remove()
    else:
        latest = _latest(buckets.dealt(kind, number), report)
        _leave_out_recovered(latest, better(), report)
        buckets.put_sorted(kind, number, sorted(latest.values()))


def _latest(rows: Iterable[Row], report: KindReport) -> dict[str, Row]:
    latest: dict[str, Row] = {}
    for row in rows:
        known = latest.get(row.key)
        report.duplicates += known is not None
        if known is None or known < row:
            latest[row.key] = row
    return latest


def _leave_out_recovered(
    failures: dict[str, Row], better: Iterable[Row], report: KindReport
) -> None:
    for row in better:
        failure = failures.get(row.key)
        if failure and row.mends and failure.time <= row.time:
            del failures[row.key]
            report.recovered += row.mends == FETCHED_WELL
            report.forgotten += row.mends == FORGOTTEN.name
