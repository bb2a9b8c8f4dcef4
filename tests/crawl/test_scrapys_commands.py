"""Scrapy's own commands, in our project and in one that has adopted two settings: they do what they
do in any project, and no Redis is asked for anything (there is none)."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.servers import scrapy_process
from tests.servers.fleet import PROJECT, Fleet
from tests.servers.origin import Origin, Reply, Route

NO_REDIS = "redis://127.0.0.1:1/0"
ADOPTED = """
BOT_NAME = "shop"
SPIDER_MODULES = ["shop.spiders"]
NEWSPIDER_MODULE = "shop.spiders"
COMMANDS_MODULE = "crawlproj.commands"
SCHEDULER = "crawlproj.scheduler.Scheduler"
DUPEFILTER_CLASS = "crawlproj.dupefilter.SeenFilter"
"""
SPIDER = """
import scrapy

class BookSpider(scrapy.Spider):
    name = "books"
    start_urls = ["{home}"]

    def parse(self, response):
        \"\"\"
        @url {home}
        @returns items 1 1
        @scrapes title
        \"\"\"
        yield {{"title": response.css("title::text").get()}}
        yield response.follow("/next", self.parse)
"""
PAGES: dict[str, Route] = {
    "/": Reply(body=b"<title>Home</title><a href=/next>next</a><a href=/next>again</a>"),
    "/next": Reply(body=b"<title>Next</title>"),
    "/data.json": Reply(body=b'{"a": 1}', headers={"Content-Type": "application/json"}),
    "/robots.txt": Reply(body=b"User-agent: *\nDisallow: /secret"),
    "/login": Reply(302, {"Location": "/inside", "Set-Cookie": "session=7"}),
    "/away": Reply(302, {"Location": "http://127.0.0.99:1/"}),
    "/inside": lambda asked: Reply(body=f"Your {asked.headers.get('cookie')}".encode()),
}
MINE = ("-s", "CRAWL_ALLOW_ADDRESSES=loopback")


class Project(NamedTuple):
    folder: Path
    spiders: Path
    home: str

    def run(self, *words: str, **env: str) -> tuple[int, str, str]:
        """A command's exit code and what it prints, its log apart."""
        given = {**Fleet(self.folder, NO_REDIS).env, **env}
        ended = scrapy_process.run([*words], given, self.folder)
        return ended.returncode, ended.stdout, ended.stderr

    def files(self) -> set[str]:
        found = (path.relative_to(self.folder) for path in self.folder.rglob("*"))
        return {str(path) for path in found if "__pycache__" not in path.parts}


@pytest.fixture(scope="module")
def origin() -> Iterator[Origin]:
    with Origin(PAGES, default=Reply(status=404)) as serving:
        yield serving


@pytest.fixture(scope="module", params=["ours", "adopted"])
def project(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, origin: Origin
) -> Project:
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "ours":
        for part in ("settings", "spiders", "pipelines"):
            shutil.copytree(PROJECT / part, folder / part)
        shutil.copy(PROJECT / "scrapy.cfg", folder)
        spiders = folder / "spiders"
    else:
        spiders = folder / "shop" / "spiders"
        spiders.mkdir(parents=True)
        (folder / "scrapy.cfg").write_text("[settings]\ndefault = shop.settings\n")
        for package in (spiders, spiders.parent):
            (package / "__init__.py").touch()
        (folder / "shop" / "settings.py").write_text(ADOPTED)
    text = SPIDER.format(home=origin.url("/"))
    (spiders / "books.py").write_text(text)
    (folder / "alone.py").write_text(text)
    return Project(folder, spiders, origin.url("/"))


def _named(given: list[str] | str) -> str:
    return " ".join(given)[:40] if isinstance(given, list) else ""


