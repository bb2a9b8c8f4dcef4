"""What the pages of the documentation say by heart is what the code says, and their links lead
somewhere. (`tests/crawl/test_docs.py` runs their commands.)"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import tomllib
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from pkgutil import iter_modules
from typing import NamedTuple

import pytest
from scrapy import signals
from scrapy.commands import ScrapyCommand
from scrapy.settings import Settings
from scrapy.utils.conf import build_component_list

from crawlproj import commands, default_settings
from crawlproj.commands.crawl import EXIT_CODES
from crawlproj.config import Option, options
from crawlproj.frontier import keys
from crawlproj.output.archive import recorder
from crawlproj.worker.finish import PAGE_LIMIT
from docs import rooms
from settings import base

PROJECT = Path(__file__).parents[2]
DOCS = PROJECT / "docs"
PAGES = [*sorted(PROJECT.glob("*.md")), *sorted(DOCS.glob("*.md"))]
BEGIN, END = "<!-- settings -->\n", "<!-- /settings -->"
KEY_PARTS = {
    "crawl": "site",
    "shard": "0",
    "part": "<part>",
    "host": "<host>",
    "start_urls_key": "site:start_urls",
}
COMMANDS = sorted(module.name for module in iter_modules(commands.__path__))


def as_table() -> str:
    lines = ["", "| setting | meaning | default |", "|---|---|---|"]
    lines += [f"| `{one.setting}` | {one.doc} | {_default(one)} |" for one in options()]
    return "\n".join([*lines, "", ""])


def _default(option: Option) -> str:
    if option.default in (None, "", ()):
        return "none"
    if isinstance(option.default, tuple):
        return ", ".join(option.default)
    return str(option.default)


def test_the_page_of_settings_lists_every_one_with_its_default() -> None:
    page = (DOCS / "settings.md").read_text(encoding="utf-8")
    shown = page.partition(BEGIN)[2].partition(END)[0]
    assert shown == as_table(), f"the table in docs/settings.md is to be:\n{as_table()}"


def options_of(command: ScrapyCommand) -> set[str]:
    """What it takes beside Scrapy's global options."""
    command.settings = Settings()
    parser = argparse.ArgumentParser(conflict_handler="resolve")
    command.add_options(parser)
    own = [group for group in parser._action_groups if group.title != "Global Options"]
    return {
        name
        for group in own
        for action in group._group_actions
        for name in action.option_strings
        if action.dest not in ("help", "json")
    }


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_of_commands_has_each_with_all_its_options(name: str) -> None:
    text = (DOCS / "commands.md").read_text(encoding="utf-8")
    sections = text.split("\n## ")[1:]
    command = import_module(f"crawlproj.commands.{name}").Command()
    if not is_scrapys(command):
        [section] = [one for one in sections if re.search(rf"^.*\b{name}\b", one.splitlines()[0])]
        shown = set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", section))
        missing = options_of(command) - shown
        assert not missing, f"docs/commands.md, {name}: {missing}"
    else:
        assert f"`{name}`" in sections[-1]


def is_scrapys(command: ScrapyCommand) -> bool:
    """A command that Scrapy has too, with Scrapy's options."""
    bases = [base.__module__ for base in type(command).__mro__]
    return any(
        base.startswith("scrapy.commands.") and base != "scrapy.commands.crawl" for base in bases
    )


def headings(text: str) -> set[str]:
    """The anchors of a page, as its readers' sites make them: GitHub's rule."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    anchors: set[str] = set()
    for title in re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE):
        plain = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", title).strip().lower()
        anchors.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return anchors


def links_of(page: Path) -> Iterator[tuple[Path, str]]:
    """Relative links: the file that each leads to, and the heading in it."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"\w+:", target):
            path, _, anchor = target.partition("#")
            yield (page.parent / path).resolve() if path else page, anchor


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(PROJECT)) for page in PAGES])
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    for target, anchor in links_of(page):
        assert target.exists(), f"{page.name}: {target} is not there"
        if anchor:
            assert anchor in headings(target.read_text(encoding="utf-8")), (
                f"{page.name}: {target.name} has no heading #{anchor}"
            )


class Step(NamedTuple):
    file: str
    function: str
    called_by: str

    @property
    def height(self) -> int:
        return rooms.ORDER.index(rooms.room_of(self.file.removeprefix("crawlproj/")))


def walk() -> list[Step]:
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    row = r"^\| \d+ \| `(.*?)` \| `(.*?)` \|([^|]*)\|"
    return [Step(*map(str.strip, found)) for found in re.findall(row, page, flags=re.MULTILINE)]


def test_the_walks_of_a_url_and_a_row_name_functions_that_are_there() -> None:
    assert len(walk()) > 30
    for file, function, _ in walk():
        assert function in functions_of(PROJECT / file), f"docs/architecture.md: {file}: {function}"


def test_these_walks_go_down_unless_somebody_else_calls() -> None:
    for before, step in pairwise(walk()):
        is_below = step.height >= before.height
        is_called = step.called_by in ("Scrapy", "a loop", "a hook", "a user")
        assert is_below or is_called, f"{before} → {step}"


def test_the_walk_of_a_row_passes_the_pipelines_in_their_order() -> None:
    passed = [
        f"{step.file.removesuffix('.py').replace('/', '.')}.{step.function}"
        for step in walk()
        if "/pipelines/" in step.file
    ]
    in_order = build_component_list(Settings(vars(default_settings))["ITEM_PIPELINES"])
    assert passed == [f"{pipeline}.process_item" for pipeline in in_order]


