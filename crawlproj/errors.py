"""The errors that a user of the project may meet.

Each one is a sentence that says what is wrong and what to do about it. This module knows nothing
of Redis, Scrapy or the command line; whoever shows an error prints `str(error)` and nothing more.
"""

from __future__ import annotations


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
