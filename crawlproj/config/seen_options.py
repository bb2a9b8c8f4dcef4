"""The settings of the seen filter."""

from __future__ import annotations

from dataclasses import dataclass

from crawlproj.config.kinds import COUNT, SHARE
from crawlproj.config.option import option


@dataclass(frozen=True)
class SeenOptions:
    """Part of `Config`."""

    seen_capacity: int = option(
        "SEEN_CAPACITY", 10_000_000, COUNT, "URLs in the seen filter's first layer"
    )
    seen_error_rate: float = option(
        "SEEN_ERROR_RATE", 0.001, SHARE, "share of new URLs it may take for seen"
    )
    seen_audit_one_in: int = option(
        "SEEN_AUDIT_ONE_IN",
        1024,
        COUNT,
        "one URL in so many is kept exactly too: measures its errors",
    )
