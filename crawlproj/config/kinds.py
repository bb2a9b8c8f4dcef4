"""Kinds of values that settings have: how their text is read, and what to say when it cannot be."""

from __future__ import annotations

import difflib
import json
import re
import shlex
import ssl
from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from crawlproj.config.budgets import per_second
from crawlproj.config.choices import (
    ALLOWABLE,
    RENDER_ALWAYS,
    RENDER_AUTO,
    RENDER_NEVER,
    SQLITE,
)
from crawlproj.config.environment import boolean
from crawlproj.errors import ConfigError


class Accepts(NamedTuple):
    """A parser, and what to say when it refuses."""

    parse: Callable[[Any], Any]
    expected: str
    shown: Callable[[Any], Any] = str
    """The value as messages may show it."""


class Explained(ValueError):
    """A refusal that says itself what is wrong, and where."""


def parsed(name: str, raw: Any, accepts: Accepts) -> Any:
    """A value as its kind reads it; raises ConfigError, which says what to give instead."""
    try:
        return accepts.parse(raw)
    except Explained as error:
        raise ConfigError(f"{name}={raw}: {error}") from None
    except (ValueError, TypeError, AttributeError, OverflowError, re.error):
        raise ConfigError(f"{name}={accepts.shown(raw)}: {accepts.expected}") from None


def _number(kind: type, low: float, high: float = float("inf")) -> Callable[[Any], Any]:
    def parse(raw: Any) -> Any:
        value = kind(raw)
        if not low <= value <= high or (isinstance(raw, float) and raw != value):
            raise ValueError
        return value

    return parse


def one_of(*names: str) -> Accepts:
    """One of these words."""

    def parse(raw: Any) -> str:
        if raw not in names:
            raise ValueError
        return str(raw)

    return Accepts(parse, f"give one of {', '.join(names)}")


def _patterns(raw: Any) -> tuple[str, ...]:
    patterns = (raw,) if isinstance(raw, str) else tuple(raw)
    for pattern in patterns:
        re.compile(pattern)
    return tuple(pattern for pattern in patterns if pattern)


def _address(raw: Any) -> str:
    if not re.fullmatch(r"https?://\S+", str(raw)):
        raise ValueError
    return str(raw)


def without_password(address: Any) -> str:
    """An address, or several, as logs may show them."""
    shown = re.sub(r"(//)[^\s,]*@", r"\1…@", str(address))
    return re.sub(r"(password=)[^&\s,]*", r"\1…", shown)


def _notified(raw: Any) -> str:
    if not str(raw).startswith(("http://", "https://")):
        shlex.split(str(raw))  # raises ValueError for a quote without its other half
    return str(raw)


def _store(raw: Any) -> str:
    # More than one @: a password that is not escaped, of which drivers would quote the rest.
    is_postgresql = re.match(r"postgres(ql)?://", str(raw)) and str(raw).count("@") <= 1
    if raw == SQLITE or re.match(r"sqlite:///[^\0]", str(raw)) or is_postgresql:
        return str(raw)
    raise ValueError


def _words(raw: Any) -> tuple[str, ...]:
    parts = raw.split(",") if isinstance(raw, str) else raw
    return tuple(part.strip() for part in parts if part.strip())


def _params(raw: Any) -> tuple[str, ...]:
    names = _words(raw)
    if not all(re.fullmatch(r"[^\s=&*~]+[*~]?", name) for name in names):
        raise ValueError
    return names


def _table(raw: Any) -> Mapping[str, Any]:
    table = json.loads(raw) if isinstance(raw, str) else raw
    if not isinstance(table, Mapping):
        raise ValueError
    return table


def _trusted(raw: Any) -> str:
    """A file of certificates."""
    path = str(raw)
    if path:
        _load(ssl.create_default_context().load_verify_locations, path)
    return path


def _certificates(raw: Any) -> Mapping[str, Any]:
    """Files with a certificate and its key, by host."""
    table = _table(raw)
    for files in table.values():
        both = [files] if isinstance(files, str) else files
        _load(ssl.create_default_context().load_cert_chain, *both)
    return table


def _load(load: Callable[..., Any], *files: str) -> None:
    try:
        load(*files)
    except OSError as error:  # no such file, or nothing of the kind in it
        raise ValueError(str(error)) from error


def _crawl_name(raw: Any) -> str:
    # It is part of keys, of a folder's name and of command lines.
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", str(raw)):
        raise ValueError
    return str(raw)


def _keep(raw: Any) -> str:
    from crawlproj.config.keep_rules import RuleError, parse_rule  # few crawls have a rule

    try:
        parse_rule(str(raw))
    except RuleError as error:
        raise Explained(str(error)) from None
    return str(raw)


def _render(raw: Any) -> str | None:
    words = (RENDER_AUTO, RENDER_ALWAYS, RENDER_NEVER)
    if raw not in words and difflib.get_close_matches(str(raw), words):
        raise ValueError
    re.compile(str(raw))
    return None if raw in (RENDER_NEVER, "") else str(raw)


def _extract(raw: Any) -> str:
    from crawlproj.config.extract_rules import ExtractError, load  # few crawls have rules

    try:
        return load(str(raw))
    except ExtractError as error:
        raise Explained(str(error)) from None


def _budget(raw: Any) -> str:
    per_second(str(raw))
    return str(raw)


