"""How a setting of ours is written down: its name, default, kind and meaning, in one place."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from crawlproj.config.kinds import Accepts


def option(
    setting: str, default: Any, accepts: Accepts, doc: str, argument: str | None = None
) -> Any:
    """A field of `Config` that is a setting, and the spider's argument for it if it has one."""
    metadata = {"setting": setting, "accepts": accepts, "doc": doc, "argument": argument}
    return field(default=default, metadata=metadata)
