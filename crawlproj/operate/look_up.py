"""What became of a URL, by the settings of the crawl's workers: what `scrapy why` and the views
ask."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from scrapy import Request

from crawlproj.config import Config, user_agent_of
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.plan import Plan
from crawlproj.operate import why
from crawlproj.operate.why_states import Trace
from crawlproj.politeness import kept_verdict
from crawlproj.worker import join
from crawlproj.worker.seen_filter import SeenFilter

if TYPE_CHECKING:
    from scrapy.settings import Settings


async def look_up(frontier: Frontier, settings: Settings, url: str) -> Trace:
    """Look for it in the frontier and in the files of this machine."""
    own = await join.settings_of(frontier.client, settings, frontier.crawl)
    config = Config.from_settings(own)
    begun = await frontier.attach(only_to_look=True)
    identity = join.Identity.of(frontier.plan if begun else Plan.of(config))
    requests = SeenFilter.of_project(own, identity)
    return await why.trace(
        frontier,
        url,
        config.folder_of(frontier.crawl),
        identity.drop,
        key_of=lambda text: requests.key_of(Request(text)).key,
        refusal_of=partial(kept_verdict.refusal, frontier, user_agent_of(own)),
    )
