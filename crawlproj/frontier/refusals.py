"""What the scripts refuse, as exceptions. Each names the one thing that can be done about it."""

from __future__ import annotations

from redis.exceptions import BusyLoadingError, ReadOnlyError, ResponseError

from crawlproj import __version__
from crawlproj.errors import CrawlError

PASSING = ("MISCONF", "BUSY", "MASTERDOWN", "NOREPLICAS")
"""Answers of a Redis that cannot work now: its disk is full, it is busy, it lacks replicas."""


DEMOTED = (ReadOnlyError, BusyLoadingError)


def is_passing(error: ResponseError) -> bool:
    """Whether Redis refuses what it may do later."""
    return str(error).startswith(PASSING)


def is_demoted(error: Exception) -> bool:
    """Whether a replica has answered, or a server that is about to be one: a name, a virtual
    address or a proxy may lead to another server by now, but not through connections that are
    open already."""
    return isinstance(error, DEMOTED) or str(error).startswith("MASTERDOWN")


class CrawlWiped(CrawlError):
    """The crawl's state has vanished from Redis: flushed, or lost with an unsaved server."""

    def __init__(self, _: str = "") -> None:
        super().__init__(
            "the crawl's state is gone from Redis (FLUSHALL, or a restart without persistence): "
            "nothing can be said about its URLs; start it again from its seeds"
        )


class CrawlReplaced(CrawlError):
    """A new crawl of the same name has begun, so this one had finished."""

    def __init__(self, _: str = "") -> None:
        super().__init__("a new crawl of this name has begun; start this worker again to join it")


class CrawlFinished(CrawlError):
    """The crawl finished before what was pushed arrived."""

    def __init__(self, _: str = "") -> None:
        super().__init__("the crawl has finished; start it again to begin a new one")


class WorkerDeclaredDead(CrawlError):
    """The worker was silent for too long: what it held has been given to others."""

    def __init__(self, _: str = "") -> None:
        super().__init__(
            "this worker was silent for longer than FRONTIER_LEASE_TIMEOUT and counted as dead; "
            "it goes on with new work"
        )


class CrawlDamaged(CrawlError):
    """What Redis keeps of the crawl as a whole is not what the scripts wrote there."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(
            f"what Redis keeps of the crawl cannot be read ({what[:300]}): it was damaged or "
            "changed by someone else; restore it, or forget it with scrapy purge CRAWL --yes"
        )


class CrawlNewer(CrawlDamaged):
    """The plan has something that this version does not know."""

    def __init__(self, what: str, made_by: str = "") -> None:
        who = f"crawlproj {made_by[:40]}" if made_by else "a newer one"
        CrawlError.__init__(
            self,
            f"the crawl's plan has {what[:300]}, which this version of crawlproj ({__version__}) "
            f"does not know: {who} has begun it, which this machine needs too, or it was changed "
            "by someone else",
        )


class ClockInDoubt(CrawlError):
    """More time has passed on the server's clock than the caller's word accounts for: it was set,
    or the call was on its way for that long (lua/_clock.lua). Nothing was done."""

    def __init__(self, answer: str) -> None:
        super().__init__("the clock of Redis may have been set")
        server_ms, _, self.before_ms = answer.partition(" ")
        self.passed_ms = int(server_ms) - int(self.before_ms)
