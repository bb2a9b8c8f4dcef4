"""What became of the rows that were merged, in numbers and in words."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from crawlproj.plural import counted, plural

MOST_EXAMPLES = 5


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
