"""The profiles of settings/: each is found by its name and holds only settings that exist."""

from __future__ import annotations

import ast
import json
import os
import tomllib
from configparser import ConfigParser
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from scrapy.addons import AddonManager
from scrapy.settings import Settings

from crawlproj.commands.crawl import NO_PROJECT
from crawlproj.config import Config
from crawlproj.operate.profiles import WITHOUT_PROJECT
from tests.servers import scrapy_process
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
    given = {**os.environ, "PYTHONPATH": installed(folder), **env}
    ended = scrapy_process.run([*words], given, cwd)
    return ended.returncode, ended.stdout, ended.stderr


@pytest.mark.parametrize("name", ["crawl", "status"])
def test_a_mistyped_profile_is_answered_with_those_there_are(tmp_path: Path, name: str) -> None:
    code, out, error = scrapy(tmp_path, name, "site", SCRAPY_PROJECT="fats")
    known = ", ".join(profiles())
    assert (code, out) == (2, "")
    assert error == f"SCRAPY_PROJECT=fats: no such profile; scrapy.cfg has {known}\n"


@pytest.mark.parametrize("words", ["status site", "crawls"])
def test_where_neither_project_nor_crawl_is_who_only_looks_starts_no_redis(
    tmp_path: Path, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REDIS_URL", raising=False)
    code, out, error = scrapy(tmp_path, *words.split(), cwd=tmp_path)
    assert (code, out) == (2, "")
    assert error.startswith("no crawl has begun in this folder, no project is here, and no Redis")
    assert error.count("\n") == 1
    assert not (tmp_path / ".redis").exists()


def test_outside_of_a_project_only_the_spider_of_the_package_is_known(tmp_path: Path) -> None:
    code, out, error = scrapy(tmp_path, "crawl", "mine", cwd=tmp_path)
    assert (code, out) == (2, "")
    assert error == f"mine: {NO_PROJECT}\n"


def test_outside_of_a_project_there_is_no_profile(tmp_path: Path) -> None:
    code, out, error = scrapy(tmp_path, "crawls", cwd=tmp_path, SCRAPY_PROJECT="fast")
    assert (code, out) == (2, "")
    assert error == "SCRAPY_PROJECT=fast: no scrapy.cfg is here that could have it\n"


def test_the_settings_without_a_project_are_those_of_the_default_profile() -> None:
    ours, projects = _settings(WITHOUT_PROJECT), _settings(profiles()["default"])
    of_a_project = {"COMMANDS_MODULE", "NEWSPIDER_MODULE", "SPIDER_MODULES"}
    assert projects.keys() - ours.keys() == of_a_project - {"SPIDER_MODULES"}
    text = repr({name: projects[name] for name in ours.keys() - of_a_project})
    as_installed = text.replace("'pipelines.", "'crawlproj.output.pipelines.")
    assert ast.literal_eval(as_installed) == {
        name: ours[name] for name in ours.keys() - of_a_project
    }


def _settings(module: str) -> dict[str, Any]:
    return {name: value for name, value in vars(import_module(module)).items() if name.isupper()}


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
    words = ["settings", "--getfloat", "POLITENESS_DELAY"]
    found = scrapy_process.run(words, {**os.environ, "SCRAPY_PROJECT": "broad"}, PROJECT)
    assert float(found.stdout) == 1.0
