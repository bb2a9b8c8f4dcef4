"""How long a host is left alone: pauses, Retry-After, back-off, and overrides for some hosts. Pure.

Every number that a server sends or causes is hostile (`Retry-After: 1e12`, a crawl delay of minus
one, a clock of another century): it is clamped here and nowhere else. No clock and no dice in this
module, the caller brings the time and the jitter; knows neither Scrapy nor Redis.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple, NoReturn

from crawlproj.errors import ConfigError
from crawlproj.urls import DEFAULT_PORTS, UrlError, normalise

OVERLOADED = frozenset({429, 503})
"""Statuses by which a server says itself that it is asked too much."""

_LONGEST_RETRY_AFTER = 100
_SECONDS = re.compile(r"[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")


def pause_ms(
    configured_ms: int,
    crawl_delay_s: float | None,
    elapsed_ms: float,
    *,
    factor: float,
    most_ms: int,
) -> int:
    """The rest of a host between two requests of one connection.

    The largest of what is configured, what its robots.txt asks for, and `factor` times what its
    last response took, so that a slow server rests longer. The server's part is at most `most_ms`;
    what the user has configured is never cut.
    """
    asked_ms = _clamped(1000 * (crawl_delay_s or 0), most_ms)
    adaptive_ms = _clamped(factor * elapsed_ms, most_ms)
    return max(configured_ms, asked_ms, adaptive_ms)


def _clamped(value: float, most: int) -> int:
    """From 0 to `most`, rounded up: a rest is never shorter than asked for. NaN is 0."""
    return math.ceil(min(value, most)) if value > 0 else 0


def retry_after_ms(value: str | bytes | None, now: datetime, *, most_ms: int) -> int | None:
    """The wait that a Retry-After header asks for, at most `most_ms`; None if it asks for none.

    Seconds or any of HTTP's three date formats. A date that has passed is 0; a negative number
    is not one, and the server is treated as if it had sent nothing.
    """
    text = (value.decode("latin-1") if isinstance(value, bytes) else value or "").strip()
    if len(text) > _LONGEST_RETRY_AFTER:
        return None
    if _SECONDS.fullmatch(text):
        return _clamped(1000 * float(text), most_ms)
    date = _http_date(text)
    return (
        None if date is None else _clamped((date - _utc(now)) / timedelta(milliseconds=1), most_ms)
    )


def _http_date(text: str) -> datetime | None:
    try:
        return _utc(parsedate_to_datetime(text))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _utc(date: datetime) -> datetime:
    """A date without a zone is in UTC: `asctime` has no room for one."""
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).astimezone(UTC)


def backoff_ms(failures: int, *, base_ms: int, most_ms: int, jitter: float = 0.0) -> int:
    """The wait after the `failures`th failure in a row: `base_ms`, and twice as long each time.

    With base 1 s and most 60 s: 1, 2, 4, 8, 16, 32, 60, 60, … No failures, no wait. `jitter`, a
    random number from 0 to 1, takes up to half of it away (0: nothing, 1: half), so that hosts
    that failed together, such as those behind one cut cable, do not all return together.
    """
    if failures < 1:
        return 0
    doublings = min(failures - 1, most_ms.bit_length())
    spread = min(max(jitter, 0.0), 1.0) / 2
    return math.ceil(_clamped(base_ms * 2**doublings, most_ms) * (1 - spread))


@dataclass(frozen=True, slots=True)
class RetryDelay:
    """How long a URL waits before it is tried again: twice as long each time, up to the longest."""

    first_ms: int
    longest_ms: int

    def after_ms(self, attempts: int) -> int:
        """The wait after the last of so many attempts."""
        most_ms = max(self.first_ms, self.longest_ms)
        return backoff_ms(attempts, base_ms=self.first_ms, most_ms=most_ms)


def hold_ms(
    status: int,
    retry_after_ms: int | None,
    failures: int,
    *,
    base_ms: int,
    most_ms: int,
    jitter: float = 0.0,
) -> int:
    """How long no worker asks the host for anything, beyond its pause.

    `status` is 0 for an error without a response; `failures` are the transient ones in a row, this
    one included, and 0 after anything else. An overloaded server is believed at once: its
    Retry-After or else the back-off, and from the second time the longer of both. Any other
    failure may be the page's own and holds nobody, until a second one follows.
    """
    if status in OVERLOADED:
        wait_ms = min(retry_after_ms or 0, most_ms)
        if wait_ms and failures <= 1:
            return wait_ms
        held_ms = backoff_ms(max(failures, 1), base_ms=base_ms, most_ms=most_ms, jitter=jitter)
        return max(wait_ms, held_ms)
    return backoff_ms(failures - 1, base_ms=base_ms, most_ms=most_ms, jitter=jitter)


@dataclass(frozen=True, slots=True)
class Override:
    """What a host has of its own; None where the crawl's settings hold."""

    delay_s: float | None = None
    obey_robots: bool | None = None
    per_host: int | None = None


