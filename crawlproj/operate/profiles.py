"""The profiles of scrapy.cfg: one that is not there must not pass for a project without settings.

Scrapy takes an unknown SCRAPY_PROJECT for no settings at all, and then knows neither our spiders
nor our commands. Where the package is installed its commands are found all the same, and ask here.
"""

from __future__ import annotations

import os

from scrapy.utils.conf import closest_scrapy_cfg, get_config

from crawlproj.errors import ConfigError


def refuse_unknown_profile() -> None:
    """Raise ConfigError if SCRAPY_PROJECT names a profile that scrapy.cfg does not have."""
    wanted = os.environ.get("SCRAPY_PROJECT")
    found = get_config()
    if not wanted or not closest_scrapy_cfg() or found.has_option("settings", wanted):
        return
    if "SCRAPY_SETTINGS_MODULE" in os.environ:
        return
    known = ", ".join(found.options("settings")) if found.has_section("settings") else "none"
    raise ConfigError(f"SCRAPY_PROJECT={wanted}: no such profile; scrapy.cfg has {known}")
