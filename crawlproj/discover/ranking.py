"""Priority strategies: from what is known of a link to its priority. Pure.

A strategy is a function of one `Candidate`; a setting names it, another changes its weights.
What becomes of a priority is said in frontier/levels.py. What `novelty` says of a host as a whole
is not a link's: the frontier adds it when it decides which host is next.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, fields
from importlib import import_module
from math import log2
from typing import Any, NamedTuple

from crawlproj.discover.url_shapes import is_document, is_media
from crawlproj.errors import ConfigError
from crawlproj.frontier.levels import HIGHEST, LOWEST, level
from crawlproj.urls import Url

logger = logging.getLogger(__name__)


class Candidate(NamedTuple):
    """What is known of a link when it is found."""

    url: Url
    depth: int
    host_pages: int
    """Pages of its host that all workers together have fetched so far."""
    share: float = 1.0
    """What it has of the cash of the page that it was found on, under `opic`; a seed has 1."""

    @property
    def domain_pages(self) -> int:
        """`host_pages`, by its former name."""
        return self.host_pages


Strategy = Callable[[Candidate], float]


@dataclass(frozen=True)
class Breadth:
    """First come, first served."""

    def __call__(self, _: Candidate) -> float:
        return 0


@dataclass(frozen=True)
class Weighted:
    """`start` less so much for each link away from the seed, for media or a document, for a query
    of more than 50 characters, for a URL of more than 100, and more for a host with fewer than 10
    pages so far; from 0 to 100."""

    start: float = 100
    depth: float = 10
    media: float = 20
    long_query: float = 10
    long_url: float = 5
    new_host: float = 5

    def __call__(self, candidate: Candidate) -> float:
        path, _, query = candidate.url.path.partition("?")
        score = self.start - self.depth * candidate.depth
        score -= self.media * (is_media(path) or is_document(path))
        score -= self.long_query * (len(query) > 50)
        score -= self.long_url * (len(candidate.url.host) + len(candidate.url.path) > 100)
        score += self.new_host * (candidate.host_pages < 10)
        return max(0, min(100, score))


@dataclass(frozen=True)
class Novelty:
    """max(0, start - per_page · pages fetched of the host) + per_link · times the URL was found
    + per_mention · times its host was. A link that is found again rises while it is queued."""

    start: float = 10
    per_page: float = 0.1
    per_link: float = 1
    per_mention: float = 0.01

    def __call__(self, _: Candidate) -> float:
        return self.per_link

    def __str__(self) -> str:
        """The weights, as the frontier's scripts read them."""
        return " ".join(str(weight) for weight in astuple(self))


STEPS = 4
"""Levels of a queue from an amount of cash to twice as much."""
OWN = 0.15
"""What a page has to share out beside 0.85 of what it was given, as PageRank has it. Without, cash
that is given to pages that have been fetched would be gone, and the crawl would go by depth."""


@dataclass(frozen=True)
class Opic:
    """On-line page importance: a page that is fetched shares its cash out among its links, and the
    URL that has been given most so far is fetched next. A priority is the logarithm of the cash, so
    that levels say what a page has to share out, and nothing else needs to be kept or sent."""

    def __call__(self, candidate: Candidate) -> float:
        return STEPS * log2(candidate.share)

    def share(self, priority: float, links: int) -> float:
        """What each link has of the cash of a page with that priority."""
        cash: float = 2.0 ** (max(LOWEST, min(HIGHEST, priority)) / STEPS)
        return (OWN + (1 - OWN) * cash) / max(1, links)

    def __str__(self) -> str:
        """As the frontier's scripts read it."""
        return f"opic {STEPS}"


breadth, weighted, novelty, opic = Breadth(), Weighted(), Novelty(), Opic()
STRATEGIES: dict[str, Strategy] = {
    "breadth": breadth,
    "weighted": weighted,
    "novelty": novelty,
    "opic": opic,
}


def ranked_by_scripts(found: Strategy) -> str:
    """The weights of a strategy by which links are ranked again in Redis; "" for others."""
    return str(found) if isinstance(found, Novelty | Opic) else ""


def strategy(name: str, weights: Mapping[str, Any] | None = None) -> Strategy:
    """The strategy of that name, or the function at that dotted path."""
    if name not in STRATEGIES:
        return _imported(name)
    kind: Any = type(STRATEGIES[name])
    known = [field.name for field in fields(kind)]
    for weight, value in (weights or {}).items():
        if weight not in known or isinstance(value, bool) or not isinstance(value, int | float):
            names = ", ".join(known) or "none"
            raise ConfigError(
                f"CRAWL_WEIGHTS: {weight}={value}: strategy {name} has these weights, each a "
                f"number: {names}"
            )
    found: Strategy = kind(**(weights or {}))
    return found


class OwnStrategy:
    """A function of the user's. A link for which it fails has the priority 0: it is neither lost
    nor does it hold up the others of its page. The first failure is logged."""

    def __init__(self, path: str, function: Strategy) -> None:
        self._path = path
        self._function = function
        self._has_failed = False

    def __call__(self, candidate: Candidate) -> float:
        try:
            return level(self._function(candidate))
        except Exception:
            if not self._has_failed:
                self._has_failed = True
                logger.exception(
                    "strategy=%s fails for %s, which has the priority 0 therefore; others for "
                    "which it fails have it too, and are not logged",
                    self._path,
                    candidate.url,
                )
            return 0

    def try_out(self) -> None:
        """Raise ConfigError unless it ranks an ordinary link."""
        sample = Candidate(Url("https://example.com", "/"), 0, 0)
        try:
            level(self._function(sample))
        except Exception as error:
            raise ConfigError(
                f"strategy={self._path}: fails for {sample.url} ({type(error).__name__}: {error}); "
                "give a function from a Candidate to a number (docs/strategies.md)"
            ) from None


def _imported(path: str) -> Strategy:
    module, _, name = path.rpartition(".")
    try:
        function = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"strategy={path}: cannot be imported: {error}") from None
    if not callable(function):
        raise ConfigError(f"strategy={path}: give the dotted path of a function")
    if isinstance(function, Breadth | Weighted | Novelty | Opic):
        ours: Strategy = function
        return ours
    found = OwnStrategy(path, function)
    found.try_out()
    return found
