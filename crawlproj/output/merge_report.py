"""What became of the rows that were merged, in numbers and in words."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from crawlproj.plural import counted, plural

LEAST_WIDTH = 16
"""Of the names of files, as people are shown them."""
MOST_EXAMPLES = 5


@dataclass
class Intake:
    """What was read of the parts of one kind and format, and what was left out of them."""

    parts: int = 0
    duplicates: int = 0
    torn: int = 0
    malformed: int = 0
    examples: list[str] = field(default_factory=list)

    def leave_out(self, part: Path, line: int, *, torn: bool) -> None:
        """Count a row, and name its line for those who want to look."""
        self.torn += torn
        self.malformed += not torn
        self._show(f"{part.name}, line {line}: {'torn' if torn else 'malformed'}")

    def leave_out_end(self, part: Path) -> None:
        """Count a packed part that was cut, in which there are no lines any more, as one row."""
        self.torn += 1
        self._show(f"{part.name}, its last block: torn")

    def _show(self, example: str) -> None:
        if len(self.examples) < MOST_EXAMPLES:
            self.examples.append(example)


@dataclass
class FileReport:
    """A merged file, and what became of the rows that could have been in it."""

    file: str
    parts: int = 0
    rows: int = 0
    duplicates: int = 0
    torn: int = 0
    malformed: int = 0
    recovered: int = 0
    forgotten: int = 0
    examples: list[str] = field(default_factory=list)
    bytes: int = 0
    sha256: str = ""

    def to_lines(self, width: int) -> list[str]:
        """For people, with names that take so much room."""
        rows = f"{self.rows:>12,} {plural(self.rows, 'row')}"
        lines = [f"  {self.file:<{width}} {rows} of {counted(self.parts, 'part')}"]
        left_out = {
            plural(self.duplicates, "duplicate"): self.duplicates,
            "torn": self.torn,
            "malformed": self.malformed,
            "fetched later": self.recovered,
            "forgotten": self.forgotten,
        }
        if any(left_out.values()):
            counts = ", ".join(f"{count:,} {why}" for why, count in left_out.items() if count)
            lines.append(f"  {'':<{width}} {'left out':>12} {counts}")
        return lines + [f"      {example}" for example in self.examples]


@dataclass
class MergeReport:
    """What a merge did; `kinds` has an entry for each file."""

    folder: str
    kinds: list[FileReport]
    sources: list[str] = field(default_factory=list)

    def to_text(self) -> str:
        """For people."""
        of = f", of {len(self.sources)} folders" if len(self.sources) > 1 else ""
        nothing = (
            "" if any(each.rows for each in self.kinds) else ": no rows, the crawl has left none"
        )
        lines = [f"Merged into {self.folder}{of}{nothing}"]
        width = max([LEAST_WIDTH, *(len(each.file) for each in self.kinds)])
        for each in self.kinds:
            lines += each.to_lines(width)
        return "\n".join(lines)


def file_report(file: str, format_: str, rows: int, intakes: dict[str, Intake]) -> FileReport:
    """Of a file: what was left out of the parts of its own format if there are any, else of all."""
    own = intakes.get(format_)
    of = [own] if own and own.parts else list(intakes.values())
    return FileReport(
        file,
        sum(each.parts for each in of),
        rows,
        max((each.duplicates for each in of), default=0),
        sum(each.torn for each in of),
        sum(each.malformed for each in of),
        examples=[example for each in of for example in each.examples][:MOST_EXAMPLES],
    )
