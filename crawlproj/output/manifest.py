"""What a merge has made, and of what: copies can be checked, and what is out of date is known."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from crawlproj.output.kinds import FORGOTTEN, ITEMS, JSONL, KINDS, REFUSED
from crawlproj.output.merge_report import FileReport
from crawlproj.output.parts import parts_of

FILE = "manifest.json"


def write(to: Path, of: Sequence[dict[str, Any]], files: Sequence[FileReport]) -> None:
    """Write it down, with the parts as they were before they were read: what has come since may not
    be in the files. Nothing in it changes when the same parts are merged again."""
    found = {"parts": of, "files": [asdict(file) for file in files]}
    to.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def parts(sources: Sequence[Path]) -> list[dict[str, Any]]:
    """All parts in these folders, with their sizes."""
    all_kinds = (*KINDS, FORGOTTEN, REFUSED)
    kinds = [(kind.name, suffix) for kind in all_kinds for suffix in kind.suffixes]
    return [
        {"folder": str(part.parent), "part": part.name, "bytes": part.stat().st_size}
        for name, suffix in [*kinds, (ITEMS, JSONL)]
        for part in parts_of(sources, name, suffix)
    ]


def is_up_to_date(folder: Path, file: Path) -> bool:
    """Whether a merged file holds what the parts in its folder do now."""
    try:
        found = json.loads((folder / FILE).read_bytes())
        return found["parts"] == parts([folder]) and _is_of(found, file)
    except (OSError, ValueError, TypeError, KeyError):
        return False


def is_of_last_merge(file: Path) -> bool:
    """Whether the last merge into its folder has made a file; True also where nobody knows."""
    try:
        return _is_of(json.loads((file.parent / FILE).read_bytes()), file)
    except (OSError, ValueError, TypeError, KeyError):
        return True


def _is_of(found: dict[str, Any], file: Path) -> bool:
    about = {one["file"]: one["bytes"] for one in found["files"]}
    return about.get(file.name) == file.stat().st_size
