"""How many files a worker may have open, and how many of them may be connections that rest."""

from __future__ import annotations

WANTED = 16_384
"""Open files that are asked for; systems mostly begin with 1,024, and give more to who asks."""

KEPT = (64, WANTED // 4)
"""Fewest and most connections kept for the next request."""


def raise_limit() -> None:
    """Ask for as many open files as are wanted, as far as the system lets this user."""
    try:
        import resource
    except ImportError:  # not on this system
        return
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if most == resource.RLIM_INFINITY else min(WANTED, most)
    if allowed != resource.RLIM_INFINITY and allowed < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def most_kept() -> int:
    """A quarter of the files that may be open: a broad crawl must not run out of them, and one of
    a thousand hosts should not connect anew for each page."""
    try:
        import resource
    except ImportError:  # not on this system
        return KEPT[0]
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    fewest, most = KEPT
    return most if allowed == resource.RLIM_INFINITY else min(most, max(fewest, allowed // 4))
