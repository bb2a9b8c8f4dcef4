"""`-o` and `-O` of several workers: each writes parts of its own, and one file is made of them when
all have ended.

Parts are JSON lines, whatever the file is to be: a worker that is killed leaves all but its last
line readable. They lie beside the file, in a hidden folder that is removed once the file is there.
"""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit

from scrapy.exceptions import UsageError
from scrapy.utils.conf import feed_process_params_from_cli
from scrapy.utils.misc import load_object

from crawlproj.errors import ConfigError
from crawlproj.output.kinds import ITEMS, ITEMS_FILE, JSONL
from crawlproj.plural import counted

if TYPE_CHECKING:
    from scrapy.exporters import BaseItemExporter
    from scrapy.settings import BaseSettings

EACH_ITS_OWN = ("%(worker)s", "%(batch_id)")
"""Names in a URI by which each worker has a file of its own already."""

INDENT = "FEED_EXPORT_INDENT"
"""None puts everything on one line; Scrapy's default of 0, a line for each item, is not that."""
GROWING = ("csv", "jsonlines", "jsonl", "jl")
"""Formats to which rows can be added."""


@dataclass(frozen=True)
class Gathering:
    """A file to be made of what several workers write."""

    target: Path
    format: str
    overwrite: bool
    parts: Path

    @property
    def option(self) -> list[str]:
        """What each worker is told to write."""
        return ["-o", f"{self.parts}/{ITEMS}-%(worker)s-%(batch_id)04d.{JSONL}"]

    def gather(self, settings: BaseSettings, *, may_repeat: bool = False) -> str:
        """Make the file; returns what is to be said of it. Where a worker was lost, its pages may
        have been fetched again: of items that are alike to the letter one is kept then."""
        from crawlproj.output.merge import MergeError, merge  # DuckDB is large

        try:
            merged = merge(self.parts, self.parts, may_repeat=may_repeat)
            kinds = {kind.file: kind for kind in merged.kinds}
        except MergeError:
            return f"No items for {self.target}"
        adds = self.has_content and not self.overwrite
        unfinished = self.target if adds else self.parts / "result"
        columns = settings.getdictorlist("FEED_EXPORT_FIELDS")
        header = _header(self.target) if self.format == "csv" and adds and not columns else []
        if self.format == "csv":
            columns = columns or header or _fields(self._items())
        with unfinished.open("ab" if adds else "wb") as file:
            self._export(_exporter(settings, self.format, file, columns, has_header=not adds))
        if not adds:
            unfinished.replace(self.target)
        said = f"{counted(kinds[ITEMS_FILE].rows, 'item')} in {self.target}"
        if header and (lacks := [name for name in _fields(self._items()) if name not in header]):
            return f"{said}, without {', '.join(lacks)}: kept in {self.parts / ITEMS_FILE}"
        shutil.rmtree(self.parts)
        return said

    @property
    def has_content(self) -> bool:
        """True if there is something in the file that could be kept."""
        return self.target.exists() and self.target.stat().st_size > 0

    def _export(self, exporter: BaseItemExporter) -> None:
        exporter.start_exporting()
        for item in self._items():
            exporter.export_item(item)
        exporter.finish_exporting()

    def _items(self) -> Iterator[dict[str, Any]]:
        with (self.parts / ITEMS_FILE).open(encoding="utf-8", newline="\n") as lines:
            yield from map(json.loads, lines)


def gatherings(
    settings: BaseSettings, output: list[str], overwrite_output: list[str], run: str
) -> tuple[list[Gathering], list[str]]:
    """The files to make of `-o` or `-O`, and the options for each worker; raises ConfigError if one
    cannot be made."""
    if output and overwrite_output:
        raise ConfigError("-o and -O: give one of them, as for scrapy crawl")
    option, given = ("-O", overwrite_output) if overwrite_output else ("-o", output)
    own = [uri for uri in given if any(name in uri for name in EACH_ITS_OWN)]
    if own and len(own) < len(given):
        raise ConfigError(f"{option} {own[0]}: give every file a name for each worker, or none")
    if own:
        return [], [word for uri in own for word in (option, uri)]
    found = [_gathering(settings, option, uri, run) for uri in given]
    return found, [word for one in found for word in one.option]


def _gathering(settings: BaseSettings, option: str, given: str, run: str) -> Gathering:
    try:
        feeds = feed_process_params_from_cli(settings, [given])
    except UsageError as error:
        raise ConfigError(f"{option} {given}: {error}") from None
    uri, about = next(iter(feeds.items()))
    where = urlsplit(uri)
    if where.scheme not in ("", "file"):
        raise ConfigError(
            f"{option} {given}: workers cannot share it; name a local file, or one for each worker "
            "with %(worker)s in its name"
        )
    target, kind, overwrite = Path(where.path).absolute(), about["format"], option == "-O"
    parts = target.with_name(f".{target.name}.parts-{run}")
    gathering = Gathering(target, kind, overwrite, parts)
    if gathering.has_content and not overwrite and kind not in GROWING:
        raise ConfigError(f"{option} {given}: is there already; -O replaces it")
    return gathering


def _exporter(
    settings: BaseSettings,
    name: str,
    file: IO[bytes],
    columns: Any,
    *,
    has_header: bool,
) -> BaseItemExporter:
    options: dict[str, Any] = {"include_headers_line": has_header} if name == "csv" else {}
    exporter: BaseItemExporter = load_object(settings.getwithbase("FEED_EXPORTERS")[name])(
        file,
        fields_to_export=columns or None,
        encoding=settings["FEED_EXPORT_ENCODING"],
        indent=None if settings[INDENT] is None else settings.getint(INDENT),
        **options,
    )
    return exporter


def _fields(items: Iterator[dict[str, Any]]) -> list[str]:
    """Of every item, in the order in which they first occur: a line lacks what it does not have."""
    return list(dict.fromkeys(field for item in items for field in item))


def _header(file: Path) -> list[str]:
    """The columns of a CSV that is added to, which its new rows have to have."""
    with file.open(newline="", encoding="utf-8-sig", errors="replace") as lines:
        return next(csv.reader(lines), [])
