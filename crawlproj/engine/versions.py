"""With which Scrapy our own parts are used: they lean on names that the next one may not have."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache

import scrapy

from crawlproj.config.environment import PLAIN_SCRAPY
from crawlproj.engine.names import NEEDED, QUICKER, missing
from crawlproj.errors import CrawlError

TESTED = ((2, 19),)
"""Versions that `tests/contract/test_lean.py` and `test_engine.py` were passed with."""


def is_tested() -> bool:
    """Whether ours may take the place of Scrapy's own."""
    return not reason_for_plain()


@cache
def reason_for_plain() -> str:
    """Why Scrapy's own parts are used in this process; '' if ours are."""
    if os.environ.get(PLAIN_SCRAPY):
        return f"{PLAIN_SCRAPY} is set"
    return doubt(scrapy.version_info[:2], missing(QUICKER))


def doubt(version: tuple[int | str, ...], lacking: Iterable[str]) -> str:
    """What speaks against our parts with such a Scrapy, if anything does."""
    if version not in TESTED:
        tested = ", ".join(".".join(map(str, one)) for one in TESTED)
        return f"Scrapy {scrapy.__version__} is none that ours were tested with ({tested})"
    name = next(iter(lacking), "")
    return f"Scrapy {scrapy.__version__} has no {name}" if name else ""


def refuse_unfit(lacking: Iterable[str] | None = None) -> None:
    """Raise CrawlError for a Scrapy with which nothing could be promised."""
    name = next(iter(missing(NEEDED) if lacking is None else lacking), "")
    if name:
        tested = ".".join(map(str, TESTED[-1]))
        raise CrawlError(
            f"Scrapy {scrapy.__version__} has no {name}, without which URLs could be lost: install "
            f"Scrapy {tested} (pip install 'scrapy=={tested}.*')"
        )
