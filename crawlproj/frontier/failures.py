"""What an exception that ended a request says: by which word it is counted, whether trying again
might help, and what it shows of the host. One table, in which an exception is found by its class
or the nearest one above it. Knows Scrapy's exceptions and ours, nothing else.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    IgnoreRequest,
    ResponseDataLossError,
    UnsupportedURLSchemeError,
)

from crawlproj.errors import (
    AddressRefused,
    BadCertificate,
    BadRequest,
    BadResponse,
    BrowserFailed,
    HostUnreachable,
    RedirectLoop,
    RedirectNowhere,
)


class Health(IntEnum):
    """What a request has shown of its host."""

    ANSWERED = -1
    UNKNOWN = 0
    FAILED = 1
    OVERLOADED = 2


class Meaning(NamedTuple):
    """What an exception says."""

    reason: str
    """As the ledger counts it (reasons.py)."""
    may_pass: bool
    """Whether it is about the moment, and not about the URL."""
    health: Health


MEANINGS: dict[type[Exception], Meaning] = {
    # Nothing was sent.
    IgnoreRequest: Meaning("ignored", False, Health.UNKNOWN),
    AddressRefused: Meaning("address", False, Health.UNKNOWN),
    UnsupportedURLSchemeError: Meaning("scheme", False, Health.UNKNOWN),
    BadRequest: Meaning("request", False, Health.UNKNOWN),
    HostUnreachable: Meaning("unreachable", True, Health.UNKNOWN),
    # No answer, or part of one.
    CannotResolveHostError: Meaning("dns", True, Health.FAILED),
    DownloadConnectionRefusedError: Meaning("connection", True, Health.FAILED),
    DownloadFailedError: Meaning("connection", True, Health.FAILED),
    DownloadTimeoutError: Meaning("timeout", True, Health.FAILED),
    ResponseDataLossError: Meaning("truncated", True, Health.FAILED),
    # An answer that is of no use.
    BadCertificate: Meaning("certificate", False, Health.ANSWERED),
    BadResponse: Meaning("protocol", False, Health.ANSWERED),
    DownloadCancelledError: Meaning("size", False, Health.ANSWERED),
    RedirectLoop: Meaning("redirect_loop", False, Health.ANSWERED),
    RedirectNowhere: Meaning("redirect_nowhere", False, Health.ANSWERED),
    BrowserFailed: Meaning("browser", True, Health.ANSWERED),
}


def meaning_of(error: Exception) -> Meaning:
    """What an exception says. One that nobody here knows, of another download handler say, is
    counted by the name of its class and taken for a failure of the host that may pass."""
    kind = type(error)
    for one in kind.__mro__:
        if one in MEANINGS:
            return MEANINGS[one]
    return Meaning(kind.__name__, may_pass=True, health=Health.FAILED)