CASES: list[tuple[list[str], str]] = [
    (["shell", "{home}", "-c", "response.css('title::text').get()"], "Home\n"),
    (["shell", "-c", "1 + 1"], "2\n"),
    (["shell", "./alone.py", "-c", "b'BookSpider' in response.body"], "True\n"),
    (["fetch", "{home}"], "<title>Home</title>"),
    (["fetch", "{home}data.json"], '{"a": 1}'),
    (["fetch", "--headers", "{home}", *MINE], "< Content-Length"),
    (["view", "{home}"], "file:///"),
    (["parse", "--spider", "books", "{home}"], "Home"),
    (["parse", "--spider", "books", "-d", "2", "{home}", *MINE], "Next"),
    (["check", "books", *MINE], "Ran 2 contracts"),
    (["check", "-l"], "books"),
    (["bench", "-s", "CLOSESPIDER_TIMEOUT=1"], "Crawled "),
    (["runspider", "alone.py", "-o", "-:json", *MINE], "Next"),
    (["list"], "books\n"),
    (["edit", "books"], "books.py\n"),
    (["settings", "--get", "SPIDER_MODULES"], "spiders"),
    (["version"], "Scrapy "),
    (["genspider", "-l"], "basic"),
]


@contextmanager
def alone(command: str) -> Iterator[None]:
    """One at a time on this machine: Scrapy's bench serves its pages at a port that it always
    takes."""
    if command != "bench":
        yield
        return
    with (Path(tempfile.gettempdir()) / "scrapy-bench-in-a-test.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.mark.parametrize(("words", "shown"), CASES, ids=_named)
def test_a_command_of_scrapys_does_what_it_does_everywhere_and_leaves_nothing_behind(
    project: Project, words: list[str], shown: str
) -> None:
    before = project.files()
    given = [word.format(home=project.home) for word in words]
    with alone(words[0]):
        code, out, log = project.run(*given, BROWSER="echo %s", EDITOR="echo")
    assert shown in out + log
    assert (code, "Traceback" in log) == (0, False), log
    assert project.files() == before


def test_genspider_makes_a_spider_that_crawls_with_the_others(project: Project) -> None:
    made = project.run("genspider", "fresh", "a.test")
    assert (made[0], (project.spiders / "fresh.py").exists()) == (0, True), made
    assert project.run("list")[1].split() == sorted({*project.run("list")[1].split(), "fresh"})
    (project.spiders / "fresh.py").unlink()


def test_parse_shows_the_site_spiders_page_and_its_links_as_requests(project: Project) -> None:
    if not (project.spiders / "site.py").exists():
        pytest.skip("a project of its own has no such spider")
    code, out, log = project.run("parse", "--spider", "site", project.home, "--nocolour", *MINE)
    assert (code, "Traceback" in log) == (0, False), log
    assert "'title': 'Home'" in out or "title='Home'" in out
    assert out.count(f"<GET {project.home}next>") == 1


@pytest.mark.parametrize("setting", ["COOKIES_ENABLED=True", "CRAWL_COOKIES=shared"])
def test_a_page_keeps_the_cookies_that_the_project_keeps(project: Project, setting: str) -> None:
    if not (project.spiders / "site.py").exists():
        pytest.skip("Scrapy's own asks the network for the list of public suffixes first")
    code, out, log = project.run("fetch", f"{project.home}login", "-s", setting, *MINE)
    assert (code, out.strip()) == (0, "Your session=7"), log


REFUSED = [
    (["fetch", "{home}away"], "Refused address"),
    (["parse", "--spider", "books", "{home}away"], "Refused address"),
    (["shell", "{home}away", "-c", "response"], "Refused address"),
    (["fetch", "{home}secret"], "robots.txt"),
    (["fetch", "http://127.0.0.1:1/"], "Failed to connect to 127.0.0.1:1"),
]


@pytest.mark.parametrize(("words", "why"), REFUSED, ids=_named)
def test_a_page_that_cannot_be_had_is_a_no_with_its_reason(
    project: Project, words: list[str], why: str
) -> None:
    if not (project.spiders / "site.py").exists():
        pytest.skip("the address guard, and a quiet log, are our project's")
    code, _, log = project.run(*(word.format(home=project.home) for word in words))
    assert (code, why in log, "Traceback" in log) == (1, True, False), log
