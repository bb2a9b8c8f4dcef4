"""What is not Scrapy's public interface is touched in crawlproj/engine/ alone, and listed there."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from crawlproj.engine import names, versions
from crawlproj.errors import CrawlError

ROOT = Path(__file__).parents[2]
ENGINE = ROOT / "crawlproj/engine"
PUBLIC_CORE = ("scrapy.core.downloader.handlers.base", "scrapy.core.scheduler")
"""Modules of scrapy.core that Scrapy's documentation names."""

OWN = ("self", "cls", "super()")
LISTED = (*names.NEEDED, *names.QUICKER)
PRIVATE = {one.name for one in LISTED if one.name.startswith("_")}


class Module(NamedTuple):
    path: Path
    tree: ast.Module

    @property
    def dotted(self) -> str:
        return ".".join(self.path.relative_to(ROOT).with_suffix("").parts)

    def __str__(self) -> str:
        return str(self.path.relative_to(ROOT))


@functools.cache
def modules(*folders: Path) -> list[Module]:
    paths = (path for folder in folders for path in sorted(folder.rglob("*.py")))
    return [Module(path, ast.parse(path.read_text(encoding="utf-8"))) for path in paths]


Look = Callable[[Module], Iterator[str]]


def here() -> list[Module]:
    return modules(ENGINE)


def others() -> list[Module]:
    found = modules(*(ROOT / name for name in ("crawlproj", "spiders", "pipelines")))
    return [module for module in found if ENGINE not in module.path.parents]


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def private_imports(module: Module) -> Iterator[str]:
    """Modules and names of Scrapy that it keeps to itself."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            found = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found = [(node.module or "", alias.name) for alias in node.names]
        else:
            continue
        for where, name in found:
            path = [*where.split("."), name]
            is_core = where.startswith("scrapy.core") and where not in PUBLIC_CORE
            if path[0] == "scrapy" and (is_core or any(map(is_private, path))):
                yield f"{module}:{node.lineno} imports {where} {name}".rstrip()


def private_attributes(module: Module) -> Iterator[str]:
    """Listed names that are asked of another object."""
    return (f"{module}:{line} {text}" for name, line, text in asked(module) if name in PRIVATE)


def asked(module: Module) -> Iterator[tuple[str, int, str]]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            owner = ast.unparse(node.value)
            if owner not in OWN:
                yield node.attr, node.lineno, f"asks {owner} for {node.attr}"


def inherited(module: Module) -> Iterator[str]:
    """Private names of a Scrapy class that a class derived from it uses or replaces."""
    if not any(isinstance(node, ast.ClassDef) and node.bases for node in module.tree.body):
        return
    loaded = importlib.import_module(module.dotted.removesuffix(".__init__"))
    for node in module.tree.body:
        kind = getattr(loaded, node.name, None) if isinstance(node, ast.ClassDef) else None
        if not inspect.isclass(kind):
            continue
        scrapys = [one for one in kind.__mro__ if one.__module__.split(".")[0] == "scrapy"]
        known = {name for one in scrapys for name in (*vars(one), *names.attributes(one))}
        for name, line in used(node):
            if name in known and is_private(name):
                yield f"{module}:{line} {node.name} uses {name} of Scrapy's"


def used(node: ast.ClassDef) -> Iterator[tuple[str, int]]:
    """Methods that a class has, and names that these ask of their own object."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
            yield inner.name, inner.lineno
        elif isinstance(inner, ast.Attribute) and ast.unparse(inner.value) in OWN:
            yield inner.attr, inner.lineno


@pytest.mark.parametrize("look", [private_imports, private_attributes, inherited])
def test_no_other_room_touches_what_scrapy_keeps_to_itself(look: Look) -> None:
    found = [line for module in others() for line in look(module)]
    assert not found, "\n".join(["belongs into crawlproj/engine, with a line in names.py:", *found])


def test_whatever_is_private_here_is_listed() -> None:
    derived = [line for module in here() for line in inherited(module)]
    unlisted = [line for line in derived if line.split()[-3] not in PRIVATE]
    unlisted += [
        text for module in here() for name, _, text in asked(module) if name not in PRIVATE
    ]
    assert not unlisted, "\n".join(["names.py does not list it:", *unlisted])


def test_every_name_that_is_listed_is_there_and_in_use() -> None:
    assert list(names.missing(LISTED)) == []
    users = [module for module in here() if module.path.name != "names.py"]
    words = {
        word
        for module in users
        for node in ast.walk(module.tree)
        for word in (
            getattr(node, "attr", None),
            getattr(node, "name", None),
            *(alias.name for alias in getattr(node, "names", ()) if isinstance(alias, ast.alias)),
        )
    }
    assert [one for one in LISTED if one.name not in words] == []
    assert len({(one.where, one.name) for one in LISTED}) == len(LISTED)


def test_a_name_that_is_missing_is_found_wherever_it_should_be() -> None:
    gone = [
        names.Name("scrapy.core.engine:ExecutionEngine", "_gone", ""),
        names.Name("scrapy.core.engine:Gone", "_slot", ""),
        names.Name("scrapy.gone", "name", ""),
        names.Name("scrapy.exceptions", "_gone", ""),
    ]
    assert len(list(names.missing([*gone, *LISTED]))) == 4


def test_with_another_scrapy_its_own_parts_are_used_and_the_reason_is_told() -> None:
    assert versions.doubt(versions.TESTED[0], []) == ""
    assert "_slot" in versions.doubt(versions.TESTED[0], ["scrapy.core.engine:X._slot"])
    assert "none that ours were tested with (2.19)" in versions.doubt((2, 99), [])


def test_without_a_name_that_is_needed_a_worker_refuses_to_start() -> None:
    versions.refuse_unfit()
    with pytest.raises(CrawlError, match=r"has no x:Y\._z, .* install Scrapy 2\.19"):
        versions.refuse_unfit(["x:Y._z"])
