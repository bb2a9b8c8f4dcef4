"""The robots.txt that demo hosts serve, and what it means for a path.

The rules are few and their meaning is written down a second time, by hand, so that a crawler's
robots parser is checked against something other than a robots parser.
"""

from __future__ import annotations

import math

PRIVATE = "/private/"
PRESS = "/private/press/"


def allows(path: str) -> bool:
    return path.startswith(PRESS) or not path.startswith(PRIVATE)


def text(crawl_delay_s: float) -> str:
    delay = f"Crawl-delay: {crawl_delay_s:g}\n" if crawl_delay_s else ""
    return (
        "# A robot that is welcome nowhere, and rules for all others.\n"
        "User-agent: greedybot\nDisallow: /\n\n"
        f"User-agent: *\nDisallow: {PRIVATE}\nAllow: {PRESS}\n{delay}"
    )


def is_served_by(host: int, fraction: float) -> bool:
    """Spreads the fraction evenly over the hosts; host 0 is the first to have one."""
    return math.ceil((host + 1) * fraction) > math.ceil(host * fraction)
