"""The package by itself: its wheel in an environment of its own, in a folder that is no project.

The environment sees the packages of the tests, and has nothing of the repository but the wheel.
"""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.fleet import PROJECT, QUICK
from tests.servers.origin import Origin, Reply
from tests.servers.redis import RedisServer

SOURCES = ("pyproject.toml", "README.md", "LICENSE")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    junk = shutil.ignore_patterns("__pycache__")
    for name in ("crawlproj", "spiders", "pipelines", "settings", "tests/servers", "benchmarks"):
        shutil.copytree(PROJECT / name, source / name, ignore=junk)
    for name in SOURCES:
        shutil.copy(PROJECT / name, source)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-index", "-q"]
    command += ["--no-build-isolation", "--disable-pip-version-check", "-w", folder, source]
    subprocess.run(command, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment in which the wheel is installed."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "tests.pth").write_text(sysconfig.get_path("purelib"))
    install = [sys.executable, "-m", "pip", "--python", folder / "bin/python", "install", "-q"]
    install += ["--no-deps", "--no-index", "--disable-pip-version-check", wheel]
    subprocess.run(install, check=True, capture_output=True)
    return folder / "bin/python"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where nothing is."""
    empty = tmp_path / "empty"
    empty.mkdir()
    return empty


def scrapy(python: Path, folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    mine = {**os.environ, **QUICK, **env}
    for name in ("PYTHONPATH", "SCRAPY_PROJECT", "SCRAPY_SETTINGS_MODULE"):
        mine.pop(name, None)
    command = [python, "-m", "scrapy", *words]
    return subprocess.run(
        command, cwd=folder, env=mine, capture_output=True, text=True, timeout=120, check=False
    )


def urls(file: Path) -> set[str]:
    with file.open(newline="", encoding="utf-8") as rows:
        return {row["url"] for row in csv.DictReader(rows)}


@pytest.fixture
def origin() -> Iterator[Origin]:
    html = {"Content-Type": "text/html"}
    linked = Reply(body=b'<title>One</title><a href="/two">two</a>', headers=html)
    with Origin({"/": linked, "/two": Reply(body=b"<title>Two</title>", headers=html)}) as origin:
        yield origin


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as found:
        names = found.namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"crawlproj"}
    here = (path.relative_to(PROJECT) for path in (PROJECT / "crawlproj").rglob("*.*"))
    wanted = {str(path) for path in here if "__pycache__" not in path.parts}
    assert {name for name in names if name.startswith("crawlproj/")} == wanted


def test_a_site_is_crawled_where_no_project_is(
    python: Path, folder: Path, origin: Origin, redis_server: RedisServer
) -> None:
    words = ["crawl", "site", "-a", f"seeds={origin.url()}", "-a", "delay=0"]
    ended = scrapy(python, folder, *words, REDIS_URL=redis_server.url)
    assert ended.returncode == 0, ended.stderr
    (pages,) = (folder / "output/site").glob("pages-*.csv")
    assert urls(pages) == {origin.url("/"), origin.url("/two")}
    merged = scrapy(python, folder, "merge", "site")
    assert merged.returncode == 0, merged.stderr
    assert urls(folder / "output/site/pages.csv") == urls(pages)
    status = scrapy(python, folder, "status", "site", REDIS_URL=redis_server.url)
    assert "finished" in status.stdout, status.stderr
    assert {path.name for path in folder.iterdir()} == {"output"}


def test_the_demo_runs_where_no_project_is(python: Path, folder: Path) -> None:
    words = ["demo", "--hosts", "2", "--pages", "6", "-n", "1"]
    ended = scrapy(python, folder, *words, "-s", "POLITENESS_DELAY=0")
    assert ended.returncode == 0, ended.stderr
    assert "Crawl demo is finished" in ended.stdout
    assert len(urls(folder / "output/demo/pages.csv")) >= 6
    # From now on the folder is where a crawl has begun, and what only looks finds its Redis.
    assert scrapy(python, folder, "status", "demo").returncode == 0


def test_another_project_beside_the_package_is_as_before(python: Path, folder: Path) -> None:
    (folder / "scrapy.cfg").write_text("[settings]\ndefault = theirs\n")
    (folder / "theirs.py").write_text('SPIDER_MODULES = ["theirs"]\nBOT_NAME = "theirs"\n')
    with (folder / "theirs.py").open("a") as file:
        file.write('import scrapy\n\nclass Theirs(scrapy.Spider):\n    name = "theirs"\n')
    assert scrapy(python, folder, "list").stdout == "theirs\n"
    scheduler = scrapy(python, folder, "settings", "--get", "SCHEDULER")
    assert scheduler.stdout == "scrapy.core.scheduler.Scheduler\n"
    crawled = scrapy(python, folder, "crawl", "theirs")
    assert (crawled.returncode, "Spider closed (finished)" in crawled.stderr) == (0, True)
    assert {path.suffix for path in folder.iterdir()} <= {".cfg", ".py", ""}
    assert not (folder / "output").exists() and not (folder / ".redis").exists()
