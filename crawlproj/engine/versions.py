"""With which Scrapy our own parts are used: they lean on names that the next one may not have."""

from __future__ import annotations

import os

from scrapy import version_info

from crawlproj.config.environment import PLAIN_SCRAPY

TESTED = ((2, 19),)
"""Versions that `tests/contract/test_lean.py` and `test_engine.py` were passed with."""


def is_tested() -> bool:
    """Whether ours may take the place of Scrapy's own."""
    return version_info[:2] in TESTED and not os.environ.get(PLAIN_SCRAPY)
