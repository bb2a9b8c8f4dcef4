"""From a page and the rules to rows. Everything that is taken is bounded."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin

from crawlproj.config.extract_rules import ADDRESS, NUMBER, TEXT, WHOLE, Field, Record

MAX_VALUE = 20_000
"""Characters of a value."""
MOST_VALUES = 1000
"""Of a list."""

_NUMBER = re.compile(r"[-−]?\d[\d.,'’\s]*")
_NOT_IN_NUMBERS = re.compile(r"['’\s]")
_DECIMAL_COMMA = re.compile(r".*,(?!\d{3}$)\d+")

Value = str | int | float


def fields_of(record: Record, root: Any, url: str) -> dict[str, Any] | None:
    """The fields of a page that has this root element; what is not there is None. None at all if a
    field is missing that is required."""
    found: dict[str, Any] = {}
    for field in record.fields:
        values = _values(field, root, url)
        value: Any = list(values) if field.is_list else next(values, None)
        if field.is_required and value in (None, []):
            return None
        found[field.name] = value
    return found


def _values(field: Field, root: Any, url: str) -> Iterator[Value]:
    found = field.find(root)
    for one in (found if isinstance(found, list) else [found])[:MOST_VALUES]:
        text = _matched(_text_of(one)[:MAX_VALUE], field.regex)
        value = _typed(text, field.type, url) if text else None
        if value is not None:
            yield value


def _text_of(found: Any) -> str:
    """Of an element, all its text; on one line."""
    if isinstance(found, float) and found.is_integer():
        found = int(found)
    text = found if isinstance(found, str) else None
    if text is None:
        text = "".join(found.itertext()) if hasattr(found, "itertext") else str(found)
    return " ".join(text.split())


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
    number = read_number(text)
    if type_ == NUMBER or number is None:
        return number
    assert type_ == WHOLE
    return int(number) if abs(number) < 2**63 else None


def _absolute(text: str, url: str) -> str | None:
    try:
        return urljoin(url, text)
    except ValueError:
        return None


def read_number(text: str) -> float | None:
    """The first number in a text. Of points and commas the last is the decimal one if both are
    there; a comma alone is, unless three digits follow; points are unless there are several."""
    found = _NUMBER.search(text)
    if found is None:
        return None
    digits = _NOT_IN_NUMBERS.sub("", found[0]).rstrip(".,").replace("−", "-")
    if digits.rfind(",") > digits.rfind(".") >= 0 or (
        "." not in digits and digits.count(",") == 1 and _DECIMAL_COMMA.fullmatch(digits)
    ):
        digits = digits.replace(".", "").replace(",", ".")
    digits = digits.replace(",", "")
    if digits.count(".") > 1:
        digits = digits.replace(".", "")
    try:
        number = float(digits)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
