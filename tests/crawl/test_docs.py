"""The documentation is true: every command in it is run, page by page, in a project of its own.

A page is read from top to bottom. What stands above a block, as a comment of HTML, says more of it:

    <!-- file: spiders/books.py -->    the block is that file
    <!-- not run: needs a network -->  the block is left out, for this reason
    <!-- ends with 1 -->               its last command ends with this exit code, not with 0
    <!-- on: second -->                it is typed there: test_tutorial.py has machines

`https://example.com` is a small site here, and `redis://host:6379/0` a Redis. Lines of the output
shown that hold no figure, no address and no `…` must be in what is really printed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.servers import scrapy_client, scrapy_process
from tests.servers.origin import Origin, Reply, Request, Route
from tests.servers.redis import PATIENCE, RedisServer, cli_binary
from tests.servers.search_pages import duckduckgo, searxng

PROJECT = Path(__file__).parents[2]
PAGES = [
    page
    for page in [PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))]
    if "```console" in page.read_text(encoding="utf-8") and page.name != "tutorial.md"
]
BLOCK = re.compile(
    r"(?:<!-- (?P<note>[^>]*?) -->\n)?```(?P<language>\w+)\n(?P<text>.*?)```", re.DOTALL
)
CHANGES = re.compile(r"\d|…|://|output/")
PAGE_S = 120
DELAY_S = 0.05
"""Between two requests to a host, instead of the project's 0.25."""


@dataclass(frozen=True)
class Step:
    """A command as the page has it, with the output that it shows."""

    command: str
    shown: list[str]
    code: int


def steps_of(text: str, note: str) -> Iterator[Step]:
    """The commands of a block; a line that ends with a backslash goes on."""
    parts = re.split(r"^\$ ", text.replace("\\\n", ""), flags=re.MULTILINE)[1:]
    for number, part in enumerate(parts, 1):
        command, *shown = part.splitlines()
        code = re.fullmatch(r"ends with (\d+)", note)
        is_last = number == len(parts)
        yield Step(command, shown, int(code[1]) if code and is_last else 0)


def words(line: str) -> str:
    return " ".join(line.split())


class Page:
    """One page of the documentation, and the project in which it is tried."""

    def __init__(self, path: Path, folder: Path, names: dict[str, str]) -> None:
        self._folder = folder
        self._names = names
        self.steps: list[Step] = []
        for block in BLOCK.finditer(path.read_text(encoding="utf-8")):
            self._read(block["language"], self._local(block["text"]), block["note"] or "")

    def _local(self, text: str) -> str:
        for shown, real in self._names.items():
            text = text.replace(shown, real)
        return text

    def _read(self, language: str, text: str, note: str) -> None:
        if note.startswith("file: "):
            target = self._folder / note.removeprefix("file: ")
            target.parent.mkdir(parents=True, exist_ok=True)
            self.steps.append(Step(f"cat > {target} <<'END_OF_FILE'\n{text}END_OF_FILE", [], 0))
        elif language == "console" and not note.startswith(("not run: ", "on: ")):
            self.steps += steps_of(text, note)

    def run(self, env: dict[str, str]) -> list[tuple[int, str]]:
        """All commands in one shell; returns what each ended with and printed."""
        script = "".join(f"{step.command}\necho @@@$?\n" for step in self.steps)
        done = subprocess.run(
            ["bash"],
            input=script,
            cwd=self._folder,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            pass_fds=[int(env[scrapy_client.SERVER])],
            timeout=PAGE_S * PATIENCE,
            check=False,
        )
        found = re.findall(r"(.*?)@@@(\d+)\n", done.stdout, flags=re.DOTALL)
        return [(int(code), printed) for printed, code in found]


def _html(title: str, *links: str) -> Reply:
    anchors = "".join(f"<li><a href={link}>{link}</a></li>" for link in links)
    return Reply(body=f"<title>{title}</title><h1>{title}</h1><ul>{anchors}</ul>".encode())


def _login(request: Request) -> Reply:
    is_right = request.method == "POST" and b"password=" in request.body
    headers = {"Location": "/account", "Set-Cookie": "session=granted; Path=/"} if is_right else {}
    return Reply(status=303 if is_right else 403, headers=headers)


def _account(request: Request) -> Reply:
    is_known = "session=granted" in request.headers.get("cookie", "")
    return _html("Your account", "/orders/1", "/orders/2") if is_known else Reply(status=403)


