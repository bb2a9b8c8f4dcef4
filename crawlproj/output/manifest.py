"""What a merge has made, and of what: copies can be checked, and what is out of date is known."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from crawlproj.output.kinds import FORGOTTEN, ITEMS, JSONL, KINDS
from crawlproj.output.merge_report import FileReport
from crawlproj.output.parts import parts_of

FILE = "manifest.json"


def write(to: Path, sources: Sequence[Path], files: Sequence[FileReport]) -> None:
    """Write it down. Nothing in it changes when the same parts are merged again."""
    found = {"parts": parts(sources), "files": [asdict(file) for file in files]}
    to.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def parts(sources: Sequence[Path]) -> list[dict[str, Any]]:
    """All parts in these folders, with their sizes."""
    kinds = [(kind.name, suffix) for kind in (*KINDS, FORGOTTEN) for suffix in kind.suffixes]
    return [
        {"folder": str(part.parent), "part": part.name, "bytes": part.stat().st_size}
        for name, suffix in [*kinds, (ITEMS, JSONL)]
        for part in parts_of(sources, name, suffix)
    ]


def is_up_to_date(folder: Path, file: Path) -> bool:
    """Whether a merged file holds what the parts in its folder do now."""
    try:
        found = json.loads((folder / FILE).read_bytes())
        about = {one["file"]: one["bytes"] for one in found["files"]}
        return found["parts"] == parts([folder]) and about.get(file.name) == file.stat().st_size
    except (OSError, ValueError, TypeError, KeyError):
        return False
