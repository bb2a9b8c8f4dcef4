"""Settings by which crawls are watched."""

from __future__ import annotations

from dataclasses import dataclass

from crawlproj.config.kinds import TEXT, WORDS
from crawlproj.config.option import option


@dataclass(frozen=True)
class WatchOptions:
    """Part of `Config`."""

    dashboard_token: str = option(
        "CRAWL_DASHBOARD_TOKEN",
        "",
        TEXT,
        "token of `scrapy dashboard`; none: a new one at each start. Give it by the environment",
    )
    dashboard_hosts: tuple[str, ...] = option(
        "CRAWL_DASHBOARD_HOSTS",
        (),
        WORDS,
        "names, such as that of a proxy before it, by which `scrapy dashboard` may be asked for",
    )