def functions_of(file: Path) -> set[str]:
    """Functions of a module, and methods as `Class.method`."""
    found = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        functions = [
            one for one in inside if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        found |= {f"{prefix}{one.name}" for one in functions}
    return found


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(PROJECT)) for page in PAGES])
def test_files_that_a_page_names_are_there(page: Path) -> None:
    if page.name == "CHANGELOG.md":
        return  # it names what was there then
    text = page.read_text(encoding="utf-8")
    written = set(re.findall(r"<!-- file: (\S+) -->", text))  # by the reader
    for file in set(re.findall(r"`([\w/]+/\w+\.(?:py|lua))`", text)) - written:
        places = [PROJECT, PROJECT / "crawlproj", PROJECT / "crawlproj/frontier/lua"]
        assert any((place / file).exists() for place in places), f"{page.name}: {file}"


def test_the_newest_release_is_the_version_that_is_shown_to_users_and_servers() -> None:
    changelog = (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8")
    releases = re.findall(r"^## (\S+) \(\d{4}-\d\d-\d\d\)$", changelog, flags=re.MULTILINE)
    sections = re.findall(
        r"^## (?!Unreleased)(\S+)(?! \(unreleased|\S)", changelog, flags=re.MULTILINE
    )
    assert releases == sections, "give it a date"
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == releases[0]
    told = (PROJECT / "crawlproj" / "__init__.py").read_text(encoding="utf-8")
    assert told.endswith(f'\n__version__ = "{releases[0]}"\n')
    assert base.USER_AGENT.startswith(f"crawlproj/{releases[0].rpartition('.')[0]} ")


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, unread = set[Path](), [PROJECT / "README.md"]
    while unread:
        page = unread.pop()
        if page not in reached and page.suffix == ".md":
            reached.add(page)
            unread += [target for target, _ in links_of(page) if target.is_file()]
    assert set(PAGES) <= reached, set(PAGES) - reached


def between(page: str, name: str) -> str:
    """What stands between two comments of a page."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return text.partition(f"<!-- {name} -->\n")[2].partition(f"<!-- /{name} -->")[0]


def keys_as_table() -> str:
    """Every key of frontier/keys.py, by what it says of itself. A prefix stands for the keys that
    begin with it."""
    left_out = ("tag", "queue", "set_aside", "vector")
    lines = ["", "| key | is |", "|---|---|"]
    for name, function in vars(keys).items():
        if inspect.isfunction(function) and name not in left_out:
            given = [KEY_PARTS[one] for one in inspect.signature(function).parameters]
            lines.append(f"| {key_with_meaning(function(*given), function.__doc__ or '')} |")
    return "\n".join([*lines, "", ""])


def key_with_meaning(key: str, meaning: str) -> str:
    """`+ group: sorted set, …` says what comes after the key, and then what it is."""
    meaning = " ".join(meaning.split()).removesuffix(".").replace("->", "→")
    if meaning.startswith("+ "):
        rest, meaning = meaning.removeprefix("+ ").split(": ", 1)
        key += ":".join(f"<{part}>" for part in rest.split(":"))
    return f"`{key}` | {meaning[0].upper()}{meaning[1:]}"


def test_the_page_of_keys_lists_every_one() -> None:
    assert between("keys.md", "keys") == keys_as_table(), (
        f"the table in docs/keys.md is to be:\n{keys_as_table()}"
    )


def counted_stats() -> set[str]:
    """Names that the code counts by; of one that is put together, how it begins."""
    found = {*recorder.STATS}
    for file in (PROJECT / "crawlproj").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_bytes())):
            is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            if is_call and node.func.attr in ("inc_value", "set_value", "max_value") and node.args:
                name = node.args[0]
                parts = name.values if isinstance(name, ast.JoinedStr) else [name]
                if isinstance(parts[0], ast.Constant):
                    found.add(str(parts[0].value))
    return found - {
        "downloader/",
        "httpcompression/response_bytes",
        "httpcompression/response_count",
    }


def test_the_page_of_stats_has_every_one_that_is_counted_and_no_other() -> None:
    shown = set(re.findall(r"`([^`]+)`", between("stats.md", "stats").replace(" | ", "\n")))
    names, counted = {name for name in shown if "/" in name}, counted_stats()
    for name in counted:
        assert any(one.startswith(name) for one in names), f"docs/stats.md lacks {name}"
    for one in names:
        begun = one.partition("<")[0]
        is_counted = any(begun == name or begun.startswith(name) for name in counted)
        assert is_counted, f"docs/stats.md has {one}, which nobody counts"


def test_the_page_of_signals_has_all_of_scrapys() -> None:
    shown = re.findall(r"^\| (`.*?`) \|", between("signals.md", "scrapy"), flags=re.MULTILINE)
    named = [name for cell in shown for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(named) == sorted(name for name in dir(signals) if not name.startswith("_"))


def test_the_page_of_signals_has_the_reasons_that_have_an_exit_code() -> None:
    row = re.compile(r"^\| `(.*?)` \|.*\| (\d+) \|$", flags=re.MULTILINE)
    shown = {reason: int(code) for reason, code in row.findall(between("signals.md", "closed"))}
    assert {reason: code for reason, code in shown.items() if code} == EXIT_CODES
    assert PAGE_LIMIT in shown


def test_every_page_has_its_place_on_the_site() -> None:
    listed = set(re.findall(r"([\w-]+\.md)$", (DOCS / "site" / "mkdocs.yml").read_text(), re.M))
    missing = {page.name for page in DOCS.glob("*.md")} - listed
    assert not missing, f"name it under `nav` in docs/site/mkdocs.yml: {missing}"
