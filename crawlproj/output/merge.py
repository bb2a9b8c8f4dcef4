"""The parts that workers wrote → one clean file of each kind.

A part ends where its worker was stopped, perhaps in the middle of a row, and a page whose worker
died is fetched again, so that its row is in two parts. The merged files have neither:

- One row a URL: the latest one, by its time. Of stats, one row a worker and moment.
- Rows in the order of their times, then of their URLs, whichever part they came from.
- A row that is not whole is left out and counted as *torn*, wherever in a part it is; one with
  the wrong number of columns or without a time is counted as *malformed*.
- Of items of a project's own classes, which have neither time nor key, those that are alike to the
  letter are one; they stay in the order of their parts.
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

import csv
import fcntl
import heapq
import json
import os
import re
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import msgpack

from crawlproj.errors import CrawlError
from crawlproj.items import FAILURE_COLUMNS, PAGE_COLUMNS, STATS_COLUMNS
from crawlproj.plural import counted, plural

BUCKET_BYTES = 16 << 20
# Chance, and the key beside each row, make some larger than was meant.
MOST_BUCKET_BYTES = 4 * BUCKET_BYTES
# Each is an open file while they are merged: more than this and common limits are in the way.
MOST_BUCKETS = 200
READ_BYTES = 64 << 10
LARGEST_HASH = 2**32

# A row may go over several lines, within quotes. One that goes on for longer is torn.
MOST_LINES_A_ROW = 200

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*")
GOOD_STATUS = re.compile(r"[123]\d\d")
FETCHED_WELL = "fetched well"
CSV_END = "\r\n"
MOST_EXAMPLES = 5


class MergeError(CrawlError):
    """Nothing to merge, or somebody else is merging."""


class Row(NamedTuple):
    """What merging needs of a row. Rows sort as the result is sorted."""

    time: str
    key: str
    text: str
    mends: str
    """Why an earlier failure of the URL counts no longer, if it does not."""


class Kind(NamedTuple):
    """A kind of part: `<name>-*<suffix>` → `<name><suffix>`."""

    name: str
    suffix: str
    columns: tuple[str, ...]
    time: str
    key: tuple[str, ...]

    @property
    def file(self) -> str:
        return self.name + self.suffix

    @property
    def header(self) -> str:
        return ",".join(self.columns) + CSV_END if self.suffix == ".csv" else ""


PAGES_CSV = Kind("pages", ".csv", PAGE_COLUMNS, "fetched_at", ("url",))
PAGES_JSONL = Kind("pages", ".jsonl", PAGE_COLUMNS, "fetched_at", ("url",))
FAILURES = Kind("failures", ".csv", FAILURE_COLUMNS, "failed_at", ("url",))
STATS = Kind("stats", ".csv", STATS_COLUMNS, "at", ("worker", "at"))
FORGOTTEN = Kind("forgotten", ".csv", ("url", "forgotten_at"), "forgotten_at", ("url",))
"""Dead letters that were thrown away: read to leave failures out, and not merged themselves."""

ITEMS = Kind("items", ".jsonl", (), "", ())
# Pages before failures, which are compared with them.
KINDS = (PAGES_CSV, PAGES_JSONL, FAILURES, STATS, ITEMS)


@dataclass
class KindReport:
    """What became of the rows of one kind."""

    file: str
    parts: int = 0
    rows: int = 0
    duplicates: int = 0
    torn: int = 0
    malformed: int = 0
    recovered: int = 0
    forgotten: int = 0
    examples: list[str] = field(default_factory=list)

    def leave_out(self, part: Path, line: int, torn: bool) -> None:
        self.torn += torn
        self.malformed += not torn
        if len(self.examples) < MOST_EXAMPLES:
            self.examples.append(f"{part.name}, line {line}: {'torn' if torn else 'malformed'}")


@dataclass
class MergeReport:
    """What a merge did; `kinds` in the order of KINDS."""

    folder: str
    kinds: list[KindReport]

    def to_text(self) -> str:
        lines = [f"Merged into {self.folder}"]
        for kind in self.kinds:
            rows = f"{kind.rows:>12,} {plural(kind.rows, 'row')}"
            lines.append(f"  {kind.file:<13}{rows} of {counted(kind.parts, 'part')}")
            left_out = {
                plural(kind.duplicates, "duplicate"): kind.duplicates,
                "torn": kind.torn,
                "malformed": kind.malformed,
                "fetched later": kind.recovered,
                "forgotten": kind.forgotten,
            }
            if any(left_out.values()):
                counts = ", ".join(f"{count:,} {why}" for why, count in left_out.items() if count)
                lines.append(f"  {'':<13}{'left out':>12} {counts}")
            lines += [f"      {example}" for example in kind.examples]
        return "\n".join(lines)


def merge(folder: Path, out: Path) -> MergeReport:
    """Merge the parts in `folder` into one file of each kind in `out`."""
    parts = {kind: _parts(folder, kind) for kind in KINDS}
    if not any(parts.values()):
        raise MergeError(f"Nothing to merge in {folder}: run the crawl first, or check its name.")
    largest = max(sum(part.stat().st_size for part in parts[kind]) for kind in KINDS)
    out.mkdir(parents=True, exist_ok=True)
    with _workshop(out) as workshop:
        buckets = Buckets(workshop, largest)
        buckets.deal(FORGOTTEN, _rows(FORGOTTEN, _parts(folder, FORGOTTEN), KindReport("")))
        kinds = [kind for kind in KINDS if kind is not ITEMS or parts[kind]]
        reports = [_merge_kind(kind, parts[kind], buckets, out) for kind in kinds]
    return MergeReport(str(out), reports)


def _parts(folder: Path, kind: Kind) -> list[Path]:
    return sorted(folder.glob(f"{kind.name}-*{kind.suffix}"))


def _rows(kind: Kind, parts: list[Path], report: KindReport) -> Iterator[Row]:
    read = _csv_rows if kind.suffix == ".csv" else _item_rows if kind is ITEMS else _json_rows
    return chain.from_iterable(read(kind, part, report) for part in parts)


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


def _merge_kind(kind: Kind, parts: list[Path], buckets: Buckets, out: Path) -> KindReport:
    report = KindReport(kind.file, len(parts))
    buckets.deal(kind, _rows(kind, parts, report))
    for number in range(buckets.count):
        better = partial(buckets.better_than_failures, number) if kind is FAILURES else tuple
        _sort(kind, buckets, number, report, better)
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


class Buckets:
    """Rows on disk, dealt out by the hash of their keys: rows of one URL meet in one bucket.

    `divisor` is what the hash is divided by first, so that smaller buckets are dealt to by digits
    of it that have not been used.
    """

    def __init__(self, folder: Path, size: int, divisor: int = 1) -> None:
        self.folder = folder
        self.count = min(MOST_BUCKETS, 1 + size // BUCKET_BYTES)
        self._divisor = divisor

    def deal(self, kind: Kind, rows: Iterable[Row]) -> None:
        with ExitStack() as files:
            buckets = [
                files.enter_context(self._path(kind, number, "dealt").open("wb"))
                for number in range(self.count)
            ]
            for row in rows:
                digits = crc32(row.key.encode("utf-8", "surrogatepass")) // self._divisor
                buckets[digits % self.count].write(_packed(row))

    def dealt_again(self, kind: Kind, number: int) -> Buckets | None:
        """Smaller buckets with the rows of one that is too large; None if it is not, or if no
        digits are left: then they are of few URLs, of each of which one row is kept."""
        size = self._path(kind, number, "dealt").stat().st_size
        divisor = self._divisor * self.count
        if size <= MOST_BUCKET_BYTES or divisor >= LARGEST_HASH:
            return None
        folder = self.folder / f"{kind.file}.{number}"
        folder.mkdir()
        smaller = Buckets(folder, size, divisor)
        smaller.deal(kind, self.dealt(kind, number))
        return smaller

    def remove(self) -> None:
        shutil.rmtree(self.folder)

    def dealt(self, kind: Kind, number: int) -> Iterator[Row]:
        return self._read(self._path(kind, number, "dealt"))

    def put_sorted(self, kind: Kind, number: int, rows: Iterable[Row]) -> None:
        with self._path(kind, number, "sorted").open("wb") as bucket:
            bucket.writelines(map(_packed, rows))
        self._path(kind, number, "dealt").unlink()

    def better_than_failures(self, number: int) -> Iterator[Row]:
        """The pages of a bucket, which are sorted by now, and what was forgotten."""
        pages = (self._sorted(kind, number) for kind in (PAGES_CSV, PAGES_JSONL))
        return chain(*pages, self.dealt(FORGOTTEN, number))

    def merged(self, kind: Kind) -> Iterator[Row]:
        return heapq.merge(*(self._sorted(kind, number) for number in range(self.count)))

    def _sorted(self, kind: Kind, number: int) -> Iterator[Row]:
        return self._read(self._path(kind, number, "sorted"))

    def _path(self, kind: Kind, number: int, stage: str) -> Path:
        return self.folder / f"{kind.file}.{number}.{stage}"

    def _read(self, path: Path) -> Iterator[Row]:
        with path.open("rb") as bucket:
            rows = msgpack.Unpacker(bucket, read_size=READ_BYTES, unicode_errors="surrogatepass")
            yield from map(Row._make, rows)


def _packed(row: Row) -> bytes:
    packed: bytes = msgpack.packb(row, unicode_errors="surrogatepass")
    return packed


class Lines:
    """The lines of a part, which can be looked at before they are taken."""

    def __init__(self, file: Iterable[bytes]) -> None:
        self._file = iter(file)
        self._ahead: deque[bytes] = deque()
        self.number = 0

    def take(self) -> bytes:
        self.number += 1
        return self._ahead.popleft() if self._ahead else next(self._file, b"")

    def peek(self, distance: int) -> bytes:
        while len(self._ahead) <= distance:
            self._ahead.append(next(self._file, b""))
        return self._ahead[distance]


def _csv_rows(kind: Kind, part: Path, report: KindReport) -> Iterator[Row]:
    header = kind.header.strip().encode()
    with part.open("rb") as file:
        lines = Lines(file)
        while line := lines.take():
            if line.strip() in (header, b""):
                continue
            if row := _csv_row(kind, line) or _csv_row_of_lines(kind, line, lines):
                yield row
            else:
                # The next worker to write to this file began, as always, with a header.
                torn = not _is_whole(line) or line.strip().endswith(header)
                report.leave_out(part, lines.number, torn)


def _is_whole(record: bytes) -> bool:
    return record.endswith(b"\n") and record.count(b'"') % 2 == 0


def _csv_row_of_lines(kind: Kind, line: bytes, lines: Lines) -> Row | None:
    """The row that begins in this line, if it ends in one of the next; they are taken only then.

    A torn row with an open quote would otherwise swallow the rows after it.
    """
    record = line
    for distance in range(MOST_LINES_A_ROW if line.count(b'"') % 2 else 0):
        record += lines.peek(distance)
        if row := _csv_row(kind, record):
            for _ in range(distance + 1):
                lines.take()
            return row
    return None


def _csv_row(kind: Kind, record: bytes) -> Row | None:
    if not _is_whole(record):
        return None
    try:
        text = record.decode().rstrip("\r\n")
        fields = next(csv.reader([text], strict=True)) if '"' in text else text.split(",")
        return _row(kind, dict(zip(kind.columns, fields, strict=True)), text + CSV_END)
    except (ValueError, csv.Error):
        return None


def _json_rows(kind: Kind, part: Path, report: KindReport) -> Iterator[Row]:
    with part.open("rb") as file:
        for number, line in enumerate(file, 1):
            row = _json_row(kind, line)
            if row is None:
                report.leave_out(part, number, torn=True)
                # A worker may have written on after the torn row, which has no line end.
                start = line.rfind(b'{"%s":' % kind.columns[0].encode())
                row = _json_row(kind, line[start:]) if start > 0 else None
            if row:
                yield row


def _item_rows(kind: Kind, part: Path, report: KindReport) -> Iterator[Row]:
    with part.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                json.loads(line if line.endswith(b"\n") else b"")
            except (ValueError, RecursionError):
                report.leave_out(part, number, torn=True)
            else:
                place = f"{part.name} {number:012}"
                yield Row(place, blake2b(line, digest_size=16).hexdigest(), line.decode(), "")


def _json_row(kind: Kind, line: bytes) -> Row | None:
    if not line.endswith(b"\n"):
        return None
    try:
        values = json.loads(line)
        return _row(kind, values, line.decode()) if isinstance(values, dict) else None
    except (ValueError, RecursionError):
        return None


def _row(kind: Kind, values: Mapping[str, Any], text: str) -> Row | None:
    time = values.get(kind.time)
    key = [values.get(column) for column in kind.key]
    if not isinstance(time, str) or not TIME.fullmatch(time) or not all(key):
        return None
    return Row(time, " ".join(map(str, key)), text, _mends(kind, values))


def _mends(kind: Kind, values: Mapping[str, Any]) -> str:
    if kind is FORGOTTEN:
        return FORGOTTEN.name
    is_good = kind.name == "pages" and GOOD_STATUS.fullmatch(str(values.get("status")))
    return FETCHED_WELL if is_good else ""
