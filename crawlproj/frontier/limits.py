"""The limits of a crawl, the same for every worker of it, and what each shard has of them. Pure."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from crawlproj.frontier import plan as plans
from crawlproj.frontier.refusals import CrawlDamaged

UNLIMITED = -1
MOST_SHARDS = 16_384
_KINDS: dict[type, tuple[type, ...]] = {int: (int,), float: (int, float), str: (str,)}
CHANGEABLE_LIMITS = (
    "per_host",
    "delay_ms",
    "pages",
    "pages_per_host",
    "pages_per_domain",
    "lasts_ms",
)
"""What can be changed while a crawl goes on."""

HOST, DOMAIN, ADDRESS = "host", "domain", "address"
"""What keeps one pace: a host by itself, or all hosts of a registrable domain or an address."""


@dataclass(frozen=True)
class Limits:
    """What a crawl was begun with, the same for every worker of it."""

    per_host: int = 1
    delay_ms: int = 0
    pages: int = UNLIMITED
    pages_per_host: int = 0
    pages_per_domain: int = 0
    group: str = HOST
    lasts_ms: int = 0
    max_attempts: int = 4
    give_up: int = 0
    novelty: str = ""
    shards: int = 1
    seen_capacity: int = 10_000_000
    seen_error_rate: float = 0.001

    @classmethod
    def of(cls, plan: Any) -> Limits:
        """The limits in a plan that Redis kept; raises CrawlDamaged if they are not ours. One that
        an older version did not know is as it is here by default."""
        kept = plans.part(plan, "limits", [one.name for one in fields(cls)])
        try:
            limits = cls(**kept)
            kinds = all(type(v) in _KINDS[type(getattr(cls, k))] for k, v in vars(limits).items())
            if kinds and 1 <= limits.shards <= MOST_SHARDS:
                return limits
        except (TypeError, KeyError):
            pass
        raise CrawlDamaged("the plan's limits")

    def fields(self, shard: int, plan: str) -> dict[str, Any]:
        """The fields of META that the scripts of one shard go by."""
        return {
            "per_host": self.per_host,
            "delay_ms": self.delay_ms,
            "pages": self._share(shard),
            "pages_per_host": self.pages_per_host,
            "max_attempts": self.max_attempts,
            "give_up": self.give_up,
            "plan": plan,
            **({"novelty": self.novelty} if self.novelty else {}),
            **({"group": self.group} if self.group != HOST else {}),
            **({"pages_per_domain": self.pages_per_domain} if self.pages_per_domain else {}),
        }

    @property
    def has_page_budget(self) -> bool:
        """Whether pages are counted out, to the crawl or to hosts or domains."""
        return self.pages != UNLIMITED or self.pages_per_host > 0 or self.pages_per_domain > 0

    @property
    def by_domain(self) -> bool:
        """Whether the hosts of a registrable domain share something, and so a shard."""
        return self.group == DOMAIN or self.pages_per_domain > 0

    def _share(self, shard: int) -> int:
        if self.pages == UNLIMITED:
            return UNLIMITED
        return self.pages // self.shards + (shard < self.pages % self.shards)
