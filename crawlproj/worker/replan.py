"""What of a crawl's plan can be changed while it goes on, and how.

Budgets and depth can be raised: what was left out for a lower one is not remembered. Time and pace
can be changed either way. Everything else decides where URLs are kept, or which of them are the
same, and stays as it was when the crawl began.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from crawlproj.config import checked
from crawlproj.errors import ConfigError, CrawlError
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.limits import UNLIMITED, Limits

RAISED = ("pages", "pages_per_host", "pages_per_domain", "depth")
EITHER_WAY = ("minutes", "delay", "per_host")
CHANGEABLE = (*RAISED, *EITHER_WAY)
"""By the names of the spider's arguments."""

FIELDS = {"delay": "delay_s"}
"""Where a field of Config is called otherwise than its argument."""


def parse(words: list[str]) -> dict[str, Any]:
    """NAME=VALUE… as a user types it."""
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise ConfigError(f"{word}: give NAME=VALUE, such as pages=1000")
        if name not in CHANGEABLE:
            can = ", ".join(CHANGEABLE)
            raise ConfigError(f"{name}: cannot be changed while a crawl goes on; {can} can")
        found[name] = checked(FIELDS.get(name, name), value)
    return found


def changeable(plan: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    """What a crawl goes by now, of what can be changed; None is without limit."""
    return {
        "pages": None if limits.pages == UNLIMITED else limits.pages,
        "pages_per_host": limits.pages_per_host or None,
        "pages_per_domain": limits.pages_per_domain or None,
        "depth": plan["rules"].get("depth"),
        "minutes": limits.lasts_ms / 60_000 or None,
        "delay": limits.delay_ms / 1000,
        "per_host": limits.per_host,
    }


def refusal(name: str, value: Any, now: Any) -> str:
    """Why a value cannot be had, or nothing."""
    if name not in RAISED or value == now:
        return ""
    if now is None:
        return f"{name}={value}: the crawl was begun without, and it cannot be added"
    return f"{name}={value}: it is {now}, and can only be raised" if value < now else ""


async def change(frontier: Frontier, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Have a crawl go on by these values; returns all that can be changed, as it is then. Raises
    ConfigError for what cannot be had."""
    meta = await frontier.attach()
    is_over = meta.get("state") == "finished"
    if not meta or is_over or meta.get("waits") == "1":
        state = "has finished: its plan is over" if is_over else "has not begun"
        raise CrawlError(
            f"The crawl {frontier.crawl} {state}; the next takes the arguments of who begins it"
        )
    plan, limits = json.loads(meta["plan"]), frontier.limits
    now = changeable(plan, limits)
    for name, value in wanted.items():
        if problem := refusal(name, value, now[name]):
            raise ConfigError(problem)
    after = {**now, **_implied(now, wanted), **wanted}
    changed = replace(
        limits,
        pages=UNLIMITED if after["pages"] is None else after["pages"],
        pages_per_host=after["pages_per_host"] or 0,
        pages_per_domain=after["pages_per_domain"] or 0,
        lasts_ms=round((after["minutes"] or 0) * 60_000),
        delay_ms=round(after["delay"] * 1000),
        per_host=after["per_host"],
    )
    becomes = copy.deepcopy(plan)
    becomes["limits"] = vars(changed)
    becomes["rules"]["depth"] = after["depth"]
    lasts_ms = changed.lasts_ms if "minutes" in wanted else None
    change = partial(frontier.replan, meta["plan"], json.dumps(becomes), changed, lasts_ms)
    is_changed = await change()
    if not is_changed and await _is_half_changed(frontier, meta):
        is_changed = await change(mends=True)
    if not is_changed:
        raise CrawlError("Someone else has just changed the plan: look at it and try again")
    return after


def _implied(now: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """A crawl that had no delay may have had many connections a host: each of them would keep it
    by itself. As when a crawl begins, a delay without a number means one."""
    return {"per_host": 1} if wanted.get("delay") and not now["delay"] else {}


async def _is_half_changed(frontier: Frontier, meta: Mapping[str, str]) -> bool:
    """Whether the crawl still goes by this plan: then who was about to change it has died."""
    return (await frontier.attach()).get("plan") == meta["plan"]


def as_text(values: Mapping[str, Any]) -> str:
    """In one line, for people."""
    return ", ".join(
        f"{name} {'without limit' if value is None else value}" for name, value in values.items()
    )
