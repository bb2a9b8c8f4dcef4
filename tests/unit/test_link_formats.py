"""The formats of a link check: what the web says is shown in them, and does nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from crawlproj.operate import link_formats
from crawlproj.operate.link_report import LinkReport
from crawlproj.output.broken_links import Broken, Findings, LinkTo

HOSTILE = "\x1b[31m</a><script src=//x.example>&\u202e](x)|`*_\x07\ud800\n# top"
"""A link's text that would colour a terminal, run a script, turn the line, begin a heading."""
PAGE, GONE = "http://a.example/", "http://a.example/gone"


def a_report(*broken: Broken, is_complete: bool = True) -> LinkReport:
    findings = Findings(list(broken), pages=3, links=9, checked=1, unchecked={"robots": 2})
    return LinkReport([PAGE], "2026-11-17T23:00:00.000Z", 12.3, is_complete, findings)


@pytest.fixture
def report() -> LinkReport:
    links = [LinkTo(f"{PAGE}{number}", HOSTILE, GONE) for number in range(20)]
    return a_report(
        Broken(GONE, 404, "permanent", "http_404", links=links),
        Broken(f"http://[::1{HOSTILE}", 0, "permanent", "host", links=links[:1]),
        Broken("http://b.example/", 503, "transient", "http_503", PAGE),
        Broken(f"{PAGE}#lost", 200, "anchor", "anchor", links=[LinkTo(PAGE, "Lost", PAGE)]),
    )


class Reading(HTMLParser):
    """What a page would ask of others by itself, or run, and what it shows."""

    def __init__(self) -> None:
        super().__init__()
        self.active: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "img", "link", "iframe") or any(name == "src" for name, _ in attrs):
            self.active.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_text_commands_no_terminal_and_turns_no_line(report: LinkReport) -> None:
    said = link_formats.to_text(report)
    assert not set(said) & set("\x1b\x07\u202e")
    assert '"\\x1b[31m</a><script src=//x.example>&](x)|`*_\\x07' in said
    assert said.count(f"    {PAGE}") == 23
    assert "# top" not in [line.strip() for line in said.splitlines()]


def test_text_for_a_terminal_shows_the_first_pages_of_many(report: LinkReport) -> None:
    said = link_formats.to_text(report, 5)
    assert f"    {PAGE}4" in said
    assert f"    {PAGE}5" not in said
    assert "    and 15 more links" in said


def test_transient_permanent_and_missing_anchors_stand_apart(report: LinkReport) -> None:
    said = link_formats.to_text(report)
    places = [said.index(heading) for heading in link_formats.HEADINGS.values()]
    assert places == sorted(places)
    assert said.index("http://b.example/") > places[1]
    assert said.index(f"{PAGE}#lost") > places[2]
    assert said.splitlines()[-1] == (
        "4 broken links (2 permanent, 1 transient, 1 without their anchor): 3 pages and 1 other "
        "link in 12 s, from http://a.example/; 2 URLs not asked (robots 2)"
    )


def test_json_has_the_pages_of_each_and_reads_back(report: LinkReport) -> None:
    told = json.loads(link_formats.to_json(report))
    gone, _, busy, _ = told["broken"]
    assert gone["sources"] == [f"{PAGE}{number}" for number in range(20)]
    assert gone["links"][0]["text"] == HOSTILE
    assert busy["sources"] == [PAGE]


def test_junit_is_well_formed_and_has_a_failure_for_each(report: LinkReport) -> None:
    suite = ElementTree.fromstring(link_formats.to_junit(report).encode("utf-8", "replace"))[0]
    assert (suite.get("tests"), suite.get("failures")) == ("4", "4")
    assert [case.find("failure") is not None for case in suite.findall("testcase")] == [True] * 4
    clean = ElementTree.fromstring(link_formats.to_junit(a_report()))[0]
    assert (clean.get("tests"), clean.get("failures")) == ("1", "0")


def test_junit_fails_only_for_the_kinds_for_which_the_check_does(report: LinkReport) -> None:
    lenient = replace(report, fails_on=frozenset({"permanent"}))
    suite = ElementTree.fromstring(link_formats.to_junit(lenient).encode("utf-8", "replace"))[0]
    counts = [suite.get(name) for name in ("tests", "failures", "skipped")]
    assert counts == ["4", "2", "2"]
    skipped = [case.get("classname") for case in suite if case.find("skipped") is not None]
    assert skipped == ["linkcheck.transient", "linkcheck.anchor"]


def test_markdown_has_no_markup_from_the_web(report: LinkReport) -> None:
    said = link_formats.to_markdown(report)
    assert "](x)" not in said
    assert "<script" not in said
    assert "\n# top" not in said
    assert f"- <{GONE}> 404\n    - <{PAGE}0>" in said


def test_html_runs_nothing_and_asks_for_nothing(report: LinkReport) -> None:
    page = Reading()
    page.feed(link_formats.to_html(report))
    assert page.active == []
    assert "<script src=//x.example>" in page.text


def test_a_site_without_broken_links_is_one_line() -> None:
    said = link_formats.to_text(a_report())
    assert said.startswith("No broken links: 3 pages")
    assert said.count("\n") == 1


def test_an_interrupted_check_says_so() -> None:
    assert link_formats.to_line(a_report(is_complete=False)).startswith("Interrupted, so far: ")


@pytest.mark.parametrize("name", ["text", "markdown", "html", "junit", "json"])
def test_every_format_says_through_which_url_a_link_leads_to_what_is_broken(name: str) -> None:
    led = a_report(
        Broken(GONE, 404, "permanent", "http_404", links=[LinkTo(PAGE, "x", f"{PAGE}r")])
    )
    said = link_formats.FORMATS[name](led)
    assert f"{PAGE}r" in said
    if name != "json":
        assert "through" in said
    straight = a_report(Broken(GONE, 404, "permanent", "http_404", links=[LinkTo(PAGE, "x", GONE)]))
    assert "through" not in link_formats.FORMATS[name](straight)
