"""Fields by selectors: the file that names them, and what is read of a page."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from scrapy.http import HtmlResponse

from crawlproj.config import Config
from crawlproj.config.extract_rules import ExtractError, parse
from crawlproj.errors import ConfigError
from crawlproj.frontier.plan import Plan
from crawlproj.items import PageItem
from crawlproj.output.extract.reading import MAX_LIST, fields_of, read_number, read_whole
from crawlproj.output.extract.table import ExtractTable
from crawlproj.output.kinds import FORMATS
from crawlproj.output.merge import Wish, merge
from crawlproj.output.tables import open_tables

PAGE = """<html><body><h1> A  <b>great</b>
 book</h1><p class="price">only 1.299,50 €</p><p class="count">12 left</p>
<a rel="tag" href="/t/1">one</a><a rel="tag" href="/t/2">two, "2"</a>
<a rel="tag"> </a></body></html>"""

RULES = r"""
heading = "h1"

[book]
match = '/books/\d+$'
price = { css = ".price::text", type = "number" }
left = { xpath = "//p[@class='count']", type = "integer" }
word = { css = ".price::text", regex = '^(\w+)' }
tags = { css = "a[rel=tag]", list = true }
addresses = { css = "a::attr(href)", list = true, type = "url" }
counted = { xpath = "count(//a)", type = "integer" }
missing = ".none::text"
"""
URL = "https://x.example/books/7"


def read(rules: str, page: str = PAGE, url: str = URL) -> dict[str, Any]:
    root = HtmlResponse(url, body=page.encode(), encoding="utf-8").selector.root
    records = [record for record in parse(rules) if record.is_of(url)]
    return {record.name: fields_of(record, root, url) for record in records}


def test_a_page_has_what_its_selectors_find() -> None:
    assert read(RULES) == {
        "page": {"heading": "A great book"},
        "book": {
            "price": 1299.5,
            "left": 12,
            "word": "only",
            "tags": ["one", 'two, "2"'],
            "addresses": ["https://x.example/t/1", "https://x.example/t/2"],
            "counted": 3,
            "missing": None,
        },
    }


def test_only_pages_that_match_have_a_record_and_only_with_what_is_required() -> None:
    assert read(RULES, url="https://x.example/about").keys() == {"page"}
    rules = 'a = { css = "h1", required = true }\n[t]\nb = { css = "h2", required = true }'
    assert read(rules) == {"page": {"a": "A great book"}, "t": None}


def test_a_list_is_bounded_though_its_elements_lie_within_each_other() -> None:
    page = "<div>" * 100 + "x" * 15_000 + "</div>" * 100
    [found] = read('all = { css = "div", list = true }', page).values()
    assert 100_000 < len("".join(found["all"])) <= MAX_LIST


@pytest.mark.parametrize("inside", ["<b>a b</b>", "<b></b>", "<!-- a -->"])
def test_elements_within_each_other_take_no_longer_to_read_than_a_large_page(inside: str) -> None:
    """Also where a regex leaves nothing of them: 900 of these took minutes."""
    page = "<div>" * 900 + inside * 30_000 + "</div>" * 900
    rules = "one = { css = 'div', regex = '[$][0-9]' }"
    began_s = time.thread_time()
    assert read(rules, page) == {"page": {"one": None}}
    assert time.thread_time() - began_s < 5


def test_the_text_of_an_element_has_no_comments_and_a_comment_has_its_own() -> None:
    page = "<p>a <!-- b --><i>c</i> d<?e?> f</p> g"
    rules = "text = 'p'\ncomment = { xpath = '//comment()' }"
    assert read(rules, page) == {"page": {"text": "a c d f", "comment": "b"}}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12", 12),
        ("about -3.5 %", -3.5),
        ("1,299.00", 1299),
        ("1.299,00", 1299),
        ("1,299", 1299),
        ("1,5", 1.5),
        ("1.299", 1.299),
        ("1.234.567", 1_234_567),
        ("1,234,567", 1_234_567),
        ("1 299", 1299),
        ("1 234 567", 1_234_567),
        ("1 299,50 €", 1299.5),
        ("1\u202f299.50", 1299.5),
        ("10.00 12.00", 10),
        ("19,99 24,99 €", 19.99),
        ("10 20", 10),
        ("10 2000", 10),
        ("1 299 1 199", 1299),
        ("4.5 4.5 out of 5", 4.5),
        ("1,299.00 1,199.00", 1299),
        ("1.299,00 1.199,00", 1299),
        ("1,23,456.50", 123456.5),
        ("12,34,567", 1234567),
        ("0,999", 0.999),
        ("-0,125", -0.125),
        ("1234,567", 1234.567),
        ("10,000", 10_000),
        ("18.11.2026", 18.11),
        ("1.2.3", 1.2),
        ("3, 4 and 5", 3),
        ("−5", -5),
        ("1'234'567.89", 1_234_567.89),
        ("5'11", 5),
        ("CHF 1'299.-", 1299),
        ("2.", 2),
        ("none", None),
        ("9" * 400, None),
    ],
)
def test_a_number_is_read_however_it_is_written(text: str, number: float | None) -> None:
    assert read_number(text) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1234567890123456789", 1234567890123456789),
        ("id 9,223,372,036,854,775,807", 2**63 - 1),
        ("9223372036854775808", None),
        ("-9 007 199 254 740 993", -9007199254740993),
        ("12.9", 12),
        ("-12,9", -12),
        ("0.5", 0),
        ("9" * 5000, None),
        ("none", None),
    ],
)
def test_a_whole_number_keeps_all_its_digits(text: str, number: int | None) -> None:
    assert read_whole(text) == number


def test_addresses_are_relative_to_what_the_page_says() -> None:
    rules = 'a = { css = "a::attr(href)", type = "url" }'
    page = '<html><head><base href="{}"></head><body><a href=" p1 ">a</a></body></html>'
    for base, address in [
        ("/shop/", "https://x.example/shop/p1"),
        ("https://y.example/a/b", "https://y.example/a/p1"),
        ("", "https://x.example/books/p1"),
    ]:
        assert read(rules, page.format(base)) == {"page": {"a": address}}


def test_the_first_price_of_two_is_taken() -> None:
    page = "<div class=price><del>10.00</del> <ins>12.00</ins></div>"
    assert read('p = { css = ".price", type = "number" }', page) == {"page": {"p": 10}}


@pytest.mark.parametrize(
    "xpath",
    [
        "//a[re:test(@href, '\\\\d')]",
        "//a[contains(., 'lower-case(x) $v svg:a') and (1 or (2))]/ancestor::node()/text()",
        "//p[has-class('price')] | //h1/following-sibling::*[position() mod (2) = 1]",
        "substring-before(normalize-space(//h1), ' ')",
    ],
)
def test_what_lxml_knows_is_allowed(xpath: str) -> None:
    assert parse(f'a = {{ xpath = "{xpath}" }}')


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ("a = ", "Invalid value (at end of document)"),
        ("", "has no field"),
        ("[t]\nmatch = 'a'", "[t]: has no field"),
        ("[t]\nmatch = '('\na = 'b'", "[t] match is no regular expression"),
        ("a = 'b['", "[page] a: 'b[' is no selector of CSS"),
        ("a = { xpath = '//[' }", "[page] a: '//[' is no XPath"),
        ("a = { css = 'b', xpath = '//b' }", "[page] a: give css or xpath, one of them"),
        (
            "[t]\na = { list = true, css = 'b', typ = 'text' }",
            "[t] a: no option typ; there are css",
        ),
        ("a = { css = 'b', list = 1 }", "[page] a: list is true or false"),
        ("a = { css = 'b', regex = '(' }", "[page] a: regex is no regular expression"),
        ("a = 7", "[page] a: give a selector in quotes"),
        *(
            (f'a = {{ xpath = "{xpath}" }}', f"is no XPath: {why}")
            for xpath, why in (
                ("lower-case(//h1)", "Unregistered function"),
                ("//h1[lower-case(.) = 'a']", "Unregistered function lower-case"),
                ("//svg:rect", "Undefined namespace prefix"),
                ("//a[svg:rect]", "Undefined namespace prefix svg"),
                ("$v", "Undefined variable"),
                ("//a[@href = $v]", "Undefined variable $v"),
                ("re:test(//h1, '(')", ""),
            )
        ),
        ("_part = 'b'", "[page] _part: scrapy merge needs that name"),
        ("_Format = 'b'", "[page] _Format: scrapy merge needs that name"),
        ("[t]\nRowid = 'b'", "[t] Rowid: scrapy merge needs that name"),
        ("a = 'b'\n[page]\nb = 'c'", "[page]: that is the record of the fields outside"),
        ("URL = 'b'", "[page] URL: every row has that column already"),
        ("'a b' = 'b'", "[page] a b: a name is of letters"),
        ("a = 'b'\n[t]\na = { css = 'b', list = true }", "[t] a: is there as a with another type"),
        ("a = 'b'\nA = 'b'", "[page] A: is there as a with another type"),
        ("\n".join(f"a{number} = 'b'" for number in range(200)), "has 200 fields, more than"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_place(rules: str, said: str) -> None:
    with pytest.raises(ExtractError) as refusal:
        parse(rules)
    assert said in str(refusal.value)


def test_a_file_is_checked_with_the_settings_and_its_text_belongs_to_the_plan(
    tmp_path: Path,
) -> None:
    file = tmp_path / "fields.toml"
    with pytest.raises(ConfigError, match=r"fields\.toml: no such file"):
        Config.from_settings({"CRAWL_EXTRACT": str(file)})
    file.write_text('a = "b["')
    with pytest.raises(ConfigError, match=r"CRAWL_EXTRACT=.*fields\.toml: \[page\] a: 'b\['"):
        Config.from_settings({"CRAWL_EXTRACT": str(file)})
    file.write_text('a = "b"')
    plan = Plan.of(Config.from_settings({"CRAWL_EXTRACT": str(file)}))
    file.unlink()
    assert Plan.decode(plan.encode()).extract == 'a = "b"'


def write(folder: Path, leases: tuple[int, ...] = (1,)) -> None:
    table = ExtractTable(folder, "w1", RULES, rotate_bytes=1e9, rotate_s=1e9)
    for lease in leases:
        page = PAGE.replace("12 left", f"{lease} left").replace("great", "=great")
        response = HtmlResponse(URL, body=page.encode(), encoding="utf-8")
        row = PageItem(
            url=URL, status=200, fetched_at="2026-11-18T00:00:00.000Z", worker="w", lease=lease
        )
        table.add(response, row)
        table.save()
    table.close()


def test_rows_are_on_disk_and_merged_in_every_format_with_their_types(tmp_path: Path) -> None:
    write(tmp_path, (2, 1))
    with (tmp_path / "extracted-w1-0001.jsonl").open("a") as part:
        part.write('{"url": "https://x.example/torn')
    merge(tmp_path, tmp_path, Wish(FORMATS))
    rows = [json.loads(line) for line in (tmp_path / "extracted.jsonl").read_text().splitlines()]
    book = next(row for row in rows if row["record"] == "book")
    assert len(rows) == 2
    assert (book["left"], book["price"], book["tags"]) == (2, 1299.5, ["one", 'two, "2"'])
    assert (book["heading"], book["missing"], book["lease"]) == (None, None, 2)
    text = (tmp_path / "extracted.csv").read_text()
    assert '"[""one"",""two, \\""2\\""""]"' in text
    with open_tables(tmp_path) as tables:
        asked = "SELECT price / 2, tags[2], \"left\" + 1 FROM extracted WHERE record = 'book'"
        assert tables.ask(asked) == [(649.75, 'two, "2"', 3)]