def _folder(raw: Any) -> str:
    if not Path(str(raw)).is_dir():
        raise ValueError
    return str(raw)


def _strategy(raw: Any) -> str:
    if raw in ("breadth", "weighted", "novelty", "opic") or re.fullmatch(r"[\w.]+\.\w+", str(raw)):
        return str(raw)
    raise ValueError


def allowed_entries(raw: str | Iterable[str]) -> tuple[str, ...]:
    """The entries of a setting such as `loopback, 10.1.0.0/16`; ValueError if one is neither."""
    entries = tuple(entry.lower() for entry in _words(raw))
    for entry in entries:
        if entry not in ALLOWABLE:
            ip_network(entry, strict=False)
    return entries


PROXY_SCHEMES = ("http", "https", "socks4", "socks5")


def proxy_entries(raw: str | Iterable[str]) -> tuple[str, ...]:
    """The entries of a setting such as `http://user:password@proxy:3128`; ValueError if one is no
    proxy."""
    entries = _words(raw)
    for entry in entries:
        parts = urlsplit(entry)
        if parts.scheme not in PROXY_SCHEMES or not parts.hostname or not parts.port:
            raise ValueError
    return entries


LEAST_ATTEMPTS = 4
"""Times a URL may be lost with its worker, however few retries RETRY_TIMES asks for."""

# Beyond it numbers are no longer exact in Redis's scripts.
MOST = 10**15

COUNT = Accepts(_number(int, 1, MOST), "give a whole number, 1 or more, at most 10^15")
ZERO_OR_MORE = Accepts(_number(int, 0, MOST), "give a whole number, 0 or more, at most 10^15")
MOST_ATTEMPTS = 255
ATTEMPTS = Accepts(_number(int, 1, MOST_ATTEMPTS), "give a whole number, 1 to 255")
SHARDS = Accepts(_number(int, 1, 16_384), "give a whole number, 1 to 16384")
PORT = Accepts(_number(int, 0, 65_535), "give a port, 1 to 65535, or 0 for none")
REPLICAS = Accepts(_number(int, 0, 100), "give a whole number, 0 to 100")
WAIT = Accepts(_number(float, 0.001, 5), "give seconds, more than 0, at most 5")
SECONDS = Accepts(_number(float, 0, 86_400), "give seconds, 0 to 86400")
AGE = Accepts(_number(float, 0.001, 10**9), "give seconds, more than 0, at most 10^9")
BUDGET = Accepts(_budget, "give a number of fetches in a time: 5/s, 100/min, 2000/h or 200000/day")
POSITIVE = Accepts(_number(float, 0.001, 86_400), "give seconds, more than 0, at most 86400")
MINUTES = Accepts(_number(float, 0.001, 10**7), "give minutes, more than 0, at most 10000000")
MEGABYTES = Accepts(_number(float, 0.001, 10**7), "give megabytes, more than 0, at most 10000000")
PORTION = Accepts(_number(float, 0.01, 1), "give a share between 0.01 and 1, such as 0.85")
SHARE = Accepts(_number(float, 1e-9, 0.49), "give a share between 0 and 0.5, such as 0.001")
NOTIFY = Accepts(_notified, "give an http(s) URL or a command", without_password)
BOOL = Accepts(boolean, "give true or false")
TEXT = Accepts(str, "give text")
STORE = Accepts(
    _store,
    "give sqlite:///FILE, postgresql://USER@HOST/DATABASE (in a password, write @ as %40), or "
    "sqlite for a file beside the crawl's other files",
    without_password,
)
ADDRESS = Accepts(_address, "give an address such as https://searx.example.com")
PATTERNS = Accepts(_patterns, "give a regular expression")
FACTOR = Accepts(_number(float, 0, 1000), "give a number, 0 to 1000")
HOSTS = Accepts(_table, 'give a table such as {"example.com": {"delay": 2}}')
CA_FILE = Accepts(_trusted, "give a file of certificates in PEM format")
CERTIFICATES = Accepts(
    _certificates,
    'give a table such as {"intranet.example": "client.pem"}, of files that hold certificate and '
    "key in PEM format, or lists of two files",
)
WEIGHTS = Accepts(_table, 'give a table such as {"depth": 5, "media": 30}')
NETWORKS = Accepts(
    allowed_entries,
    "give networks such as 10.1.0.0/16, loopback or private, separated by commas",
)
PROXIES = Accepts(
    proxy_entries,
    "give proxies such as http://user:password@host:3128, separated by commas",
    without_password,
)
RENDER = Accepts(
    _render, "give auto, always, never, or a regular expression of URLs whose scripts are run"
)
FOLDER = Accepts(_folder, "no such folder; give one with files of a crawl, such as output/site")
EXTRACT = Accepts(_extract, "give a file of fields, such as fields.toml")
KEEP = Accepts(_keep, "give a rule such as published within 7 days and language = en")
WORDS = Accepts(_words, "give words, separated by commas")
PARAMS = Accepts(_params, "give names such as ref, utm_* or sid~, separated by commas")
CRAWL_NAME = Accepts(
    _crawl_name, "give a name of letters, digits, dots, dashes and underscores, such as docs"
)
STRATEGY = Accepts(
    _strategy, "give breadth, weighted, novelty, opic or the dotted path of a function"
)
