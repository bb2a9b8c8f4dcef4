"""What this machine must have for a crawl's plan: packages, and a browser.

It is looked at before a crawl is begun, which would else have the plan and nobody to work at it,
and again by whoever joins a crawl that others have begun.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crawlproj.config.packages import ATTRIBUTES, need_packages
from crawlproj.errors import ConfigError

if TYPE_CHECKING:
    from crawlproj.config import Config
    from crawlproj.frontier.plan import Plan


def check_needs(plan: Plan, config: Config) -> None:
    """Raise ConfigError, which says what to install, if something is missing. Few crawls need what
    is imported here."""
    if plan.render is not None:
        from crawlproj.fetch.rendering.browser import find_browser

        find_browser(config.browser)
    if plan.wants_attributes:
        need_packages("attributes=true", ATTRIBUTES, "attributes")
    if plan.keep is not None:
        _check_rule(plan.keep)


def _check_rule(keep: str) -> None:
    """A rule that was read where the crawl was begun may need a package that is not here."""
    from crawlproj.config.keep_rules import RuleError, parse_rule

    try:
        parse_rule(keep)
    except RuleError as error:
        raise ConfigError(f"keep={keep}: {error}") from None
