"""The profiles of settings/: each is found by its name and holds only settings that exist."""

from __future__ import annotations

import os
import subprocess
import sys
from configparser import ConfigParser
from importlib import import_module

import pytest
from scrapy.settings import Settings

from crawlproj.config import Config
from tests.servers.fleet import PROJECT


def profiles() -> dict[str, str]:
    found = ConfigParser()
    found.read(PROJECT / "scrapy.cfg")
    return dict(found["settings"])


@pytest.mark.parametrize("name", ["default", "cluster", "broad", "fast"])
def test_a_profile_holds_settings_that_can_be_used(name: str) -> None:
    settings = Settings()
    settings.setmodule(import_module(profiles()[name]))
    Config.from_settings(settings)
    assert settings["SCHEDULER"] == "crawlproj.scheduler.Scheduler"


def test_scrapy_project_picks_the_profile() -> None:
    found = subprocess.run(
        [sys.executable, "-m", "scrapy", "settings", "--getfloat", "POLITENESS_DELAY"],
        env={**os.environ, "SCRAPY_PROJECT": "broad"},
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(found.stdout) == 1.0
