"""Rules on attributes: what they say of a row, and what is said of those that cannot be read."""

from __future__ import annotations

from typing import Any

import pytest

from crawlproj.config.keep_rules import RuleError, parse_rule
from crawlproj.config.kinds import KEEP, parsed
from crawlproj.errors import ConfigError

ROW: dict[str, Any] = {
    "url": "https://x.example/a",
    "title": "Ports and Harbours",
    "language": "en",
    "published": "2026-11-12",
    "modified": "2026-11-16T10:00:00Z",
    "author": None,
    "text": "A sponsored article (really).\nSecond line.",
    "videos": ["https://www.youtube.com/embed/x"],
    "structured": {"opengraph": {"type": "article"}},
    "fetched_at": "2026-11-17T00:00:00.000Z",
}


@pytest.mark.parametrize(
    ("rule", "holds"),
    [
        ("published within 7 days", True),
        ("published within 4 days", False),
        ("Published WITHIN 1 week", True),
        ("modified within 24 hours", True),
        ("published within 1 month and published within 100000 years", True),
        ("published before 2026-11-12", False),
        ("published after 2026-11-12", True),
        ('modified after "2026-11-16T12:00:00+02:00"', True),
        ("language = en", True),
        ("language = EN", True),
        ("language=en", True),
        ("language != en", False),
        ("author != Bob", True),
        ("author = Bob", False),
        ("author is missing", True),
        ("videos is present", True),
        ("description is present", False),
        ('title contains "and harb"', True),
        ("videos contains youtube", True),
        ("structured contains article", True),
        (r'text matches "sponsored\s+article"', True),
        ('text matches "^Second"', False),
        ('text matches "(?m)^Second"', True),
        (r'text matches "\(really\)"', True),
        (r"title matches 'Ports|\"'", True),
        ("not language = en", False),
        ("not not language = en", True),
        ("language = de or language = en and author is missing", True),
        ("(language = de or language = en) and author is present", False),
        ("not (language = de or title contains cats)", True),
    ],
)
def test_a_rule_says_whether_it_holds_for_a_row(rule: str, holds: bool) -> None:
    assert parse_rule(rule)(ROW) is holds


@pytest.mark.parametrize(
    ("rule", "place", "accepted"),
    [
        ("", "column 1, at its end", "title"),
        ("publishd within 7 days", "column 1, at “publishd within 7 days”", "published"),
        ("published withn 7 days", "column 11, at “withn 7 days”", "within 7 days"),
        ("published within seven days", "column 18, at “seven days”", "7 days"),
        ("published within 7 fortnights", "column 20, at “fortnights”", "weeks"),
        ("published after soon", "column 17, at “soon”", "2026-01-31"),
        ("published = 2026", "column 11, at “= 2026”", "before"),
        ("language", "column 9, at its end", "contains"),
        ("language = and", "column 12, at “and”", "a word"),
        ("language == en", "column 11, at “= en”", "a word"),
        ("(language = en", "column 15, at its end", '")"'),
        ("language = en)", "column 14, at “)”", '"and"'),
        ("language = en title = x", "column 15, at “title = x”", '"and"'),
        ("title is nice", "column 10, at “nice”", "missing or present"),
        ('text contains "abc', 'column 15, at “"abc”', "quotes"),
        ('text matches "("', 'column 14, at “"("”', "regular expression"),
        ('text matches "(?=x)"', 'column 14, at “"(?=x)"”', "RE2"),
        (f"text matches {'a' * 1001}", "column 14, at “aaa", "at most 1,000"),
        ("(" * 60, "column 51, at “((((((((((”", "at most 50"),
        ("x" * 10_001, "give a rule of at most 10,000", ""),
    ],
)
def test_a_rule_that_cannot_be_read_is_refused_at_its_place(
    rule: str, place: str, accepted: str
) -> None:
    with pytest.raises(RuleError) as refused:
        parse_rule(rule)
    assert place in str(refused.value)
    assert accepted in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_user_is_told_of_a_bad_rule_in_one_line_with_the_name_of_the_argument() -> None:
    with pytest.raises(ConfigError) as refused:
        parsed("keep", "language is", KEEP)
    assert str(refused.value) == (
        "keep=language is: column 12, at its end: give missing or present"
    )


def test_an_expression_takes_linear_time_whatever_the_text() -> None:
    rule = parse_rule('text matches "(a+)+$"')  # exponential for those that try and try again
    assert not rule({"text": "a" * 100_000 + "b"})
