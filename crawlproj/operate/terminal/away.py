"""What is said while Redis does not answer: since when, why, and what is true all the same."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime

from crawlproj.operate.plain_text import in_one_line
from crawlproj.output.summary import duration

STILL_TRUE = (
    "What is shown is as it stood then. Workers finish what they hold, begin nothing new, and go "
    "on by themselves when it is back; what Redis had not written to disk is fetched again."
)
GONE = (
    "This Redis no longer has the crawl: it was purged, or Redis has lost its data (see scrapy "
    "doctor for how it is kept). Workers stop and say so."
)


@dataclass(frozen=True)
class Away:
    """A Redis that does not answer."""

    why: str
    since: float = field(default_factory=time.monotonic)
    at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def sentence(self) -> str:
        """In one line."""
        silent, why = duration(time.monotonic() - self.since), in_one_line(self.why)
        return f"Redis has not answered for {silent}, since {self.at:%H:%M:%S} UTC: {why}."


def still_away(before: Away | None, error: Exception) -> Away:
    """The same silence as before, or a new one."""
    why = str(error).rstrip(".") or type(error).__name__
    return Away(why) if before is None else Away(why, before.since, before.at)
