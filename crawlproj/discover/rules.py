"""Which links are followed. Pure: the seeds' scope is given, not looked up."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from dataclasses import dataclass, fields
from functools import cached_property

from crawlproj.config.choices import MAX_DEPTH, MAX_PARAMS, MAX_REPEATS
from crawlproj.discover.url_shapes import is_media, looks_like_trap
from crawlproj.frontier.plan import Plan
from crawlproj.urls import Url, registrable_domain

DEPTH = "depth"
"""The refusal of a link that is followed where fewer steps lead to it."""

UNASKED = ">"
"""What a name in scope begins with that the user has not given: a seed was redirected there, or it
is the domain of a seed. Such a host is followed, and its address is judged like any other."""


@dataclass(frozen=True)
class Rules:
    """Scope, patterns, depth and traps of a crawl; a refusal is a reason that the ledger counts."""

    scope: str = "any"
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    depth: int | None = None
    traps: bool = False
    trap_depth: int = MAX_DEPTH
    trap_repeats: int = MAX_REPEATS
    trap_params: int = MAX_PARAMS
    media: bool = True

    @classmethod
    def of(cls, plan: Plan) -> Rules:
        """Those of a crawl; a field of a plan that is called like one of these means the same."""
        return cls(**{one.name: getattr(plan, one.name) for one in fields(cls)})

    @cached_property
    def _allow_patterns(self) -> list[re.Pattern[str]]:
        return [re.compile(pattern) for pattern in self.allow]

    @cached_property
    def _deny_patterns(self) -> list[re.Pattern[str]]:
        return [re.compile(pattern) for pattern in self.deny]

    def refusal(self, url: Url, depth: int, in_scope: Container[str]) -> str | None:
        """Why a link is not followed, or None if it is."""
        if self.depth is not None and depth > self.depth:
            return DEPTH
        if not self.is_in_scope(url, in_scope):
            return "offsite"
        if reason := self._looks(url.path):
            return reason
        if self.deny and _matches(self._deny_patterns, url):
            return "denied"
        if self.allow and not _matches(self._allow_patterns, url):
            return "not_allowed"
        return None

    def _looks(self, path: str) -> str | None:
        if not self.media and is_media(path):
            return "media"
        if not self.traps:
            return None
        return looks_like_trap(
            path,
            max_depth=self.trap_depth,
            max_repeats=self.trap_repeats,
            max_params=self.trap_params,
        )

    @cached_property
    def goes_anywhere(self) -> bool:
        """Whether every host is in scope, whatever the seeds are."""
        return self.scope == "any"

    def is_in_scope(self, url: Url, in_scope: Container[str]) -> bool:
        """Whether the seeds have brought a URL's host into scope."""
        if self.goes_anywhere:
            return True
        name = self.scope_name(url)
        return name in in_scope or UNASKED + name in in_scope

    def scope_names(self, url: Url, *, redirected: bool = False) -> set[str]:
        """What a seed brings into scope. Its own name is there in any case: a seed's host may be
        contacted wherever it is (fetch/)."""
        own = UNASKED + url.authority if redirected else url.authority
        others = {self.scope_name(url)} - {url.authority}
        return {own, *(UNASKED + name for name in others)}

    def scope_name(self, url: Url) -> str:
        """What decides on a link: its name and port, whatever the scheme, or its domain."""
        if self.scope == "domain":
            return registrable_domain(url.host)
        return url.authority


def _matches(patterns: Iterable[re.Pattern[str]], url: Url) -> bool:
    text = str(url)
    return any(pattern.search(text) for pattern in patterns)
