"""The result of a link check: what was found, since when, and how it compares with another."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from crawlproj.discover.link_records import checksums
from crawlproj.errors import ConfigError
from crawlproj.operate.link_comparison import Comparison, Options
from crawlproj.output.broken_links import ANCHOR, KINDS, Broken, Findings
from crawlproj.output.folder import LINK_CHECK
from crawlproj.output.whole_file import unfinished_of, write_whole
from crawlproj.plural import counted

RESULT = LINK_CHECK
"""The result, in the folder of the check's files, for the next one to be compared with."""


@dataclass(frozen=True)
class LinkReport:
    """What is shown of a link check, in whatever format."""

    urls: list[str]
    """Those that it began with."""
    checked_at: str
    seconds: float
    is_complete: bool
    findings: Findings
    options: Options = field(default_factory=Options)
    compared: Comparison = field(default_factory=Comparison)
    fails_on: frozenset[str] = frozenset(KINDS)
    """Kinds of broken links for which the check fails; others are only told."""

    @property
    def failing(self) -> list[Broken]:
        """Those for which it fails."""
        return [one for one in self.findings.broken if one.kind in self.fails_on]

    def of_kind(self, kind: str) -> list[Broken]:
        return [one for one in self.findings.broken if one.kind == kind]

    @property
    def summary(self) -> str:
        """The report in a line."""
        found = self.findings
        asked = f" and {counted(found.checked, 'other link')}" if found.checked else ""
        looked_at = f"{counted(found.pages, 'page')}{asked} in {self.seconds:.0f} s"
        said = f"{self._verdict}: {looked_at}, from {', '.join(self.urls)}"
        if found.unchecked:
            why = ", ".join(f"{name} {count:,}" for name, count in found.unchecked.items())
            said += f"; {counted(sum(found.unchecked.values()), 'URL')} not asked ({why})"
        if self.compared.earlier:
            said += f"; {self._since}"
        return said if self.is_complete else f"Interrupted, so far: {said}"

    @property
    def _since(self) -> str:
        other = self.compared
        said = f"since {other.earlier}: {len(other.new):,} new, {len(other.mended):,} mended"
        if other.not_looked_at:
            said += f", {len(other.not_looked_at):,} not looked at"
        if other.extent:
            said += f" (that was from {other.extent}: only what both looked at is compared)"
        return said

    @property
    def _verdict(self) -> str:
        broken = self.findings.broken
        if not broken:
            return "No broken links"
        kinds = [(kind, len(self.of_kind(kind))) for kind in KINDS]
        by_kind = ", ".join(f"{count:,} {_NAMES[kind]}" for kind, count in kinds if count)
        return f"{counted(len(broken), 'broken link')} ({by_kind})"


_NAMES = {kind: kind for kind in KINDS} | {ANCHOR: "without their anchor"}


def as_json(report: LinkReport) -> dict[str, Any]:
    """The report for scripts, and for the next check."""
    found = report.findings
    return {
        "urls": report.urls,
        "options": report.options._asdict(),
        "checked_at": report.checked_at,
        "seconds": round(report.seconds, 1),
        "complete": report.is_complete,
        "pages": found.pages,
        "links": found.links,
        "checked": found.checked,
        "unchecked": found.unchecked,
        "broken": [_broken(one) for one in found.broken],
        "compared_with": report.compared.earlier or None,
        "new": report.compared.new,
        "mended": report.compared.mended,
        "not_looked_at": report.compared.not_looked_at,
        "read": checksums(found.read),
    }


def _broken(one: Broken) -> dict[str, Any]:
    told = {name: value for name, value in asdict(one).items() if name != "referer"}
    return told | {"sources": one.sources, "links": [link._asdict() for link in one.links]}


def keep(report: LinkReport, folder: Path) -> Path:
    """Write the result for the next check, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / RESULT
    write_whole(file, json.dumps(as_json(report), indent=2) + "\n")
    return file


def write_to(file: Path, text: str) -> None:
    """Write a report where the user wants it: whole or not at all, but for a pipe or a device."""
    if _is_special(file):
        file.write_text(text, encoding="utf-8", errors="replace")
    else:
        write_whole(file, text)


def refuse_unwritable(file: Path) -> None:
    """ConfigError for a report that could not be written once it is there."""
    if file.is_dir():
        raise ConfigError(f"-o {file}: is a folder; give the name of a file")
    if _is_special(file):
        return
    try:
        unfinished = unfinished_of(file)
        unfinished.touch()
        unfinished.unlink()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"-o {file}: nothing can be written in the folder {file.parent}: {why}"
        ) from None


def _is_special(file: Path) -> bool:
    return file.exists() and not file.is_file()
