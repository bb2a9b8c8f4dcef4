"""Names that begin like ours. One that is not ours stops the start if it looks like a slip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crawlproj.config import environment, misspelt
from crawlproj.config.kinds import BOOL, parsed
from crawlproj.errors import ConfigError

PREFIXES = ("CRAWL_", "FRONTIER_", "POLITENESS_", "SEEN_")


def unknown_names(settings: Mapping[str, Any], known: Sequence[str]) -> list[str]:
    """Names that begin like ours and are not. One that looks misspelt stops the start; any does in
    our own project (CRAWL_STRICT), where nobody else has such names."""
    unknown = [name for name in settings if name.startswith(PREFIXES) and name not in known]
    environment.refuse_misspelt(known, PREFIXES)
    is_strict = parsed("CRAWL_STRICT", environment.given(settings, "CRAWL_STRICT") or False, BOOL)
    for name in unknown:
        if is_strict:
            raise ConfigError(f"{name}: no such setting{misspelt.hint(name, known)}")
        if slip := misspelt.meant(name, known, PREFIXES):
            raise ConfigError(f"{name}: no such setting; did you mean {slip}?")
    return unknown
