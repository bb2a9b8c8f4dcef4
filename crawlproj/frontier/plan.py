"""The plan of a crawl: all that belongs to the crawl and not to a worker of it, as one value.

The worker that begins a crawl makes the plan of its settings, Redis keeps it, and all workers go by
it. A limit that is not there is None, whatever settings and scripts call it.

A paused crawl outlives an upgrade, so a plan is written by one version and read by another. What an
older version did not write has the value by which it went; a newer one is told from damage by its
number, or by what it has beyond what is known.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any

from crawlproj import __version__
from crawlproj.config import BY_URL, Config, checked
from crawlproj.config.budgets import per_second
from crawlproj.errors import ConfigError
from crawlproj.frontier.levels import level, seed_level
from crawlproj.frontier.refusals import CrawlDamaged, CrawlNewer

VERSION = 2
"""To be raised when what is in a plan changes its meaning; names may be added without. Plans
without a number are older than all."""
IN_PARTS = 1
"""The last version that wrote rules and limits apart."""

_FOR_VERSION_1: Mapping[str, Any] = {"limits": {}}
"""Workers of version 1 look for these before they look at the version: without, they would take a
newer plan for a damaged one, and advise to purge the crawl."""

HOST, DOMAIN, ADDRESS = "host", "domain", "address"
"""What keeps one pace: a host by itself, or all hosts of a registrable domain or an address."""

CHANGEABLE = (
    "pages",
    "pages_per_host",
    "pages_per_domain",
    "depth",
    "minutes",
    "delay_s",
    "per_host",
    "scope",
    "allow",
    "deny",
)
"""What can be changed while a crawl goes on (worker/replan.py)."""

NO_LIMIT = "without limit"
_NOTHING = {"cookies": "not shared"}
"""What to tell people where a field says nothing."""

URLS_A_BUCKET = 64
"""On average, of a shard that is as full as SEEN_CAPACITY says. Redis packs hashes of up to 128
fields (hash-max-listpack-entries), which takes a quarter of the memory."""

UNLIMITED_PAGES = -1
"""What the scripts read for a crawl without a page budget."""


@dataclass(frozen=True)
class Plan:
    """What a crawl was begun with, the same for every worker of it. A field that is called like one
    of Config means the same."""

    spider: str = ""
    """The name of the spider that it was begun with; "": not known."""

    scope: str = Config.scope
    allow: tuple[str, ...] = Config.allow
    deny: tuple[str, ...] = Config.deny
    depth: int | None = None
    media: bool = Config.media
    traps: bool = Config.traps
    trap_depth: int = Config.trap_depth
    trap_repeats: int = Config.trap_repeats
    trap_params: int = Config.trap_params

    links: bool = Config.links
    check: str | None = None
    anchors: bool = Config.anchors
    attributes: bool = Config.attributes
    keep: str | None = None
    extract: str | None = None
    archive: bool = Config.archive
    render: str | None = None
    archive_dedup: bool = Config.archive_dedup
    near: bool = Config.near

    identity: str = Config.identity
    drop_params: tuple[str, ...] = Config.drop_params

    strategy: str = Config.strategy
    weights: Mapping[str, Any] | None = None
    novelty: str = ""
    """The weights by which the scripts rank; "": they do not."""

    delay_s: float = 0.0
    per_host: int = 1
    group: str = HOST
    shared_pace: bool = Config.shared_pace
    give_up: int | None = None
    max_attempts: int = Config.max_attempts

    pages: int | None = None
    pages_per_host: int | None = None
    pages_per_domain: int | None = None
    minutes: float | None = None
    stay: bool = Config.stay

    refresh: str | None = None
    refresh_shortest_s: float = Config.refresh_shortest_s
    refresh_longest_s: float = Config.refresh_longest_s
    refresh_policy: str = Config.refresh_policy

    stored: bool = False
    """Whether pages are kept by URL. Where, which may take a password, each worker is told by its
    own setting."""

    cookies: str | None = None
    """None: an older version has begun it, and each worker goes by its own setting."""

    outcomes: bool = Config.outcomes
    """Whether it is kept of every URL what became of it (frontier/outcome_records.py)."""

    speculate: bool = Config.speculate
    """Whether leases that last too long are copied (lua/_copies.lua)."""

    shards: int = Config.shards
    seen_capacity: int = Config.seen_capacity
    seen_error_rate: float = Config.seen_error_rate

    @classmethod
    def of(cls, config: Config, *, spider: str = "", novelty: str = "") -> Plan:
        """What a worker with these settings would begin a crawl with."""
        named = {name: getattr(config, name) for name in _OF_CONFIG}
        for name in ("delay_s", "per_host"):
            named[name] = named[name] or getattr(cls, name)
        # A crawl that goes on for weeks outlives the failures of its hosts.
        named["give_up"] = None if config.refresh else config.give_up or None
        return cls(spider=spider, novelty=novelty, stored=bool(config.store), **named)

    @classmethod
    def decode(cls, text: str | bytes, made_by: str = "") -> Plan:
        """The plan that Redis kept, of a crawl that this version of crawlproj has begun. It is
        checked like a user's settings, for others may have written it; raises CrawlNewer or
        CrawlDamaged."""
        version, named = _kept(text)
        if version > VERSION:
            raise CrawlNewer(f"version {version}", made_by)
        if unknown := sorted(named.keys() - _NAMES):
            raise CrawlNewer(", ".join(unknown), made_by)
        return cls(**{name: _checked(name, value) for name, value in named.items()})

    @classmethod
    def decode_known(cls, text: str | bytes) -> Plan:
        """What this version knows of a plan by which it could not work: enough to look at the
        crawl; raises CrawlDamaged."""
        named, known = _kept(text)[1], {}
        for name in named.keys() & _NAMES:
            with suppress(CrawlDamaged):
                known[name] = _checked(name, named[name])
        if "shards" in named.keys() - known.keys():
            raise CrawlDamaged("the plan's shards")
        return cls(**known)

    def encode(self) -> str:
        """As Redis keeps it."""
        return json.dumps({"version": VERSION, **_FOR_VERSION_1, **vars(self)})

    def differing(self, wanted: Plan, names: Collection[str]) -> list[str]:
        """What of this plan is not as somebody wants it, for people; looks at these fields."""
        return [
            f"{shown_name(name)} {shown(getattr(self, name), _NOTHING.get(name, NO_LIMIT))}"
            for name in vars(self)
            if name in names and getattr(self, name) != getattr(wanted, name)
        ]

    def meta_fields(self, shard: int, encoded: str) -> dict[str, Any]:
        """The fields of META that the scripts of one shard go by, in their words."""
        return {
            "per_host": self.per_host,
            "delay_ms": self.delay_ms,
            "pages": self._share(shard),
            "pages_per_host": self.pages_per_host or 0,
            "max_attempts": self.max_attempts,
            "give_up": self.give_up or 0,
            "plan": encoded,
            "made_by": __version__,
            **({"refresh": self.revisits_per_s / self.shards} if self.refresh else {}),
            **({"outcomes": self._outcome_buckets} if self.outcomes else {}),
            **({"speculate": 1} if self.speculate else {}),
            **({"novelty": self.novelty} if self.novelty else {}),
            **({"group": self.group} if self.group != HOST else {}),
            **({"pages_per_domain": self.pages_per_domain} if self.pages_per_domain else {}),
        }

    @property
    def revisits_per_s(self) -> float:
        """The budget of fetches of a crawl that revisits its pages; 0: it does not."""
        return per_second(self.refresh) if self.refresh else 0.0

    @property
    def wants_attributes(self) -> bool:
        """Whether rows are kept of what pages say of themselves: of all, or of some."""
        return self.attributes or self.keep is not None

    @property
    def delay_ms(self) -> int:
        return round(self.delay_s * 1000)

    @property
    def lasts_ms(self) -> int:
        """How long the crawl runs, in the scripts' words; 0: until it has finished."""
        return round((self.minutes or 0) * 60_000)

    @property
    def has_page_budget(self) -> bool:
        """Whether pages are counted out, to the crawl or to hosts or domains."""
        budgets = self.pages, self.pages_per_host, self.pages_per_domain
        return any(budget is not None for budget in budgets)

    def level_of(self, priority: float, *, is_seed: bool) -> float:
        """The queue that a URL of this priority goes to."""
        if is_seed:
            return seed_level(priority, has_page_budget=self.has_page_budget)
        return level(priority)

    @property
    def by_domain(self) -> bool:
        """Whether the hosts of a registrable domain share something, and so a shard."""
        return self.group == DOMAIN or self.pages_per_domain is not None

    def gives_up(self, failures: int) -> bool:
        """Whether a host is given up that has failed so often in a row."""
        return self.give_up is not None and failures >= self.give_up

    @property
    def _outcome_buckets(self) -> int:
        """Enough that Redis packs each, as long as the crawl has no more URLs than planned."""
        return self.seen_capacity // self.shards // URLS_A_BUCKET + 1

    def _share(self, shard: int) -> int:
        if self.pages is None:
            return UNLIMITED_PAGES
        return self.pages // self.shards + (shard < self.pages % self.shards)


