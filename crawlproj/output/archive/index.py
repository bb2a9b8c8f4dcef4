"""The index of an archive: `index.cdxj`, a line a capture, keyed by SURT and sorted.

    com,example)/page 20261117120000 {"url": …, "mime": …, "status": …, "digest": …, …}

Sorted in bounded memory: runs of lines are sorted, put aside and merged.
"""

from __future__ import annotations

import heapq
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, NamedTuple

from crawlproj.output.archive import files, records
from crawlproj.output.archive.reading import Damage, Head, Record, parsed, walk
from crawlproj.output.archive.surt import surt
from crawlproj.output.watching import ReadingFile, Watch, unwatched
from crawlproj.output.whole_file import written_whole

NAME = "index.cdxj"
RUN_BYTES = 32 << 20
"""Of lines that are sorted at once."""
MOST_RUNS = 200
"""That are merged at once: each is an open file."""

_NO_DIGITS = re.compile(r"\D")
_END_OF_TYPE = re.compile(r"[;\s]")


class Entry(NamedTuple):
    """A line of the index."""

    key: str
    timestamp: str
    fields: dict[str, Any]

    def to_line(self) -> str:
        return f"{self.key} {self.timestamp} {json.dumps(self.fields)}\n"


Look = Callable[[Record, Head, Entry], None]
"""Is shown each response whose body has not been read yet."""


def entries(
    paths: Iterable[Path], look: Look | None = None, watch: Watch = unwatched
) -> Iterator[Entry]:
    """The captures of these files, in the order they are in. What is damaged is left out."""
    for path in paths:
        with path.open("rb") as file:
            watch(f"Indexing {path.name}", ReadingFile(path, file))
            for found in walk(file):
                if isinstance(found, Damage) or found.type not in (
                    records.RESPONSE,
                    records.REVISIT,
                ):
                    continue
                head = parsed(found.read_head())
                entry = _entry(found, head, path.name)
                if look is not None:
                    look(found, head, entry)
                found.finish()
                if not found.damage:
                    entry.fields["length"] = str(found.length)
                    yield entry


def _entry(record: Record, head: Head, name: str) -> Entry:
    is_revisit = record.type == records.REVISIT
    mime = "warc/revisit" if is_revisit else _END_OF_TYPE.split(_type(head), maxsplit=1)[0]
    fields = {
        "url": record.url,
        "mime": mime,
        "status": head.status,
        "digest": record.headers.get("warc-payload-digest", ""),
        "length": "0",
        "offset": str(record.offset),
        "filename": name,
    }
    timestamp = _NO_DIGITS.sub("", record.headers.get("warc-date", ""))[:14] or "0"
    return Entry(surt(record.url), timestamp, {k: v for k, v in fields.items() if v})


def _type(head: Head) -> str:
    return head.headers.get("content-type", "")


def sorted_lines(lines: Iterable[str], folder: Path, run_bytes: int = RUN_BYTES) -> Iterator[str]:
    """Sorted, each once, whatever their number; what does not fit is put aside in this folder."""
    with tempfile.TemporaryDirectory(prefix=".index-", dir=folder) as aside:
        runs = _runs(lines, Path(aside), run_bytes)
        while len(runs) > MOST_RUNS:
            merged = Path(aside) / f"merged-{runs[-1].name}"
            _write(merged, _merged(runs[:MOST_RUNS]))
            runs = [*runs[MOST_RUNS:], merged]
        yield from (line for line, _ in groupby(_merged(runs)))


def _runs(lines: Iterable[str], aside: Path, run_bytes: int) -> list[Path]:
    runs: list[Path] = []
    run: list[str] = []
    size = 0
    for line in lines:
        run.append(line)
        size += len(line)
        if size >= run_bytes:
            runs.append(_write(aside / str(len(runs)), sorted(run)))
            run, size = [], 0
    return [*runs, _write(aside / str(len(runs)), sorted(run))]


def _merged(runs: list[Path]) -> Iterator[str]:
    with ExitStack() as stack:
        opened = [stack.enter_context(run.open(encoding="ascii", newline="\n")) for run in runs]
        yield from heapq.merge(*opened)


def _write(path: Path, lines: Iterable[str]) -> Path:
    with path.open("w", encoding="ascii", newline="\n") as file:
        file.writelines(lines)
    return path


def write_index(folder: Path, watch: Watch = unwatched) -> int:
    """Index an archive; returns how many captures it has. The index is as old as the newest file
    was when it was begun: what workers write meanwhile, it may not have."""
    paths = files.files_of(folder)
    known_ns = max((path.stat().st_mtime_ns for path in paths), default=0)
    found = entries(paths, watch=watch)
    lines = sorted_lines((entry.to_line() for entry in found), folder)
    count = 0
    with written_whole(folder / NAME, sync=True) as unfinished:
        with unfinished.open("w", encoding="ascii", newline="\n") as file:
            for line in lines:
                file.write(line)
                count += 1
        os.utime(unfinished, ns=(known_ns, known_ns))
    return count


def state_of(folder: Path) -> Literal["none", "old", "current"]:
    """Whether there is an index, and whether it knows all that is in the archive."""
    index = folder / NAME
    if not index.exists():
        return "none"
    written_ns = index.stat().st_mtime_ns
    is_old = any(path.stat().st_mtime_ns > written_ns for path in files.files_of(folder))
    return "old" if is_old else "current"


def read_line(line: str) -> Entry | None:
    """None for a line that is none of ours."""
    key, _, rest = line.partition(" ")
    timestamp, _, text = rest.partition(" ")
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return Entry(key, timestamp, fields) if isinstance(fields, dict) else None