def test_what_only_the_csv_has_is_merged_with_its_types(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "extracted-w1-0001.jsonl").unlink()
    with open_tables(tmp_path) as tables:
        asked = "SELECT tags, price, addresses[1] FROM extracted WHERE record = 'book'"
        [(tags, price, address)] = tables.ask(asked)
    assert (tags, price, address) == (["one", 'two, "2"'], 1299.5, "https://x.example/t/1")


def test_a_heading_that_looks_like_a_formula_is_text_in_a_spreadsheet(tmp_path: Path) -> None:
    table = ExtractTable(tmp_path, "w1", 'a = "h1"', rotate_bytes=1e9, rotate_s=1e9)
    response = HtmlResponse(URL, body=b"<h1>=1+1</h1>", encoding="utf-8")
    table.add(response, PageItem(url=URL, status=200, fetched_at="2026-11-18T00:00:00Z", worker=""))
    table.close()
    assert ",0,'=1+1" in (tmp_path / "extracted-w1-0001.csv").read_text()
    assert '"a": "=1+1"' in (tmp_path / "extracted-w1-0001.jsonl").read_text()


def test_a_base_that_is_no_url_leaves_addresses_relative_to_the_page(tmp_path: Path) -> None:
    rules = 'a = { css = "a::attr(href)", type = "url" }'
    table = ExtractTable(tmp_path, "w1", rules, rotate_bytes=1e9, rotate_s=1e9)
    response = HtmlResponse(URL, body=b"<base href='http://['><a href=p1>", encoding="utf-8")
    table.add(response, PageItem(url=URL, status=200, fetched_at="2026-11-18T00:00:00Z", worker=""))
    table.close()
    [row] = map(json.loads, (tmp_path / "extracted-w1-0001.jsonl").read_text().splitlines())
    assert row["a"] == "https://x.example/books/p1"


def test_a_page_without_anything_to_match_leaves_no_file(tmp_path: Path) -> None:
    table = ExtractTable(tmp_path, "w1", "[t]\nmatch='/no'\na = 'b'", rotate_bytes=1, rotate_s=1)
    response = HtmlResponse(URL, body=PAGE.encode(), encoding="utf-8")
    table.add(response, PageItem(url=URL, status=200, fetched_at="2026-11-18T00:00:00Z", worker=""))
    table.close()
    assert not list(tmp_path.iterdir())
