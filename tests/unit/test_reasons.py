"""The reasons that the ledger counts are those that the documentation explains."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from scrapy.exceptions import IgnoreRequest

from crawlproj import reasons
from crawlproj.discover.rules import Rules
from crawlproj.frontier import failures
from crawlproj.urls import UrlError, normalise
from crawlproj.worker import outcome

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs" / "reasons.md").read_text(encoding="utf-8")
FILTERED = {one.name for one in reasons.FILTERED}
DEAD = {one.name for one in reasons.DEAD}
LUA = PROJECT / "crawlproj" / "frontier" / "lua"


@pytest.mark.parametrize("kind", ["filtered", "dead"])
def test_the_page_shows_every_reason(kind: str) -> None:
    shown = re.search(rf"<!-- {kind} -->\n(.*?)<!-- /{kind} -->", PAGE, re.DOTALL)
    assert shown
    wanted = reasons.table(getattr(reasons, kind.upper()))
    assert shown[1].strip() == wanted.strip(), f"the table in docs/reasons.md is to be:\n{wanted}"


def test_the_reasons_of_scripts_are_explained() -> None:
    text = "".join(path.read_text() for path in LUA.glob("*.lua"))
    counted = set(re.findall(r"'filtered:([a-z_]+)'", text))
    dropped = set(re.findall(r"drop_(?:queue|own)\([^)]*'([a-z_]+)'\)", text))
    buried = set(re.findall(r"bury\([^)]*'([a-z_]+)'\)", text))
    assert counted
    assert dropped
    assert counted | dropped <= FILTERED
    assert buried <= DEAD


def test_the_reasons_of_failed_downloads_are_explained() -> None:
    for error, meaning in failures.MEANINGS.items():
        assert meaning.reason in (FILTERED if issubclass(error, IgnoreRequest) else DEAD)
    assert set(outcome.IGNORED.values()) <= FILTERED


@pytest.mark.parametrize(
    "url", ["ftp://a/", "http://", "http://[::1", "http://a:99999/", "http://xn--a-/", "a", ""]
)
def test_the_reasons_of_bad_urls_are_explained(url: str) -> None:
    with pytest.raises(UrlError) as refused:
        normalise(url)
    assert refused.value.reason in FILTERED


@pytest.mark.parametrize(
    ("rules", "path"),
    [
        (Rules(depth=1), "/"),
        (Rules(scope="host"), "/"),
        (Rules(deny=("x",)), "/x"),
        (Rules(allow=("y",)), "/x"),
        (Rules(media=False), "/a.png"),
        (Rules(traps=True), "/a/a/a/a/a/a/a"),
        (Rules(traps=True), "/" + "/".join(map(str, range(30)))),
        (Rules(traps=True), "/?" + "&".join(f"p{n}=1" for n in range(30))),
    ],
)
def test_the_reasons_of_rules_are_explained(rules: Rules, path: str) -> None:
    assert rules.refusal(normalise(f"http://a{path}"), 2, set()) in FILTERED
