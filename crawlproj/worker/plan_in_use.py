"""What a worker makes of the crawl's plan, also once that is changed while the crawl goes on."""

from __future__ import annotations

import logging

from crawlproj.discover.rules import Rules
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.pacing import RetryDelay
from crawlproj.worker import replan
from crawlproj.worker.outcome import RetryPolicy

logger = logging.getLogger(__name__)


class PlanInUse:
    """The rules for links, and how often a page is tried, as they are now."""

    def __init__(self, frontier: Frontier, retry_delay: RetryDelay) -> None:
        self._frontier = frontier
        self._retry_delay = retry_delay
        self.rules = Rules.of(frontier.plan)
        self.retry_policy = self._retry_policy()

    def change(self) -> bool:
        """Go by a plan that has been changed; True if links are to be judged by other rules."""
        plan, before = self._frontier.plan, self.rules
        self.retry_policy, self.rules = self._retry_policy(), Rules.of(plan)
        logger.info("The crawl goes by %s", replan.as_text(replan.changeable(plan)))
        return self.rules != before

    def _retry_policy(self) -> RetryPolicy:
        plan = self._frontier.plan
        return RetryPolicy(plan.delay_ms, self._retry_delay, plan.max_attempts)