_NONE = Override()


class _Value(NamedTuple):
    """A name in the table: where it goes, what it may be, and what to say when it is not."""

    field: str
    kind: type
    accepts: Callable[[Any], bool]
    expected: str


_VALUES = {
    "delay": _Value(
        "delay_s",
        float,
        lambda value: _is_number(value) and 0 <= value <= 86_400,
        "give seconds, 0 to 86400",
    ),
    "obey_robots": _Value(
        "obey_robots", bool, lambda value: isinstance(value, bool), "give True or False"
    ),
    "per_host": _Value(
        "per_host",
        int,
        lambda value: _is_number(value) and value == int(value) and 1 <= value <= 10**6,
        "give a whole number, 1 to 1000000",
    ),
}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_HOST = re.compile(r"(\*\.)?(\[[^\]]*\]|[^:/@?#\s]+)(?::([0-9]{1,5}))?")


class Overrides:
    """The setting POLITENESS_OVERRIDES: hosts, and what is different for them.

        {"example.com": {"delay": 2, "obey_robots": False}, "*.gov": {"delay": 10}, "*": {…}}

    `example.com` is that host on every port, `example.com:8080` on one, `*.example.com` every host
    below it (itself not), `*` every host. Of several that name a value the most specific gives it.

    With `one_connection`, a host that has a delay here and no number has one connection, whatever
    the crawl allows others.
    """

    def __init__(
        self,
        table: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        one_connection: bool = False,
    ) -> None:
        self._one_connection = one_connection
        table = {} if table is None else table
        if not isinstance(table, Mapping):
            _refuse(f"{table!r} is not a table", 'give {"example.com": {"delay": 2}}')
        self._table: dict[str, dict[str, Any]] = {}
        for written, values in table.items():
            host = normal_host(written)
            if host in self._table:
                _refuse(f"{host} is there twice", "give each host once")
            self._table[host] = _checked_values(host, values)

    def __bool__(self) -> bool:
        return bool(self._table)

    def changed(self, table: Mapping[str, Mapping[str, Any]]) -> Overrides:
        """These, with what a crawl has changed; what cannot be used of that is left out."""
        result = Overrides(one_connection=self._one_connection)
        result._table = {host: dict(values) for host, values in self._table.items()}
        for host, values in table.items():
            with suppress(ConfigError):
                result._table.setdefault(normal_host(host), {}).update(
                    _checked_values(host, values)
                )
        return result

    def for_host(self, host_key: str) -> Override:
        """What holds for a host, given as `urls.Url.host` has it: `https://example.com:8443`."""
        if not self._table:
            return _NONE
        entries = [self._table[name] for name in _names(host_key) if name in self._table]
        values: dict[str, Any] = {}
        for entry in reversed(entries):
            values.update(entry)
        if self._one_connection and values.get("delay_s"):
            values.setdefault("per_host", 1)
        return Override(**values)


def _names(host_key: str) -> Iterator[str]:
    """The keys under which a host may stand, most specific first."""
    scheme, _, authority = host_key.rpartition("://")
    parts = _HOST.fullmatch(authority)
    name, port = (parts[2], parts[3]) if parts else (authority, None)
    yield f"{name}:{port or DEFAULT_PORTS.get(scheme, '')}"
    yield name
    _, dot, parent = name.partition(".")
    while dot:
        yield f"*.{parent}"
        _, dot, parent = parent.partition(".")
    yield "*"


def normal_host(host: object) -> str:
    """A host as the table knows it, in one form."""
    if host == "*":
        return "*"
    parts = _HOST.fullmatch(host) if isinstance(host, str) else None
    if not parts or (parts[1] and parts[3]):
        _refuse(f"{host!r} is no host", "give a name such as example.com or *.example.com")
    try:
        name = normalise(f"http://{parts[2]}").host.removeprefix("http://")
    except UrlError as error:
        raise ConfigError(
            f"POLITENESS_OVERRIDES: {host!r} is no host ({error.reason}); "
            "give a name such as example.com or *.example.com"
        ) from error
    return (parts[1] or "") + name + (f":{int(parts[3])}" if parts[3] else "")


def _checked_values(host: str, values: object) -> dict[str, Any]:
    if not isinstance(values, Mapping):
        _refuse(f"{host} has {values!r}", 'give a table such as {"delay": 2}')
    return dict(_checked_value(host, name, value) for name, value in values.items())


def _checked_value(host: str, name: str, value: Any) -> tuple[str, Any]:
    known = _VALUES.get(name)
    if known is None:
        _refuse(f"{host} has unknown {name!r}", f"known are {', '.join(_VALUES)}")
    if not known.accepts(value):
        _refuse(f"{host} has {name} {value!r}", known.expected)
    return known.field, known.kind(value)


def _refuse(problem: str, remedy: str) -> NoReturn:
    raise ConfigError(f"POLITENESS_OVERRIDES: {problem}; {remedy}")
