"""What is read of links beyond where they lead, as tables of cases."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest

from crawlproj.discover import link_details, links
from crawlproj.discover.link_records import (
    LONGEST_KNOWN,
    Recorder,
    checksum,
    checksums,
    read_checksums,
)
from crawlproj.urls import Url, normalise

PAGE = normalise("http://a.example/b/")


def rows_of(html: str, *, anchors: bool = False) -> list[dict[str, str]]:
    written: list[bytes] = []
    recorder = Recorder(written.append, anchors=anchors)
    read = link_details.read(html.encode(), "utf-8", ids=anchors)
    recorder.page(
        PAGE, "2026-11-17T23:00:00.000Z", read, lambda href, base, encoding: normalise(href, base)
    )
    found: list[dict[str, str]] = json.loads(written[0])["links"]
    return found


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<a href=/x>plain</a>", "plain"),
        ('<a class="c" href="/x">plain</a>', "plain"),
        ("<a href=/x> two\n  lines </a>", "two lines"),
        ("<a href=/x>a &amp; b &eacute;</a>", "a & b é"),
        ("<a href=/x>one <b>two</b> three</a>", "one two three"),
        ("<a href=/x><img src=i alt='An image'></a>", "An image"),
        ("<a href=/x>open<a href=/x>closed</a>", "open"),
        ("<a href=/x><abbr>a</abbr> <article>b</article> c</a>", "a b c"),
        ("<a href=/x>open</abbr> and</a>", "open and"),
        ("<a href=/x>", ""),
        ("<a href=/x>never closed", "never closed"),
        (f"<a href=/x>{'y' * 5000}</a>", "y" * 200),
        ("<area href=/x alt='A place'>text</area>", "A place"),
        ("<A HREF='/x'>Shouted</A>", "Shouted"),
        ("<a href=/x>nul \x00 and \x1b[1m</a>", "nul \ufffd and \x1b[1m"),
    ],
)
def test_the_text_of_a_link(html: str, text: str) -> None:
    assert rows_of(html)[0] | {"rel": ""} == {
        "target": "http://a.example/x",
        "text": text,
        "rel": "",
    }


@pytest.mark.parametrize(
    ("href", "target", "error"),
    [
        ("../c", "http://a.example/c", None),
        ("//b.example", "http://b.example/", None),
        ("/x?utm_source=1#part", "http://a.example/x", None),
        ("mailto:a@b.example", "mailto:a@b.example", "scheme"),
        ("http://a.example:99999/", "http://a.example:99999/", "port"),
        ("/" + "x" * 9000, "/" + "x" * 199, "length"),
    ],
)
def test_where_a_link_leads(href: str, target: str, error: str | None) -> None:
    [row] = rows_of(f'<a href="{href}">t</a>')
    assert (row["target"], row.get("error")) == (target, error)


def test_a_link_is_kept_once_for_each_text_and_rel() -> None:
    html = "<a href=/x>1</a>" * 2 + "<a href=/x>2</a><a href=/x rel=nofollow>2</a><a href=#a>a</a>"
    assert [(row["text"], row["rel"]) for row in rows_of(html)] == [
        ("1", ""),
        ("2", ""),
        ("2", "nofollow"),
    ]


def test_the_links_to_follow_are_those_that_the_crawl_reads_anyway() -> None:
    html = (
        b"<title>t</title><base href=/c/><a href=x>1</a><a rel='nofollow' href=y>2</a>"
        b"<!-- <a href=no> --><script>'<a href=no>'</script><a href='a&amp;b'>3</a><area href=z>"
    )
    for skips in (True, False):
        read = link_details.read(html, "utf-8", skip_nofollow=skips)
        assert read.page == links.extract(html, "utf-8", skip_nofollow=skips)
        assert read.kept_back == (["y"] if skips else [])


def test_what_a_page_embeds_is_found_in_tags_alone() -> None:
    html = (
        b"<img src=1.png srcset='2.png 2x, 3.png 3x' alt=i><script src=4.js>'<img src=no>'</script>"
        b"<link rel='shortcut icon' href=5.ico><link rel=canonical href=no><!-- <img src=no> -->"
        b"<video src=6.mp4 poster=7.png></video><iframe src=8></iframe><input name=x>"
    )
    found = link_details.read(html, "utf-8", embedded=True).embedded
    assert [link[0] for link in found] == [
        *("1.png", "2.png", "3.png", "4.js", "5.ico", "6.mp4", "7.png", "8")
    ]


def test_ids_and_names_of_anchors_are_where_fragments_lead() -> None:
    html = "<p id=one><a name='two'>x</a><input name=no><textarea id=three>t</textarea>"
    html += "<i ID='fo&amp;ur'>"
    ids = link_details.read(html.encode(), "utf-8", ids=True).ids
    assert ids == {"one", "two", "three", "fo&ur"}
    sums = checksums(ids)
    assert [checksum(one) in read_checksums(sums) for one in ("one", "fo&ur", "no", "")] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("href", "fragment"),
    [
        ("/x#a%20b", "a b"),
        ("/x#", ""),
        ("#TOP", ""),
        ("/x#:~:text=word", ""),
        ("/x#part:~:text=word", "part"),
        ("/x#/route", ""),
        ("/x#!old", ""),
    ],
)
def test_the_fragment_of_a_link(href: str, fragment: str) -> None:
    assert link_details.fragment_of(href) == fragment


def test_only_short_links_are_remembered() -> None:
    """50,000 of them are, of any site's: what a long one takes is for the site to say."""
    resolved = Counter[str]()
    recorder = Recorder(lambda row: None, anchors=False)
    long = "y" * LONGEST_KNOWN
    html = f"<a href=/x>short</a><a href=/x>{long}</a><a href=/{long}>t</a><a href=/z rel={long}>"

    def resolve(href: str, base: Url, encoding: str) -> Url:
        resolved[href] += 1
        return normalise(href, base)

    read = link_details.read(html.encode(), "utf-8")
    for _ in range(3):
        recorder.page(PAGE, "2026-11-17T23:00:00.000Z", read, resolve)
    assert resolved == {"/x": 1 + 3, f"/{long}": 3, "/z": 3}


@pytest.mark.parametrize(
    "tag", ["<a href=/x><b>", '<a href="/x">t</a>', "<a href='/x' rel=r>t</a>"]
)
def test_no_more_links_are_looked_at_closely_than_are_kept(
    tag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = Counter[str]()

    class Counting(link_details.DetailReader):
        def label_of(self, match: re.Match[str]) -> str:
            looked["labels"] += 1
            return super().label_of(match)

        def attributes_of(self, match: re.Match[str]) -> dict[str, str]:
            looked["attributes"] += 1
            return super().attributes_of(match)

        def read(self) -> links.Page:
            page = super().read()
            looked["found"] = len(self.found)
            return page

    monkeypatch.setattr(link_details, "DetailReader", Counting)
    html = tag * 50 + "<a href=/y>t</a><title>late</title>"
    read = link_details.read(html.encode(), "utf-8", max_links=20)
    assert max(looked.values()) == len(read.found) == 20
    assert read.page == links.extract(html.encode(), "utf-8", max_links=20)


def test_reading_takes_time_in_proportion_to_the_page() -> None:
    html = b"<a href=/x>" * 20_000 + b"<a href=/y><b" * 5_000
    read = link_details.read(html, "utf-8", embedded=True, ids=True)
    assert len(read.found) == links.MAX_LINKS
