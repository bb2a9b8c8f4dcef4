"""What runs is what is locked: exact versions, all installed, nothing imported beside them.

No advisory is looked up here, for the suite needs no network: `make audit` does that.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions, version
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = Path(__file__).parents[2]
LOCKS = ("requirements.lock", "requirements-dev.lock")
OTHER_LOCKS = ("docs/site/requirements.lock", "docs/deploy/requirements.lock")
"""Of environments of their own: make docs, make manifests."""
OURS = ("crawlproj", "spiders", "pipelines", "settings")
NEWER = {"compression"}
"""Of Python's own modules, since 3.14; before that a package stands in."""
LARGE_EXTRAS = {"render"}
"""Hundreds of megabytes that few need: locked for the tests alone, and not put into .venv by
`make crawl`."""
PIN = re.compile(r"[A-Za-z0-9._-]+==[0-9][\w.+!-]*(; [^;]+)?")


def lines(lock: str) -> list[str]:
    return (PROJECT / lock).read_text(encoding="utf-8").splitlines()


def pins(lock: str) -> dict[str, str]:
    """Name -> version, of what this platform needs."""
    found = map(Requirement, lines(lock))
    return {
        canonicalize_name(one.name): str(one.specifier).removeprefix("==")
        for one in found
        if one.marker is None or one.marker.evaluate()
    }


def project() -> dict[str, Any]:
    text = (PROJECT / "pyproject.toml").read_text(encoding="utf-8")
    found: dict[str, Any] = tomllib.loads(text)["project"]
    return found


def large_packages() -> set[str]:
    extras = project()["optional-dependencies"]
    texts = chain.from_iterable(extras[name] for name in LARGE_EXTRAS)
    return {canonicalize_name(Requirement(text).name) for text in texts}


def wanted() -> dict[str, list[Requirement]]:
    extras = dict(project()["optional-dependencies"])
    dev = [Requirement(text) for name in ("dev", *LARGE_EXTRAS) for text in extras.pop(name)]
    run = [Requirement(text) for text in [*project()["dependencies"], *chain(*extras.values())]]
    return {LOCKS[0]: run, LOCKS[1]: [*run, *dev]}


def imported() -> Iterator[tuple[str, str]]:
    """(file, module) of everything that our packages import from elsewhere."""
    for package in OURS:
        for file in (PROJECT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_bytes())):
                if isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom) and not node.level:
                    names = [node.module or ""]
                else:
                    continue
                for name in names:
                    top = name.partition(".")[0]
                    if top not in {*sys.stdlib_module_names, *NEWER, *OURS}:
                        yield str(file.relative_to(PROJECT)), top


@pytest.mark.parametrize("lock", [*LOCKS, *OTHER_LOCKS])
def test_every_line_of_a_lock_is_one_exact_version(lock: str) -> None:
    assert [line for line in lines(lock) if not PIN.fullmatch(line)] == []
    names = [canonicalize_name(Requirement(line).name) for line in lines(lock)]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_has_what_the_project_asks_for(lock: str) -> None:
    have = pins(lock)
    for one in wanted()[lock]:
        if one.marker is None or one.marker.evaluate():
            assert one.specifier.contains(have[canonicalize_name(one.name)]), one


def test_what_is_installed_is_what_is_locked() -> None:
    assert pins(LOCKS[0]).items() <= pins(LOCKS[1]).items()
    assert {name: version(name) for name in pins(LOCKS[1])} == pins(LOCKS[1])


def test_what_is_installed_fits_together() -> None:
    subprocess.run([sys.executable, "-m", "pip", "check"], check=True, capture_output=True)


def test_what_is_imported_is_locked() -> None:
    of = packages_distributions()
    have = pins(LOCKS[0]).keys() | large_packages()
    missing = [
        (file, module)
        for file, module in imported()
        if not have & {canonicalize_name(name) for name in of.get(module, ())}
    ]
    assert missing == []
