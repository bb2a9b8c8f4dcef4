"""The profiles of settings/: each is found by its name and holds only settings that exist."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from configparser import ConfigParser
from importlib import import_module
from pathlib import Path

import pytest
from scrapy.addons import AddonManager
from scrapy.settings import Settings

from crawlproj.config import Config
from tests.servers.fleet import PROJECT
from tests.servers.redis import RedisServer


def profiles() -> dict[str, str]:
    found = ConfigParser()
    found.read(PROJECT / "scrapy.cfg")
    return dict(found["settings"])


@pytest.mark.parametrize("name", ["default", "cluster", "broad", "fast"])
def test_a_profile_holds_settings_that_can_be_used(name: str) -> None:
    settings = Settings()
    settings.setmodule(import_module(profiles()[name]))
    AddonManager.load_pre_crawler_settings(settings)
    Config.from_settings(settings)
    assert settings["SCHEDULER"] == "crawlproj.scheduler.Scheduler"


def installed(folder: Path) -> str:
    """The package as an installer registers it, in a folder of its own; a PYTHONPATH with it."""
    with (PROJECT / "pyproject.toml").open("rb") as file:
        commands = tomllib.load(file)["project"]["entry-points"]["scrapy.commands"]
    entries = [f"{name} = {target}" for name, target in commands.items()]
    info = folder / "crawlproj-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: crawlproj\nVersion: 0\n")
    (info / "entry_points.txt").write_text("\n".join(["[scrapy.commands]", *entries]))
    return os.pathsep.join([str(folder), str(PROJECT)])


def scrapy(folder: Path, *words: str, cwd: Path = PROJECT, **env: str) -> tuple[int, str, str]:
    ended = subprocess.run(
        [sys.executable, "-m", "scrapy", *words],
        env={**os.environ, "PYTHONPATH": installed(folder), **env},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.returncode, ended.stdout, ended.stderr


@pytest.mark.parametrize("name", ["crawl", "status"])
def test_a_mistyped_profile_is_answered_with_those_there_are(tmp_path: Path, name: str) -> None:
    code, out, error = scrapy(tmp_path, name, "site", SCRAPY_PROJECT="fats")
    known = ", ".join(profiles())
    assert (code, out) == (2, "")
    assert error == f"SCRAPY_PROJECT=fats: no such profile; scrapy.cfg has {known}\n"


@pytest.mark.parametrize("words", ["status site", "crawls", "seed site http://a.example/", "demo"])
def test_outside_of_a_project_no_redis_is_used_that_nobody_named(
    tmp_path: Path, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REDIS_URL", raising=False)
    code, out, error = scrapy(tmp_path, *words.split(), cwd=tmp_path)
    assert (code, out) == (2, "")
    assert error.startswith("no project is here, and no Redis was named: go to the folder")
    assert error.count("\n") == 1


def test_outside_of_a_project_nothing_can_be_crawled(tmp_path: Path) -> None:
    code, out, error = scrapy(tmp_path, "crawl", "site", cwd=tmp_path)
    assert (code, out) == (2, "")
    assert error == "no project is here: go to the folder of yours, where its scrapy.cfg is\n"


def test_outside_of_a_project_a_redis_that_was_named_is_used(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    words = ["crawls", "--json"]
    code, out, error = scrapy(tmp_path, *words, cwd=tmp_path, REDIS_URL=redis_server.url)
    assert (code, json.loads(out), error) == (1, [], "")  # there is none on it


def test_every_command_is_registered_for_projects_that_install_the_package() -> None:
    with (PROJECT / "pyproject.toml").open("rb") as file:
        commands = tomllib.load(file)["project"]["entry-points"]["scrapy.commands"]
    modules = {path.stem for path in (PROJECT / "crawlproj" / "commands").glob("[a-z]*.py")}
    assert commands == {name: f"crawlproj.commands.{name}:Command" for name in modules}


def test_a_project_without_our_scheduler_crawls_as_before(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "scrapy.cfg").write_text("[settings]\ndefault = plain\n")
    (other / "plain.py").write_text('SPIDER_MODULES = ["mine"]\nTELNETCONSOLE_ENABLED = False\n')
    (other / "mine.py").write_text(
        'import scrapy\n\nclass Mine(scrapy.Spider):\n    name = "mine"\n    start_urls = []\n'
    )
    code, _, log = scrapy(tmp_path, "crawl", "mine", cwd=other)
    assert (code, "Spider closed (finished)" in log) == (0, True), log


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
