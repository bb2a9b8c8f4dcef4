"""Settings that cannot be kept together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crawlproj.errors import ConfigError

if TYPE_CHECKING:
    from crawlproj.config.options import Config


def refuse_conflicts(config: Config) -> Config:
    """Refuse settings that exclude each other. The address of a host is known only when it is first
    asked; by then it has its shard, and a group if its domain has a budget."""
    if config.group == "address" and config.shards > 1:
        raise ConfigError(
            "POLITENESS_GROUP=address: hosts of one address may be in any shard; give "
            "FRONTIER_SHARDS=1, or group by domain"
        )
    if config.group == "address" and config.pages_per_domain:
        raise ConfigError(
            "POLITENESS_GROUP=address: goes without CRAWL_PAGES_PER_DOMAIN; leave one of them out"
        )
    if config.refresh_shortest_s > config.refresh_longest_s:
        raise ConfigError(
            f"CRAWL_REFRESH_SHORTEST={config.refresh_shortest_s:g}: more than "
            f"CRAWL_REFRESH_LONGEST={config.refresh_longest_s:g}; give less"
        )
    return config