_NAMES = {one.name for one in fields(Plan)}
_OF_CONFIG = _NAMES & {one.name for one in fields(Config)}
_MAY_BE_NONE = {one.name for one in fields(Plan) if one.default is None}


def shown_name(name: str) -> str:
    """As the arguments of spiders are called."""
    return name.removesuffix("_s")


def shown(value: Any, nothing: str = NO_LIMIT) -> str:
    """A value of a plan, for people."""
    return nothing if value in (None, (), "") else str(value)


def _checked(name: str, value: Any) -> Any:
    """A value of a plan that others may have written: one that could have been given as a setting,
    and is of its type already."""
    if value is None and name in _MAY_BE_NONE:
        return None
    if name == "stored" and isinstance(value, bool):
        return value
    given = tuple(value) if isinstance(value, list) else value
    is_text = name not in _OF_CONFIG or (name == "cookies" and given == "")
    try:
        found = str(given) if is_text else checked(name, given)
    except (ConfigError, RecursionError) as error:
        raise CrawlDamaged(f"the plan's {name}: {' '.join(str(error).split())}") from None
    if found is None or found != given:
        raise CrawlDamaged(f"the plan's {name}")
    return found


def _kept(text: str | bytes) -> tuple[int, dict[str, Any]]:
    """The version of a plan, and what it has; raises CrawlDamaged."""
    try:
        kept = json.loads(text)
    except (ValueError, RecursionError):
        raise CrawlDamaged("the plan") from None
    version = kept.pop("version", 0) if isinstance(kept, dict) else None
    if type(version) is not int:
        raise CrawlDamaged("the plan")
    return version, _joined(kept) if version <= IN_PARTS else _without_parts(kept)


def _without_parts(kept: dict[str, Any]) -> dict[str, Any]:
    older = _FOR_VERSION_1.items()
    return {name: value for name, value in kept.items() if (name, value) not in older}


def _joined(kept: dict[str, Any]) -> dict[str, Any]:
    """A plan in parts, which had several words for a limit that is not there: -1 pages, and 0 of
    anything else. The oldest knew requests by their URL alone."""
    rules, limits = kept.get("rules"), kept.get("limits")
    if not isinstance(rules, dict) or not isinstance(limits, dict):
        raise CrawlDamaged(f"the plan's {'limits' if isinstance(rules, dict) else 'rules'}")
    found = {"identity": BY_URL, "spider": kept.get("spider") or "", **rules, **limits}
    try:
        found["delay_s"] = found.pop("delay_ms", 0) / 1000
        found["minutes"] = found.pop("lasts_ms", 0) / 60_000
    except TypeError:
        raise CrawlDamaged("the plan's limits") from None
    absent = {"pages": -1, "minutes": 0, "pages_per_host": 0, "pages_per_domain": 0, "give_up": 0}
    for name, word in absent.items():
        if found.get(name) == word:
            found[name] = None
    return found
