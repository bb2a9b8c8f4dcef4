"""The reasons that the ledger counts are those that the documentation explains."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path

import pytest
from scrapy.exceptions import IgnoreRequest

from crawlproj import reasons
from crawlproj.frontier import failures
from crawlproj.operate import why
from crawlproj.worker import outcome

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs" / "reasons.md").read_text(encoding="utf-8")
FILTERED = {one.name for one in reasons.FILTERED}
DEAD = {one.name for one in reasons.DEAD}
CODE = PROJECT / "crawlproj"
LUA = CODE / "frontier" / "lua"

CALLS = {"Filtered": 0, "Failed": 0, "Meaning": 0, "UrlError": 0}
"""What is made of a reason, and which of its arguments that is."""
METHODS = {"_leave_out": 1, "_filter": 1, "_refuse": 1, "filter_queued": 0}
FUNCTIONS = {"refusal", "refuses", "looks_like_trap", "_looks", "failure_reason"}
"""Those that return a reason."""
FAMILIES = {"http_": "http_NNN", reasons.CALLBACK: "callback_NAME"}
"""How reasons begin that are described as one."""
LEFT_OUT = {"_leave_out", "refusal", "looks_like_trap", "_looks"}
"""Those of discover/ that judge links."""


@pytest.mark.parametrize("kind", ["filtered", "dead"])
def test_the_page_shows_every_reason(kind: str) -> None:
    shown = re.search(rf"<!-- {kind} -->\n(.*?)<!-- /{kind} -->", PAGE, re.DOTALL)
    assert shown
    wanted = reasons.table(getattr(reasons, kind.upper()))
    assert shown[1].strip() == wanted.strip(), f"the table in docs/reasons.md is to be:\n{wanted}"


def reasons_of_scripts() -> tuple[set[str], set[str]]:
    """Those for which scripts of the frontier filter, and those for which they give up."""
    text = "".join(path.read_text() for path in LUA.glob("*.lua"))
    counted = set(re.findall(r"'filtered:([a-z_]+)'", text))
    dropped = set(re.findall(r"(?:drop_queue\([^)]*|\breason = )'([a-z_]+)'", text))
    buried = set(re.findall(r"add_dead_letter\([^)]*'([a-z_]+)'\)", text))
    return counted | dropped, buried


def reasons_of_code(files: Iterable[Path], names: set[str]) -> set[str]:
    """Those that are counted there by these calls and functions."""
    return {
        FAMILIES.get(reason, reason)
        for path in files
        for node in ast.walk(ast.parse(path.read_bytes()))
        for place in places_of_reasons(node, names)
        for reason in texts_in(place, path)
    }


def places_of_reasons(node: ast.AST, names: set[str]) -> Iterator[ast.AST]:
    """The arguments and returned values that are reasons."""
    if isinstance(node, ast.Call):
        is_method = isinstance(node.func, ast.Attribute)
        name = getattr(node.func, "attr" if is_method else "id", "")
        place = (METHODS if is_method else CALLS).get(name)
        if name in names and place is not None and len(node.args) > place:
            yield node.args[place]
    if isinstance(node, ast.FunctionDef) and node.name in names & FUNCTIONS:
        yield from (one for one in ast.walk(node) if isinstance(one, ast.Return))


def texts_in(place: ast.AST, path: Path) -> Iterator[str]:
    """The words in an expression: as they stand there, or as constants of the module."""
    for node in ast.walk(place):
        if isinstance(node, ast.Constant):
            found = node.value
        elif isinstance(node, ast.Name):
            module = ".".join(path.relative_to(PROJECT).with_suffix("").parts)
            found = getattr(import_module(module), node.id, None)
        else:
            continue
        if isinstance(found, str) and re.fullmatch(r"[a-z_-]+", found):
            yield found


def test_the_reasons_that_are_counted_are_those_that_are_explained() -> None:
    filtered, buried = reasons_of_scripts()
    counts = [path for path in CODE.rglob("*.py") if "operate" not in path.parts]  # it only shows
    code = reasons_of_code(counts, {*CALLS, *METHODS, *FUNCTIONS})
    assert filtered <= FILTERED
    assert buried <= DEAD
    assert sorted(code | filtered | buried) == sorted(FILTERED | DEAD)


def test_why_explains_every_reason_for_which_a_link_is_left_out() -> None:
    assert reasons_of_code((CODE / "discover").glob("*.py"), LEFT_OUT) <= {*why.RULES}


def test_the_reasons_of_failed_downloads_are_explained() -> None:
    for error, meaning in failures.MEANINGS.items():
        assert meaning.reason in (FILTERED if issubclass(error, IgnoreRequest) else DEAD)
    assert set(outcome.IGNORED.values()) <= FILTERED