def site() -> dict[str, Route]:
    """A shop: pages, a redirect, a broken link, a login, a sitemap, a feed."""
    books = [f"/books/{number}" for number in range(1, 9)]
    pages = {
        path: Reply(
            body=f"<title>Book {path[7:]}</title><h1>Book {path[7:]}</h1>"
            f"<p class=price>{path[7:]}0.00</p><a href=/>home</a>".encode()
        )
        for path in books
    }
    entries = "".join(f"<url><loc>{path}</loc></url>" for path in books[:3])
    items = "".join(f"<item><link>{path}</link></item>" for path in books[2:5])
    films = json.dumps(["https://films.example/1", "https://films.example/2"])
    return {
        "/": _html("A shop", *books, "/old", "/missing"),
        "/old": Reply(status=301, headers={"Location": "/books/1"}),
        "/robots.txt": Reply(
            headers={"Content-Type": "text/plain"}, body=b"User-agent: *\nAllow: /"
        ),
        "/login": _login,
        "/account": _account,
        "/orders/1": _account,
        "/orders/2": _account,
        "/sitemap.xml": Reply(
            headers={"Content-Type": "application/xml"},
            body=f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</urlset>'.encode(),
        ),
        "/feed.xml": Reply(body=f"<rss><channel>{items}</channel></rss>".encode()),
        "/find?words=films": Reply(body=films.encode()),
        **pages,
    }


def searching(request: Request) -> Reply:
    """Two engines: one answers in HTML, the other in JSON."""
    found = [f"https://{name}.example/" for name in ("first", "second", "third")]
    if "format=json" not in request.path:
        return Reply(body=duckduckgo(found, ads=["https://sold.example/"]).encode())
    more = [*found, "https://fourth.example/", "https://fifth.example/"]
    return Reply(body=searxng(more).encode())


@pytest.fixture
def names(redis_server: RedisServer) -> Iterator[dict[str, str]]:
    with (
        Origin(site()) as shop,
        Origin({"/": _html("Another site", "/a"), "/a": _html("a")}) as other,
        Origin({}, default=searching) as engine,
    ):
        yield {
            "https://searx.example.com": engine.url("").rstrip("/"),
            "https://example.com": shop.url("").rstrip("/"),
            "https://example.org": other.url("").rstrip("/"),
            "redis://host:6379/0": redis_server.url,
            "--delay 0.25": f"--delay {DELAY_S}",
        }


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """What a user has: a copy of what is theirs to edit, with the package beside it."""
    for name in ("spiders", "pipelines", "settings"):
        shutil.copytree(PROJECT / name, tmp_path / name)
    shutil.copy(PROJECT / "scrapy.cfg", tmp_path)
    return tmp_path


@pytest.fixture
def env(
    tmp_path_factory: pytest.TempPathFactory, redis_server: RedisServer, names: dict[str, str]
) -> dict[str, str]:
    """`scrapy` and `redis-cli` on the PATH, as a user has them."""
    commands = tmp_path_factory.mktemp("bin")
    for name, command in {
        "scrapy": f'{sys.executable} -I -S {scrapy_client.__file__} "$@"',
        "python": f'{sys.executable} "$@"',
        "redis-cli": f'{cli_binary()} -u "$REDIS_URL" "$@"',
    }.items():
        (commands / name).write_text(f"#!/bin/sh\nexec {command}\n")
        (commands / name).chmod(0o755)
    path = f"{commands}{os.pathsep}{os.environ['PATH']}"
    # Nothing is waited for that a reader would wait for.
    quick = {"FRONTIER_RETRY_DELAY": "0.1", "POLITENESS_DELAY": str(DELAY_S)}
    quick["REDIS_URL"] = redis_server.url
    quick["CRAWL_SEARCH_URL"] = names["https://searx.example.com"] + "/"
    quick[scrapy_client.SERVER] = str(scrapy_process.server().fileno())
    return {**os.environ, "PATH": path, "PYTHONPATH": str(PROJECT), **quick}


@pytest.mark.parametrize("path", PAGES, ids=[page.stem for page in PAGES])
def test_every_command_of_a_page_does_what_it_shows(
    path: Path, project: Path, names: dict[str, str], env: dict[str, str]
) -> None:
    page = Page(path, project, names)
    results = page.run(env)
    for step, (code, printed) in zip(page.steps, results, strict=False):
        assert code == step.code, f"$ {step.command}\n{printed}"
        lines = [words(line) for line in printed.splitlines()]
        for line in step.shown:
            if words(line) and not CHANGES.search(line):
                assert words(line) in lines, f"$ {step.command}\n{printed}"
    assert len(results) == len(page.steps), results[-1:]
