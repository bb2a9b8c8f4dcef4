"""Settings of ours by variables of the environment, as containers and services are given theirs.

A variable has the name of its setting. It counts more than what files and spiders say, and less
than the command line, as REDIS_URL does. Whoever wants a setting of ours without `Config` asks
here.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection, Mapping
from typing import Any

from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings

from crawlproj import failpoints
from crawlproj.config import misspelt
from crawlproj.errors import ConfigError

PLAIN_SCRAPY = "CRAWL_PLAIN_SCRAPY"
"""Scrapy's own parts are used, with any version (engine/versions.py)."""

NO_SETTINGS = frozenset({PLAIN_SCRAPY, failpoints.VARIABLE})
"""Variables of ours that are no settings."""


ALIKE = 0.8
"""Share of letters that two names have in common, from which on they are alike."""


def given(settings: Mapping[str, Any], name: str) -> Any:
    """What the user has said of a setting of ours; None if nothing."""
    spoken = os.environ.get(name)
    if not spoken or _is_above(settings, name):
        return settings.get(name)
    return spoken


def boolean(raw: Any) -> bool:
    """A setting that is true or false; ValueError if it is neither."""
    text = str(raw).strip().lower()
    if text in ("1", "true", "yes", "on"):
        return True
    if text in ("0", "false", "no", "off", "", "none"):
        return False
    raise ValueError


def refuse_misspelt(known: Collection[str], prefixes: tuple[str, ...]) -> None:
    """Stop at a variable that looks like a slip of ours; others may have names that begin so."""
    for name in _unknown(known, prefixes):
        if slip := misspelt.meant(name, known, prefixes):
            raise ConfigError(f"{name} in the environment: no such setting; did you mean {slip}?")


def doubts(known: Collection[str], prefixes: tuple[str, ...]) -> list[str]:
    """What to say of variables that resemble ours, and may be others' all the same."""
    return [
        f"{name} in the environment is no setting; did you mean {nearest[0]}?"
        for name in _unknown(known, prefixes)
        if (nearest := difflib.get_close_matches(name, known, n=1, cutoff=ALIKE))
    ]


def _unknown(known: Collection[str], prefixes: tuple[str, ...]) -> list[str]:
    return [
        name
        for name in os.environ
        if name.startswith(prefixes) and name not in known and name not in NO_SETTINGS
    ]


def _is_above(settings: Mapping[str, Any], name: str) -> bool:
    """Whether the command line, or a command for itself, has set it."""
    if not isinstance(settings, BaseSettings):
        return False
    return (settings.getpriority(name) or 0) > SETTINGS_PRIORITIES["spider"]
