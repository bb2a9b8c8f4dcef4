"""What Scrapy's own settings say where ours are silent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crawlproj.config.kinds import LEAST_ATTEMPTS, MOST_ATTEMPTS, SECONDS, ZERO_OR_MORE, parsed


def from_scrapy(settings: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of Config that they are for; 0 is Scrapy's word for no limit."""
    meant = (
        ("delay_s", "DOWNLOAD_DELAY", SECONDS, 0.0),
        ("per_host", "CONCURRENT_REQUESTS_PER_DOMAIN", ZERO_OR_MORE, 1),
        ("depth", "DEPTH_LIMIT", ZERO_OR_MORE, None),
        ("memory_limit_mb", "MEMUSAGE_LIMIT_MB", ZERO_OR_MORE, 0),
    )
    found = {
        ours: parsed(theirs, settings.get(theirs) or 0, accepts) or default
        for ours, theirs, accepts, default in meant
    }
    retries = parsed("RETRY_TIMES", settings.get("RETRY_TIMES") or 0, ZERO_OR_MORE)
    found["max_attempts"] = min(max(LEAST_ATTEMPTS, retries + 1), MOST_ATTEMPTS)
    if own.get("delay_s", found["delay_s"]):
        # One connection keeps the delay between any two requests, unless the user has given a
        # number for this; Scrapy's number of connections is for crawls without a delay.
        found["per_host"] = 1
    return found
