"""Checks an archive: that its files are whole, its records as WARC says, its digests right."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

from crawlproj.output.archive import files, records
from crawlproj.output.archive.reading import Damage, Record, walk
from crawlproj.output.watching import ReadingFile, Watch, unwatched
from crawlproj.plural import counted

WITH_PAYLOAD = frozenset({records.RESPONSE})
NEEDED = ("warc-type", "warc-record-id", "warc-date")
MOST_SHOWN = 100
"""Problems that are kept; all are counted."""

_ALGORITHM = re.compile(r"(sha1|sha256|sha512|md5):([A-Za-z0-9+/=_-]{8,200})")
_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z")


class Problem(NamedTuple):
    """Where something is wrong, and what."""

    file: str
    offset: int
    what: str
    is_torn: bool = False


@dataclass
class Verdict:
    """What was found."""

    files: int = 0
    bytes: int = 0
    records: Counter[str] = field(default_factory=Counter)
    damaged: int = 0
    torn: int = 0
    """Of the damaged places, those that a killed worker leaves."""
    being_written: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return not self.damaged

    def add(self, problem: Problem) -> None:
        self.damaged += 1
        self.torn += problem.is_torn
        if len(self.problems) < MOST_SHOWN:
            self.problems.append(problem)

    def to_json(self) -> dict[str, Any]:
        return {
            "good": self.is_good,
            "files": self.files,
            "bytes": self.bytes,
            "records": dict(sorted(self.records.items())),
            "damaged": self.damaged,
            "torn": self.torn,
            "being_written": self.being_written,
            "problems": [problem._asdict() for problem in self.problems],
        }

    def to_text(self) -> str:
        lines = [f"{one.file} at {one.offset}: {one.what}" for one in self.problems]
        if self.damaged > len(self.problems):
            lines.append(f"… and {counted(self.damaged - len(self.problems), 'more problem')}")
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(self.records.items()))
        lines.append(f"{counted(self.files, 'file')}, {self.bytes:,} bytes: {kinds or 'no record'}")
        if self.being_written:
            lines.append(f"{counted(len(self.being_written), 'file')} still being written")
        if self.torn:
            lines.append("A torn tail is cut off by the next worker here, --index or --wacz")
        lines.append("The archive is good" if self.is_good else f"{self.damaged} damaged")
        return "\n".join(lines)


def verify(folder: Path, watch: Watch = unwatched) -> Verdict:
    """Read all of an archive."""
    verdict = Verdict()
    for path in files.files_of(folder):
        is_live = files.is_being_written(path)
        verdict.files += 1
        verdict.being_written += [path.name] if is_live else []
        with path.open("rb") as file:
            watch(f"Checking {path.name}", ReadingFile(path, file))
            for problem in _problems(file, path.name, verdict):
                if not (is_live and problem.is_torn):
                    verdict.add(problem)
        verdict.bytes += path.stat().st_size
    return verdict


def _problems(file: IO[bytes], name: str, verdict: Verdict) -> Iterator[Problem]:
    last_answer, is_first = "", True
    for found in walk(file):
        if isinstance(found, Damage):
            what = f"a torn tail: {found.what}" if found.is_torn else found.what
            yield Problem(name, found.offset, what, found.is_torn)
            continue
        wrong = [*_wrong_headers(found, last_answer, is_first=is_first), *_wrong_digests(found)]
        is_first = False
        if found.type in (records.RESPONSE, records.REVISIT):
            last_answer = found.headers.get("warc-record-id", "")
        if not found.damage:
            verdict.records[found.type[:40]] += 1
            yield from (Problem(name, found.offset, what) for what in wrong)


def _wrong_headers(record: Record, last_answer: str, *, is_first: bool) -> Iterator[str]:
    headers = record.headers
    if is_first and record.type != records.WARCINFO:
        yield "the file does not begin with a warcinfo"
    yield from (f"it has no {name}" for name in NEEDED if not headers.get(name))
    if not _DATE.fullmatch(headers.get("warc-date", "")):
        yield "its WARC-Date is no time"
    if record.type != records.WARCINFO and not record.url:
        yield "it has no WARC-Target-URI"
    if record.type == records.REQUEST and headers.get("warc-concurrent-to") != last_answer:
        yield "it is not joined to the response before it"
    if record.type == records.REVISIT and not headers.get("warc-profile"):
        yield "it is a revisit without a WARC-Profile"


def _wrong_digests(record: Record) -> Iterator[str]:
    block, payload = (
        _Digest(record.headers.get(name)) for name in ("warc-block-digest", "warc-payload-digest")
    )
    block.update(record.read_head())
    while piece := record.read():
        block.update(piece)
        payload.update(piece)
    record.finish()
    if not block.is_right:
        yield "its block digest is wrong"
    if record.type in WITH_PAYLOAD and not payload.is_right:
        yield "its payload digest is wrong"


class _Digest:
    """What is said of some bytes, and whether it is so."""

    def __init__(self, said: str | None) -> None:
        found = _ALGORITHM.fullmatch(said or "")
        self._said = found[2] if found else ""
        self._is_unknown = bool(said) and found is None
        self._hash = hashlib.new(found[1], usedforsecurity=False) if found else None

    def update(self, piece: bytes) -> None:
        if self._hash is not None:
            self._hash.update(piece)

    @property
    def is_right(self) -> bool:
        """True also for what nothing is said of."""
        if self._hash is None:
            return not self._is_unknown
        digest = self._hash.digest()
        return self._said.lower() == digest.hex() or self._said.upper() == (
            base64.b32encode(digest).decode()
        )
