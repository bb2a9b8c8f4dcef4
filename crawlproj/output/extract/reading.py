"""From a page and the rules to rows. Everything that is taken is bounded."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin

from lxml import etree  # type: ignore[import-untyped]

from crawlproj.config.extract_rules import ADDRESS, NUMBER, TEXT, WHOLE, Field, Record

MAX_VALUE = 20_000
"""Characters of a value."""
MOST_VALUES = 1000
"""Of a list."""
MAX_LIST = 200_000
"""Characters of a list: elements may lie within each other, and each has the text of all in it."""
MOST_STEPS = 300_000
"""Tags, ends of tags and comments that are walked through, for all values of a field. Elements may
lie within each other, and each would be walked through whole: an hour for a page of 10 MB, even
where a regex leaves nothing of the text."""

MOST_DIGITS = 20
"""Of a whole number; no column has room for more."""

# The second of commas is for the lakhs of India: 1,23,456.
_NUMBER = re.compile(
    r"""(?P<sign>[-−])?(?P<digits>
    (?P<commas>\d{1,3}(?:,\d{3})+\.\d+|\d{1,3}(?:,\d{2,3})+,\d{3}(?!\d)(?:\.\d+)?)
    |(?P<points>\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:\.\d{3}){2,}(?!\d))
    |(?P<spaced>\d{1,3}(?:['’\s]\d{3})+(?!\d))(?:[.,]\d+)?
    |\d+(?:[.,]\d+)?
    )""",
    re.VERBOSE,
)
_NOT_IN_NUMBERS = re.compile(r"['’\s]")
_THOUSAND = re.compile(r"[1-9]\d{0,2},\d{3}")

_BASE = etree.XPath("string(//base/@href)", smart_strings=False)

Value = str | int | float


def fields_of(record: Record, root: Any, url: str) -> dict[str, Any] | None:
    """The fields of a page that has this root element; what is not there is None. None at all if a
    field is missing that is required."""
    found: dict[str, Any] = {}
    if any(field.type == ADDRESS for field in record.fields):
        url = _absolute(_BASE(root), url) or url
    for field in record.fields:
        values = _values(field, root, url)
        value: Any = list(values) if field.is_list else next(values, None)
        if field.is_required and value in (None, []):
            return None
        found[field.name] = value
    return found


def _values(field: Field, root: Any, url: str) -> Iterator[Value]:
    found = field.find(root)
    room = MAX_LIST
    steps = iter(range(MOST_STEPS))
    for one in (found if isinstance(found, list) else [found])[:MOST_VALUES]:
        text = _matched(_text_of(one, steps)[:MAX_VALUE], field.regex)
        room -= len(text)
        if room < 0:
            return
        value = _typed(text, field.type, url) if text else None
        if value is not None:
            yield value


def _text_of(found: Any, steps: Iterator[int]) -> str:
    """Of an element, all its text, as far as the steps go; on one line."""
    if isinstance(found, float) and found.is_integer():
        found = int(found)
    if not etree.iselement(found):
        text = str(found)
    elif isinstance(found.tag, str):
        text = _text_within(found, steps)
    else:  # a comment
        text = found.text or ""
    return " ".join(text.split())


def _text_within(element: Any, steps: Iterator[int]) -> str:
    """All text in an element, up to five times MAX_VALUE: blanks are put together only later."""
    pieces, room = [], 5 * MAX_VALUE
    walk = etree.iterwalk(element, events=("start", "end", "comment", "pi"))
    for _, (event, node) in zip(steps, walk, strict=False):
        # lxml's itertext takes ten times as long to pass over a comment.
        piece = node.text if event == "start" else node.tail if node is not element else None
        if piece:
            pieces.append(piece)
            room -= len(piece)
            if room < 0:
                break
    return "".join(pieces)


def _matched(text: str, regex: re.Pattern[str] | None) -> str:
    """The first group of the match, or all of it."""
    if regex is None:
        return text
    found = regex.search(text)
    return (found[1] if regex.groups else found[0]) or "" if found else ""


def _typed(text: str, type_: str, url: str) -> Value | None:
    if type_ == TEXT:
        return text
    if type_ == ADDRESS:
        return _absolute(text, url)
    assert type_ in (NUMBER, WHOLE)
    return read_number(text) if type_ == NUMBER else read_whole(text)


def _absolute(text: str, url: str) -> str | None:
    try:
        return urljoin(url, text.strip())
    except ValueError:
        return None


def read_number(text: str) -> float | None:
    """The first number in a text."""
    digits = _digits(text)
    number = float(digits) if digits else math.nan
    return number if math.isfinite(number) else None


def read_whole(text: str) -> int | None:
    """What stands before the decimals of the first number, to the last digit."""
    whole = (_digits(text) or "").partition(".")[0]
    if not whole or len(whole) > MOST_DIGITS:
        return None
    number = int(whole)
    return number if abs(number) < 2**63 else None


def _digits(text: str) -> str | None:
    """The first number in a text as Python writes it. Of points and commas the last is the decimal
    one if both are there; a comma alone is, unless it can only stand before thousands; points are
    unless there are several. Spaces and apostrophes stand before three digits, or end it."""
    found = _NUMBER.search(text)
    if found is None:
        return None
    sign, digits = "-" if found["sign"] else "", found["digits"]
    if found["spaced"]:
        whole, decimals = _NOT_IN_NUMBERS.sub("", found["spaced"]), digits[len(found["spaced"]) :]
        return sign + whole + decimals.replace(",", ".")
    if found["commas"] or _THOUSAND.fullmatch(digits):
        return sign + digits.replace(",", "")
    if found["points"]:
        digits = digits.replace(".", "")
    return sign + digits.replace(",", ".")
