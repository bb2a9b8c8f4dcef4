"""The parts that workers wrote, here and on other machines → one clean file of each kind.

A part ends where its worker was stopped, perhaps in the middle of a row, and a page whose worker
died is fetched again, so that its row is in two parts. The merged files have neither:

- One row a URL: that of its last lease (`loading.py`). Of failures, one row a request; of stats,
  one a worker and moment.
- Rows in the order of their times, then of their URLs, or of a column that is asked for; whichever
  part they came from, and the same in every format.
- A row that is not whole is left out and counted as *torn*, wherever in a part it is; one with
  the wrong number of columns or without a time is counted as *malformed*.
- Items of a project's own classes stay in the order of their parts (`own_items.py`).
- A failure is left out when the URL was fetched well (status below 400) under a later lease (rows
  of earlier versions, which name none: at that time or later), or its dead letter was thrown away
  (`scrapy dead --forget`).

Sorting and comparing is DuckDB's, in bounded memory; what does not fit is in a hidden folder beside
the result, which is removed at the end and by the next run. A result appears under its name only
when it is whole, no part is ever changed, and the same parts give the same bytes, so merging can be
stopped and repeated at any time, also while the crawl runs. This module knows files, not Redis.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path

from crawlproj.errors import ConfigError, CrawlError
from crawlproj.output import manifest, own_items
from crawlproj.output.database import MEMORY_MB, Database, database
from crawlproj.output.folder import epoch_of
from crawlproj.output.kinds import (
    FORGOTTEN,
    FORMATS,
    ITEMS,
    ITEMS_FILE,
    JSONL,
    KINDS,
    PAGES,
    REFUSED,
    Kind,
)
from crawlproj.output.loading import Loaded, flat, load
from crawlproj.output.merge_report import FileReport, MergeReport, file_report
from crawlproj.output.parts import has_parts, parts_of
from crawlproj.output.sql import cell_as_written, copy_options, literal, name
from crawlproj.output.watching import Watch, unwatched


class MergeError(CrawlError):
    """Nothing to merge, or somebody else is merging."""


@dataclass(frozen=True)
class Wish:
    """How the result should be."""

    formats: tuple[str, ...] = ()
    """Of every kind; none: each kind in those in which workers write it."""
    sort: str = ""
    """The column by which kinds that have it are sorted; after a `-`, the largest first."""
    memory_mb: int = MEMORY_MB

    def check(self) -> None:
        """Raise ConfigError for what cannot be."""
        for one in self.formats:
            if one not in FORMATS:
                raise ConfigError(f"--format {one}: one or more of {','.join(FORMATS)}")
        known = sorted({column for kind in KINDS for column in kind.columns})
        if self.sort and self.sort.removeprefix("-") not in known:
            raise ConfigError(f"--sort {self.sort}: no such column; there are {', '.join(known)}")


def merge(
    folders: Path | Sequence[Path],
    out: Path,
    wish: Wish | None = None,
    *,
    may_repeat: bool | None = None,
    watch: Watch | None = None,
) -> MergeReport:
    """Merge the parts in these folders into one file of each kind in `out`. Items of a version
    before may be there twice or not, as whoever knows it says; else as the summary does."""
    sources = [folders] if isinstance(folders, Path) else list(folders)
    wish = wish or Wish()
    # A crawl that fetched nothing has its mark there, and gives empty files.
    if not _has_any(sources) and not any(map(epoch_of, sources)):
        where = ", ".join(map(str, sources))
        raise MergeError(f"Nothing to merge in {where}: run the crawl first, or check its name")
    out.mkdir(parents=True, exist_ok=True)
    if may_repeat is None:
        may_repeat = any(map(own_items.may_repeat, sources))
    with _workshop(out) as workshop, database(workshop, wish.memory_mb) as rows:
        merging = _Merging(rows, sources, workshop, wish, watch or unwatched)
        parts = manifest.parts(sources)
        files = merging.merge(are_alike_one=may_repeat)
        manifest.write(workshop / manifest.FILE, parts, files)
        for file in files:
            (workshop / file.file).replace(out / file.file)
        (workshop / manifest.FILE).replace(out / manifest.FILE)
    return MergeReport(str(out), files, [str(source) for source in sources])


def _has_any(folders: Sequence[Path]) -> bool:
    return bool(parts_of(folders, ITEMS, JSONL)) or any(has_parts(folders, kind) for kind in KINDS)


@contextmanager
def _workshop(out: Path) -> Iterator[Path]:
    """A folder for what is in the making, one merge at a time."""
    workshop = out / ".merging"
    lock = os.open(out, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(workshop, ignore_errors=True)
        workshop.mkdir()
        try:
            yield workshop
        finally:
            shutil.rmtree(workshop, ignore_errors=True)
    except BlockingIOError:
        raise MergeError(f"Another merge into {out} is running: wait until it ends.") from None
    finally:
        os.close(lock)


class _Merging:
    """From parts to files in the workshop, one kind after the other."""

    def __init__(
        self, rows: Database, sources: list[Path], workshop: Path, wish: Wish, watch: Watch
    ) -> None:
        self._rows = rows
        self._sources = sources
        self._workshop = workshop
        self._wish = wish
        self._watch = watch

    def merge(self, *, are_alike_one: bool) -> list[FileReport]:
        load(self._rows, FORGOTTEN, self._sources)
        load(self._rows, REFUSED, self._sources)
        files = [file for kind in KINDS for file in self._merge_kind(kind)]
        files += self._merge_items(are_alike_one=are_alike_one)
        for file in files:
            self._sign(file)
        return files

    def _merge_kind(self, kind: Kind) -> list[FileReport]:
        is_lacking = not has_parts(self._sources, kind)
        if is_lacking and kind.is_optional:
            return []
        self._watch(f"Reading {kind.name}", self._rows)
        loaded = load(self._rows, kind, self._sources, order=self._order(kind))
        if is_lacking and kind is PAGES and parts_of(self._sources, ITEMS, JSONL):
            return []  # of a spider whose pages are nothing but items
        return [self._write(loaded, format_) for format_ in self._formats(kind)]

    def _formats(self, kind: Kind) -> list[str]:
        """A compressed format stands for its own kind where that is what workers write."""
        compressed = {one.partition(".")[0]: one for one in kind.formats}
        return [compressed.get(one, one) for one in self._wish.formats] or list(kind.formats)

    def _order(self, kind: Kind) -> str:
        column = self._wish.sort.removeprefix("-")
        direction = " DESC" if self._wish.sort.startswith("-") else ""
        asked = [f"{name(column)}{direction} NULLS LAST"] if column in kind.columns else []
        return ", ".join([*asked, name(kind.time), *map(name, (*kind.key, *kind.told_apart_by))])

    def _write(self, loaded: Loaded, format_: str) -> FileReport:
        kind, plain = loaded.kind, format_.partition(".")[0]
        file = f"{kind.name}.{format_}"
        self._watch(f"Writing {file}", self._rows)
        is_flat = bool(kind.table) and plain != JSONL
        columns = kind.table if is_flat else loaded.columns
        cells = ", ".join(cell_as_written(one, type_, plain) for one, type_ in columns.items())
        with self._rows.one_thread() if kind.is_wide else nullcontext():
            rows = self._rows.run(
                f"COPY (SELECT {cells} FROM {flat(kind, kind.name) if is_flat else kind.name}) "
                f"TO {literal(str(self._workshop / file))} ({copy_options(format_)})"
            )
        report = file_report(file, format_, rows[0][0], loaded.intakes)
        report.recovered, report.forgotten = loaded.recovered, loaded.forgotten
        return report

    def _merge_items(self, *, are_alike_one: bool) -> list[FileReport]:
        self._watch(f"Merging {ITEMS}", self._rows)
        lines = self._workshop / ITEMS_FILE
        report = own_items.merge_items(
            self._rows, self._sources, lines, are_alike_one=are_alike_one
        )
        if report is None:
            return []
        formats = self._wish.formats or (JSONL,)
        others = [one for one in formats if one != JSONL]
        files = [own_items.convert(self._rows, lines, report, one) for one in others]
        return [report, *files] if JSONL in formats else files

    def _sign(self, file: FileReport) -> None:
        path = self._workshop / file.file
        self._watch(f"Signing {file.file}", self._rows)
        file.bytes = path.stat().st_size
        with path.open("rb") as content:
            file.sha256 = file_digest(content, "sha256").hexdigest()
