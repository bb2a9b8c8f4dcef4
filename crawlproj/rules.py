"""Which links are followed. Pure: the seeds' scope is given, not looked up."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from crawlproj.urls import Url, registrable_domain


@dataclass(frozen=True)
class Rules:
    """Scope, patterns and depth of a crawl; a refusal is a reason that the ledger counts."""

    scope: str = "any"
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    depth: int | None = None
    _allow: re.Pattern[str] | None = field(init=False, repr=False)
    _deny: re.Pattern[str] | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_allow", _any_of(self.allow))
        object.__setattr__(self, "_deny", _any_of(self.deny))

    def refusal(self, url: Url, depth: int, in_scope: Container[str]) -> str | None:
        """Why a link is not followed, or None if it is."""
        if self.depth is not None and depth > self.depth:
            return "depth"
        if self.scope != "any" and self.scope_name(url) not in in_scope:
            return "offsite"
        if self._deny and self._deny.search(str(url)):
            return "denied"
        if self._allow and not self._allow.search(str(url)):
            return "not_allowed"
        return None

    def scope_name(self, url: Url) -> str:
        """What a seed brings into scope: its name and port, whatever the scheme, or its domain."""
        if self.scope == "domain":
            return registrable_domain(url.host)
        return url.host.partition("://")[2]


def _any_of(patterns: Iterable[str]) -> re.Pattern[str] | None:
    joined = "|".join(f"(?:{pattern})" for pattern in patterns)
    return re.compile(joined) if joined else None
