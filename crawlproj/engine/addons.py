"""Scrapy's add-ons, for who needs the settings before Scrapy does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.addons import AddonManager

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


def apply_addons(settings: BaseSettings) -> None:
    """Let add-ons change the settings before there is a crawler, as Scrapy does when it makes a
    process for spiders."""
    AddonManager.load_pre_crawler_settings(settings)
