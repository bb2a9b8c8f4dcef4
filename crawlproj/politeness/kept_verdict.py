"""What the robots.txt that Redis keeps of a host says of one URL, for who looks on. Changes
nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redis.exceptions import ResponseError

from crawlproj.politeness import robots
from crawlproj.politeness.robots_memory import DISALLOWED, NOT_CONTACTED, UNREACHABLE
from crawlproj.politeness.robots_store import RobotsStore

if TYPE_CHECKING:
    from crawlproj.frontier.frontier import Frontier


async def refusal(frontier: Frontier, user_agent: str, host: str, url: str) -> str:
    """Why the page must not be fetched; empty if it may be, or if nothing is kept of its host."""
    try:
        record = await RobotsStore(frontier).peek(host)
    except ResponseError:  # not of the type that it should be
        return ""
    stored = robots.unpack(record)
    if stored is None:
        return ""
    if stored.verdict in robots.DENIALS:
        return NOT_CONTACTED if robots.is_not_contacted(record) else UNREACHABLE
    return "" if stored.rules(user_agent).allows(url) else DISALLOWED
