"""With which Scrapy our own parts are used: they lean on names that the next one may not have."""

from __future__ import annotations

import os

from scrapy import version_info

TESTED = ((2, 19),)
"""Versions that `tests/contract/test_lean.py` and `test_engine.py` were passed with."""

PLAIN = "CRAWL_PLAIN_SCRAPY"
"""Environment variable: Scrapy's own parts, with any version."""


def is_tested() -> bool:
    """Whether ours may take the place of Scrapy's own."""
    return version_info[:2] in TESTED and not os.environ.get(PLAIN)
