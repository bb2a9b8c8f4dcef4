"""What the frontier knows each worker process by.

A name that was given (`CRAWL_WORKER_ID`) may have been that of a process before this one, or, by
mistake, be that of another that works now. The frontier therefore knows every process by its name
and a mark of its own: it never takes one for the other.
"""

from __future__ import annotations

import secrets

MARK = "~"


def marked(name: str) -> str:
    """What the frontier knows this process by."""
    return f"{name}{MARK}{secrets.token_hex(4)}"


def plain(worker: str) -> str:
    """The worker's name as users know it."""
    name, _, _ = worker.rpartition(MARK)
    return name or worker
