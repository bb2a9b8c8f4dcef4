"""What of a crawl's plan can be changed while it goes on, and how.

Budgets and depth can be raised: what was left out for a lower one is not remembered. One that the
crawl lacks can be added, but for that of domains, which decides on the shard of a URL; it counts
what has been fetched so far, and what is queued stays queued. Time and pace can be changed either
way. So can scope and patterns: links that are found from then on are judged by them, what is queued
stays queued. Everything else decides where URLs are kept, or which of them are the
same, and stays as it was when the crawl began.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from crawlproj.config import checked
from crawlproj.discover.rules import UNASKED
from crawlproj.errors import ConfigError, CrawlError
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.plan import CHANGEABLE, DOMAIN, Plan, shown, shown_name
from crawlproj.frontier.plan_change import change_plan
from crawlproj.frontier.shard import pages_used
from crawlproj.urls import registrable_domain

RAISED = ("pages", "pages_per_host", "pages_per_domain", "depth")
RULES = ("scope", "allow", "deny")
"""What is changed by command alone: who starts a worker with other rules wants another crawl."""
ADDED = ("pages", "pages_per_host", "depth")
FIELDS = {shown_name(name): name for name in CHANGEABLE}
"""Argument of the spider -> field of Plan."""


def parse(words: list[str]) -> dict[str, Any]:
    """NAME=VALUE… as a user types it."""
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise ConfigError(f"{word}: give NAME=VALUE, such as pages=1000")
        if name not in FIELDS:
            can = ", ".join(FIELDS)
            raise ConfigError(f"{name}: cannot be changed while a crawl goes on; {can} can")
        found[name] = checked(FIELDS[name], value)
    return found


def changeable(plan: Plan) -> dict[str, Any]:
    """What a crawl goes by, of what can be changed, by the names of the spider's arguments."""
    return {name: getattr(plan, field) for name, field in FIELDS.items()}


def refusal(name: str, value: Any, now: Any) -> str:
    """Why a value cannot be had, or nothing."""
    if name not in RAISED or value == now:
        return ""
    if now is None and name in ADDED:
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
    becomes = changed(frontier.plan, wanted)
    await _bring_into_scope(frontier, becomes)
    await _refuse_too_few_pages(frontier, becomes)
    lasts_ms = becomes.lasts_ms if "minutes" in wanted else None
    change = partial(
        change_plan, frontier.shards, frontier.plan, becomes, before=meta["plan"], lasts_ms=lasts_ms
    )
    is_changed = await change()
    if not is_changed and await _is_half_changed(frontier, meta):
        is_changed = await change(mends=True)
    if not is_changed:
        raise CrawlError("Someone else has just changed the plan: look at it and try again")
    frontier.plan = becomes
    return changeable(becomes)


def changed(plan: Plan, wanted: Mapping[str, Any]) -> Plan:
    """The plan with these values; raises ConfigError for what cannot be had."""
    now = changeable(plan)
    for name, value in wanted.items():
        if problem := refusal(name, value, now[name]):
            raise ConfigError(problem)
    values = {**_implied(plan, wanted), **wanted}
    return replace(plan, **{FIELDS[name]: value for name, value in values.items()})


async def _bring_into_scope(frontier: Frontier, becomes: Plan) -> None:
    """Have the domains of the seeds in scope before workers look for them there."""
    if becomes.scope != DOMAIN or frontier.plan.scope == DOMAIN:
        return
    hosts = {name.removeprefix(UNASKED) for name in await frontier.scope_since(0)}
    domains = {registrable_domain(f"http://{host}") for host in hosts}
    if new := domains - hosts:
        await frontier.widen_scope([UNASKED + domain for domain in new])


async def _refuse_too_few_pages(frontier: Frontier, becomes: Plan) -> None:
    """A budget that is used up before it is there would end the crawl at once."""
    if becomes.pages is None or frontier.plan.pages is not None:
        return
    used = pages_used(await frontier.counts())
    if becomes.pages <= used:
        raise ConfigError(
            f"pages={becomes.pages}: {used} are fetched or being fetched already; give more, or "
            f"end it with scrapy stop {frontier.crawl}"
        )


def _implied(plan: Plan, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """One connection a host, where a delay is given without a number of connections, as when a
    crawl begins: each of the many that a crawl without delay has would keep the delay by itself."""
    return {"per_host": 1} if wanted.get("delay") and not plan.delay_s else {}


async def _is_half_changed(frontier: Frontier, meta: Mapping[str, str]) -> bool:
    """Whether the crawl still goes by this plan: then who was about to change it has died."""
    return (await frontier.attach()).get("plan") == meta["plan"]


def as_text(values: Mapping[str, Any]) -> str:
    """In one line, for people."""
    return ", ".join(f"{name} {_shown(name, value)}" for name, value in values.items())


def _shown(name: str, value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(value) or "none"
    return shown(value)
