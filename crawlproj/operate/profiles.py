"""Which settings our commands go by: those of the project here, or, where there is none, the ones
that the package brings.

Scrapy takes an unknown SCRAPY_PROJECT for no settings at all, and then knows neither our spiders
nor our commands. Where the package is installed its commands are found all the same, and ask here.
"""

from __future__ import annotations

import os

from scrapy.settings import BaseSettings
from scrapy.utils.conf import closest_scrapy_cfg, get_config
from scrapy.utils.project import inside_project

from crawlproj.errors import ConfigError

WITHOUT_PROJECT = "crawlproj.default_settings"


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


def settle_project(settings: BaseSettings) -> None:
    """Go by the settings of the package where no project is. Raises ConfigError for a profile that
    is not there, in either."""
    refuse_unknown_profile()
    if inside_project():
        return
    if wanted := os.environ.get("SCRAPY_PROJECT"):
        raise ConfigError(f"SCRAPY_PROJECT={wanted}: no scrapy.cfg is here that could have it")
    settings.setmodule(WITHOUT_PROJECT, priority="project")
