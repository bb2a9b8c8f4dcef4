"""What a worker goes by of the crawl's plan, also once that is changed while the crawl goes on."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from crawlproj.config import Config, checked
from crawlproj.discover.rules import Rules
from crawlproj.frontier.frontier import Frontier
from crawlproj.worker import replan
from crawlproj.worker.outcome import Patience

logger = logging.getLogger(__name__)


class PlanInUse:
    """The rules for links, and the patience with pages, as they are now."""

    def __init__(self, frontier: Frontier, config: Config) -> None:
        self._frontier = frontier
        self._retry_delay_ms = int(config.retry_delay_s * 1000)
        self.rules = _rules(config)
        self.patience = self._patience()

    def change(self, plan: dict[str, Any]) -> bool:
        """Go by a plan that has been changed; True if links are to be judged by other rules."""
        self.patience = self._patience()
        depth = checked("depth", plan["rules"].get("depth"))
        has_other_rules: bool = depth != self.rules.depth
        if has_other_rules:
            self.rules = replace(self.rules, depth=depth)
        now = replan.changeable(plan, self._frontier.limits)
        logger.info("The crawl goes by %s", replan.as_text(now))
        return has_other_rules

    def _patience(self) -> Patience:
        limits = self._frontier.limits
        return Patience(limits.delay_ms, self._retry_delay_ms, limits.max_attempts)


def _rules(config: Config) -> Rules:
    return Rules(
        config.scope,
        config.allow,
        config.deny,
        config.depth,
        traps=config.traps,
        trap_depth=config.trap_depth,
        trap_repeats=config.trap_repeats,
        trap_params=config.trap_params,
        media=config.media,
    )
