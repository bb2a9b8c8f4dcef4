"""The errors that a user of the project may meet, and those that end a request.

Each of the first is a sentence that says what is wrong and what to do about it; whoever shows it
prints `str(error)` and nothing more. The others say to another room what happened to a request.
This module knows nothing of Redis or the command line.
"""

from __future__ import annotations

from scrapy.exceptions import DownloadFailedError, IgnoreRequest, UnsupportedURLSchemeError


class CrawlError(Exception):
    """Something the user can put right. `str()` is one line that says how."""

    def __init__(self, message: str) -> None:
        # A server's reply or a system's message may bring line breaks into the sentence.
        super().__init__(" ".join(message.split()))


class ConfigError(CrawlError):
    """A setting, an argument or a URL that cannot be used as it is written."""


class RedisUnavailable(CrawlError):
    """No usable Redis at the address: nobody answers, or what answers is no ready Redis."""


class RedisDenied(CrawlError):
    """Redis answers and refuses us: the password, the user, its rights, or the certificate."""


class RedisUnsuitable(CrawlError):
    """Redis answers, but a crawl would not be safe on it: too old, evicting, read-only."""


class EmbeddedRedisError(CrawlError):
    """The private Redis of the project folder cannot be started or reached."""


class BadRequest(UnsupportedURLSchemeError):
    """What cannot be put into a request without changing its meaning: it is not sent."""


class BadResponse(Exception):
    """A server that does not speak HTTP as it should; asking again would not help."""


class BadCertificate(Exception):
    """A server that cannot prove to be who it should be; asking again would not help."""


class RedirectLoop(Exception):
    """Redirects that lead in a circle, or too far."""


class RedirectNowhere(Exception):
    """A redirect to something that is no URL."""


class NoLongerOurs(IgnoreRequest):
    """A request that was not made, or broken off, because others may have taken it over."""

    def __init__(self) -> None:
        super().__init__("Redis has been away for too long: others may have taken this over")


class BrowserFailed(DownloadFailedError):
    """A page that has come, whose scripts could not be run: the browser crashed, hung or did not
    start. Its host has done nothing wrong."""


class AddressRefused(IgnoreRequest):
    """Nothing that may be contacted is behind a name."""

    def __init__(self, host: str, refused: dict[str, str]) -> None:
        found = ", ".join(f"{address} ({reason})" for address, reason in refused.items())
        super().__init__(f"Refused address of {host}: {found}; CRAWL_ALLOW_ADDRESSES allows more")


class HostUnreachable(Exception):
    """A host that does not give its robots.txt: nothing of it may be asked for."""
