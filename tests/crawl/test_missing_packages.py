"""Crawls whose plan needs packages that a machine does not have."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.servers.fleet import PROJECT, Fleet
from tests.servers.origin import Origin, Reply

HIDDEN = """
import importlib.util, sys

sys.modules["re2"] = None
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: (
    None if name in {names!r} else found(name, package)
)
"""
INSTALL = "pip install 'crawlproj[attributes]'"
SETTINGS = {"POLITENESS_DELAY": "0", "FRONTIER_LEASE_TIMEOUT": "2"}


@pytest.fixture
def origin() -> Iterator[Origin]:
    with Origin({"/": Reply(body=b"<title>One</title>"), "/robots.txt": Reply(404)}) as origin:
        yield origin


def without(fleet: Fleet, *names: str) -> dict[str, str]:
    """The environment of a machine that does not have these packages, nor re2."""
    folder = fleet.folder / "-".join(["without", *names])
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(HIDDEN.format(names=set(names)))
    return {"PYTHONPATH": os.pathsep.join([str(folder), str(PROJECT)])}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"attributes": "true"}, "attributes=true: needs packages that are not installed"),
        ({"keep": "text matches harbour"}, "matches needs a package"),
        ({"render": "auto"}, "CRAWL_RENDER: needs packages that are not installed"),
    ],
)
def test_a_start_that_lacks_a_package_begins_no_crawl(
    fleet: Fleet, origin: Origin, args: dict[str, str], said: str
) -> None:
    here = without(fleet, "resiliparse", "playwright")
    first = fleet.start(SETTINGS, env=here, seeds=origin.url("/"), **args)
    first.wait()
    assert first.process.returncode == 2, first.log
    assert said in first.log and "Traceback" not in first.log
    assert fleet.status()["state"] == "empty"
    second = fleet.start(SETTINGS, env=here, seeds=origin.url("/"))
    assert second.wait() == "finished", second.log


@pytest.mark.parametrize(
    "args", [{"attributes": "true"}, {"keep": "text matches harbour"}], ids=["attributes", "keep"]
)
def test_a_worker_that_joins_without_a_package_says_what_to_install(
    fleet: Fleet, origin: Origin, args: dict[str, str]
) -> None:
    first = fleet.start(SETTINGS, seeds=origin.url("/"), stay="true", **args)
    first.wait_for_log("Beginning the crawl")
    second = fleet.start(SETTINGS, env=without(fleet, *_missing(args)))
    second.wait()
    assert second.process.returncode == 1
    (line,) = [line for line in second.log.splitlines() if "ERROR" in line]
    assert INSTALL in line and "Traceback" not in second.log
    assert first.is_running


def _missing(args: dict[str, str]) -> tuple[str, ...]:
    """A rule needs re2 alone, which is hidden anyhow."""
    return ("resiliparse",) if "attributes" in args else ()
