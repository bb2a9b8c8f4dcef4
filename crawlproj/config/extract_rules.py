"""What is extracted of pages (CRAWL_EXTRACT): a file of TOML, read and checked.

    title = "h1"                                     # of every page

    [product]                                        # of pages whose URL matches
    match = '/products/\\d+'
    price = { css = ".price::text", type = "number", required = true }
    tags = { xpath = "//a[@rel='tag']", list = true }

A name and a selector are a field, a table is a record: what pages of one sort have. Selectors are
CSS with `::text` and `::attr()`, or XPath. Pure: knows no page.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lxml import etree  # type: ignore[import-untyped]
from parsel.csstranslator import HTMLTranslator

TEXT, WHOLE, NUMBER, ADDRESS = "text", "integer", "number", "url"
TYPES = (TEXT, WHOLE, NUMBER, ADDRESS)
EVERY_PAGE = "page"
"""The record of fields that stand outside of any table."""
MATCH = "match"
MERGING_COLUMNS = ("rowid", "_part", "_format")
"""Which merging has beside those of the rows."""
OWN_COLUMNS = ("url", "record", "fetched_at", "lease")
"""Of each row, beside its fields."""
MOST_BYTES = 100_000
MOST_FIELDS = 150

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_OPTIONS = ("css", "xpath", "list", "type", "regex", "required")
_NAMESPACES = {"re": "http://exslt.org/regular-expressions"}


class ExtractError(ValueError):
    """What is wrong, and where."""


@dataclass(frozen=True)
class Field:
    """A column, and where its values come from."""

    name: str
    find: etree.XPath
    type: str = TEXT
    is_list: bool = False
    regex: re.Pattern[str] | None = None
    is_required: bool = False
    """Whether a page without it has no row."""


@dataclass(frozen=True)
class Record:
    """What is read of pages of one sort."""

    name: str
    match: re.Pattern[str] | None
    fields: tuple[Field, ...]

    def is_of(self, url: str) -> bool:
        """Whether a page is of that sort."""
        return self.match is None or self.match.search(url) is not None


def load(given: str) -> str:
    """The rules themselves, checked; they may be given, or the file that has them."""
    text = _content(given)
    parse(text)
    return text


def _content(given: str) -> str:
    path = Path(given)
    try:
        if "\n" not in given and path.is_file():
            return path.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise ExtractError(f"cannot be read: {error}") from None
    if "=" not in given:
        raise ExtractError("no such file")
    return given


def parse(text: str) -> tuple[Record, ...]:
    """The records of a file; raises ExtractError."""
    if len(text) > MOST_BYTES:
        raise ExtractError(f"longer than {MOST_BYTES} characters")
    try:
        found = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ExtractError(str(error)) from None
    outside = {name: value for name, value in found.items() if not _is_record(value)}
    tables = {name: value for name, value in found.items() if _is_record(value)}
    if outside and EVERY_PAGE in tables:
        raise ExtractError(
            f"[{EVERY_PAGE}]: that is the record of the fields outside of any table; give it "
            "another name"
        )
    if outside:
        tables = {EVERY_PAGE: outside, **tables}
    records = tuple(_record(name, table) for name, table in tables.items())
    if not records:
        raise ExtractError('has no field: give a name and a selector, such as title = "h1"')
    columns_of(records)
    return records


def columns_of(records: tuple[Record, ...]) -> dict[str, Field]:
    """Column → a field of it; those of all records together, each of one type."""
    found: dict[str, Field] = {}
    for record in records:
        for field in record.fields:
            same = found.setdefault(field.name.lower(), field)
            if (same.name, same.type, same.is_list) != (field.name, field.type, field.is_list):
                raise ExtractError(
                    f"[{record.name}] {field.name}: is there as {same.name} with another type or "
                    "list; give it the same, or another name"
                )
    if len(found) > MOST_FIELDS:
        raise ExtractError(f"has {len(found)} fields, more than {MOST_FIELDS}")
    return {field.name: field for field in found.values()}


def _is_record(value: Any) -> bool:
    return isinstance(value, dict) and not {"css", "xpath"} & value.keys()


def _record(name: str, table: Mapping[str, Any]) -> Record:
    _check_name(name, f"[{name}]")
    fields = tuple(_fields(name, table))
    if not fields:
        raise ExtractError(f"[{name}]: has no field")
    return Record(name, _pattern(table.get(MATCH), f"[{name}] {MATCH}"), fields)


def _fields(record: str, table: Mapping[str, Any]) -> Iterator[Field]:
    for name, value in table.items():
        where = f"[{record}] {name}"
        if name == MATCH:
            continue
        _check_name(name, where)
        if name.lower() in OWN_COLUMNS:
            raise ExtractError(f"{where}: every row has that column already; give another name")
        if name.lower() in MERGING_COLUMNS:
            raise ExtractError(f"{where}: scrapy merge needs that name; give another")
        yield _field(name, {"css": value} if isinstance(value, str) else value, where)


def _check_name(name: str, where: str) -> None:
    if not _NAME.fullmatch(name):
        raise ExtractError(f"{where}: a name is of letters, digits and underscores, up to 63")


def _field(name: str, options: Any, where: str) -> Field:
    if not isinstance(options, dict):
        raise ExtractError(f"{where}: give a selector in quotes, or {{ css = … }}")
    for option in options:
        if option not in _OPTIONS:
            raise ExtractError(f"{where}: no option {option}; there are {', '.join(_OPTIONS)}")
    if options.get("type", TEXT) not in TYPES:
        raise ExtractError(f"{where}: type is one of {', '.join(TYPES)}")
    flags = {option: options.get(option, False) for option in ("list", "required")}
    for option, value in flags.items():
        if not isinstance(value, bool):
            raise ExtractError(f"{where}: {option} is true or false")
    return Field(
        name,
        _selector(options, where),
        options.get("type", TEXT),
        flags["list"],
        _pattern(options.get("regex"), f"{where}: regex"),
        flags["required"],
    )


def _selector(options: Mapping[str, Any], where: str) -> etree.XPath:
    if ("css" in options) == ("xpath" in options):
        raise ExtractError(f"{where}: give css or xpath, one of them")
    kind, selector = next((one, options[one]) for one in ("css", "xpath") if one in options)
    if not isinstance(selector, str) or not selector.strip():
        raise ExtractError(f"{where}: {kind} is a selector in quotes")
    try:
        path = HTMLTranslator().css_to_xpath(selector) if kind == "css" else selector
        find = _xpath(path)
        _try(path, find)
        return find
    except _WRONG_SELECTORS as error:
        raise ExtractError(f"{where}: {selector!r} is no {_KINDS[kind]}: {error}") from None


def _xpath(path: str) -> etree.XPath:
    return etree.XPath(path, namespaces=_NAMESPACES, smart_strings=False)


def _try(path: str, find: etree.XPath) -> None:
    """Raise for functions, prefixes and variables that are not there, which only a page would show
    else. What is in a condition is not evaluated where there are no elements: each function that
    is named is called without arguments, too, and may say that they are missing."""
    find(_NO_PAGE)
    bare = _LITERAL.sub("''", path)
    for prefix in _PREFIX.findall(bare):
        if prefix not in _NAMESPACES:
            raise ValueError(f"Undefined namespace prefix {prefix}")
    if variable := _VARIABLE.search(bare):
        raise ValueError(f"Undefined variable {variable[0]}")
    for function in _FUNCTION.findall(bare):
        try:
            _xpath(f"{function}()")(_NO_PAGE)
        except etree.XPathEvalError as error:
            if "Unregistered" in str(error):
                raise ValueError(f"Unregistered function {function}") from None
        except (etree.XPathError, TypeError, ValueError):  # arguments that are missing
            pass


_NO_PAGE = etree.Element("html")
_LITERAL = re.compile(r"\"[^\"]*\"|'[^']*'")
_PREFIX = re.compile(r"(?<![\w.:-])([A-Za-z_][\w.-]*):(?!:)")
_VARIABLE = re.compile(r"\$[\w.:-]+")
_FUNCTION = re.compile(r"(?<![\w.:-])(?!(?:and|or|div|mod)\b[^-\w])([A-Za-z_][\w.:-]*)\s*\(")
# Of cssselect, lxml, and lxml's regular expressions; none names another's.
_WRONG_SELECTORS = (SyntaxError, ValueError, etree.XPathError, re.error)
_KINDS = {"css": "selector of CSS", "xpath": "XPath"}


def _pattern(value: Any, where: str) -> re.Pattern[str] | None:
    if value is None:
        return None
    try:
        return re.compile(value)
    except (re.error, TypeError) as error:
        raise ExtractError(f"{where} is no regular expression: {error}") from None
