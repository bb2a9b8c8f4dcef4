"""Every setting of ours: its name, type, default and meaning, written once and read here only.

Components take plain values; whoever builds them from a crawler asks `Config.from_settings`.
Names that begin like ours but are not ours stop the start, with the nearest real one; in a project
that only has our scheduler, those that are near to none of ours are left alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings

from crawlproj import environment, misspelt
from crawlproj.discover.patterns import ALIKE, OFF, SAME
from crawlproj.discover.shapes import MAX_DEPTH, MAX_PARAMS, MAX_REPEATS
from crawlproj.errors import ConfigError
from crawlproj.fetch.addresses import allowed_entries
from crawlproj.frontier.proxies import proxy_entries
from crawlproj.urls import SESSION_PARAMS, TRACKING_PARAMS

if TYPE_CHECKING:
    from scrapy import Spider

BY_FINGERPRINT, BY_URL = "fingerprint", "url"
PREFIXES = ("CRAWL_", "FRONTIER_", "POLITENESS_", "SEEN_")


class Accepts(NamedTuple):
    """A parser, and what to say when it refuses."""

    parse: Callable[[Any], Any]
    expected: str


class Option(NamedTuple):
    """One setting as the documentation shows it."""

    setting: str
    argument: str | None
    default: Any
    doc: str


def _option(
    setting: str, default: Any, accepts: Accepts, doc: str, argument: str | None = None
) -> Any:
    metadata = {"setting": setting, "accepts": accepts, "doc": doc, "argument": argument}
    return field(default=default, metadata=metadata)


def _number(kind: type, low: float, high: float = float("inf")) -> Callable[[Any], Any]:
    def parse(raw: Any) -> Any:
        value = kind(raw)
        if not low <= value <= high or (isinstance(raw, float) and raw != value):
            raise ValueError
        return value

    return parse


def _one_of(*names: str) -> Accepts:
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


def _crawl_name(raw: Any) -> str:
    # It is part of keys, of a folder's name and of command lines.
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", str(raw)):
        raise ValueError
    return str(raw)


def _strategy(raw: Any) -> str:
    if raw in ("breadth", "weighted", "novelty") or re.fullmatch(r"[\w.]+\.\w+", str(raw)):
        return str(raw)
    raise ValueError


LEAST_ATTEMPTS = 4
"""Times a URL may be lost with its worker, however few retries RETRY_TIMES asks for."""

# Beyond it numbers are no longer exact in Redis's scripts.
_MOST = 10**15

_COUNT = Accepts(_number(int, 1, _MOST), "give a whole number, 1 or more, at most 10^15")
_DEPTH = Accepts(_number(int, 0, _MOST), "give a whole number, 0 or more, at most 10^15")
MOST_ATTEMPTS = 255
_ATTEMPTS = Accepts(_number(int, 1, MOST_ATTEMPTS), "give a whole number, 1 to 255")
_SHARDS = Accepts(_number(int, 1, 16_384), "give a whole number, 1 to 16384")
_REPLICAS = Accepts(_number(int, 0, 100), "give a whole number, 0 to 100")
_WAIT = Accepts(_number(float, 0.001, 5), "give seconds, more than 0, at most 5")
_SECONDS = Accepts(_number(float, 0, 86_400), "give seconds, 0 to 86400")
_POSITIVE = Accepts(_number(float, 0.001, 86_400), "give seconds, more than 0, at most 86400")
_MINUTES = Accepts(_number(float, 0.001, 10**7), "give minutes, more than 0, at most 10000000")
_MEGABYTES = Accepts(_number(float, 0.001, 10**7), "give megabytes, more than 0, at most 10000000")
_PORTION = Accepts(_number(float, 0.01, 1), "give a share between 0.01 and 1, such as 0.85")
_SHARE = Accepts(_number(float, 1e-9, 0.49), "give a share between 0 and 0.5, such as 0.001")
_BOOL = Accepts(environment.truth, "give true or false")
_TEXT = Accepts(str, "give text")
_ADDRESS = Accepts(_address, "give an address such as https://searx.example.com")
_PATTERNS = Accepts(_patterns, "give a regular expression")
_FACTOR = Accepts(_number(float, 0, 1000), "give a number, 0 to 1000")
_HOSTS = Accepts(_table, 'give a table such as {"example.com": {"delay": 2}}')
_WEIGHTS = Accepts(_table, 'give a table such as {"depth": 5, "media": 30}')
_NETWORKS = Accepts(
    allowed_entries,
    "give networks such as 10.1.0.0/16, loopback or private, separated by commas",
)
_PROXIES = Accepts(
    proxy_entries, "give proxies such as http://user:password@host:3128, separated by commas"
)
_WORDS = Accepts(_words, "give words, separated by commas")
_PARAMS = Accepts(_params, "give names such as ref, utm_* or sid~, separated by commas")
_CRAWL_NAME = Accepts(
    _crawl_name, "give a name of letters, digits, dots, dashes and underscores, such as docs"
)
_STRATEGY = Accepts(_strategy, "give breadth, weighted, novelty or the dotted path of a function")


@dataclass(frozen=True)
class Config:
    """The settings of one worker, typed and checked."""

    seeds: str = _option(
        "CRAWL_SEEDS", "", _TEXT, "URLs to start from, comma-separated, or @file", "seeds"
    )
    scope: str = _option(
        "CRAWL_SCOPE",
        "host",
        _one_of("host", "domain", "any"),
        "what may be followed, relative to the seeds",
        "scope",
    )
    allow: tuple[str, ...] = _option(
        "CRAWL_ALLOW", (), _PATTERNS, "regular expression a URL must match to be followed", "allow"
    )
    deny: tuple[str, ...] = _option(
        "CRAWL_DENY", (), _PATTERNS, "regular expression of URLs not to follow", "deny"
    )
    depth: int | None = _option(
        "CRAWL_DEPTH", None, _DEPTH, "links away from a seed; none: DEPTH_LIMIT", "depth"
    )
    pages: int | None = _option(
        "CRAWL_PAGES", None, _COUNT, "pages in the whole crawl, all machines together", "pages"
    )
    pages_per_host: int | None = _option(
        "CRAWL_PAGES_PER_HOST", None, _COUNT, "pages of one host", "pages_per_host"
    )
    pages_per_domain: int | None = _option(
        "CRAWL_PAGES_PER_DOMAIN",
        None,
        _COUNT,
        "pages of one registrable domain, all its hosts together",
        "pages_per_domain",
    )
    minutes: float | None = _option(
        "CRAWL_MINUTES", None, _MINUTES, "how long the crawl runs, all machines together", "minutes"
    )
    strategy: str = _option(
        "CRAWL_STRATEGY", "weighted", _STRATEGY, "how links are ranked", "strategy"
    )
    weights: Mapping[str, Any] | None = _option(
        "CRAWL_WEIGHTS", None, _WEIGHTS, "weights of the strategy that differ from its own"
    )
    nofollow: bool = _option(
        "CRAWL_NOFOLLOW", True, _BOOL, "leave links alone that a page marks as nofollow"
    )
    noindex: bool = _option(
        "CRAWL_NOINDEX", False, _BOOL, "no row for a page that says noindex; its links count"
    )
    sitemaps: bool = _option(
        "CRAWL_SITEMAPS", False, _BOOL, "follow the sitemaps that a host's robots.txt names"
    )
    search_url: str = _option(
        "CRAWL_SEARCH_URL",
        "",
        _ADDRESS,
        "address of the engine of `scrapy seed --search`; none: its own",
    )
    media: bool = _option(
        "CRAWL_MEDIA", False, _BOOL, "follow links to images, sound, film, archives and fonts"
    )
    referer: bool = _option(
        "CRAWL_REFERER",
        True,
        _BOOL,
        "keep the page that a link was found on; without it a queued URL takes half the memory",
    )
    identity: str = _option(
        "CRAWL_IDENTITY",
        BY_FINGERPRINT,
        _one_of(BY_FINGERPRINT, BY_URL),
        "what makes two requests one: REQUEST_FINGERPRINTER_CLASS, or their URL in the one form "
        "that links have here (`url`, as for the spider `site`)",
    )
    drop_params: tuple[str, ...] = _option(
        "CRAWL_DROP_PARAMS",
        SESSION_PARAMS + TRACKING_PARAMS,
        _PARAMS,
        "parameters removed from URLs: `name*` by prefix, `name~` only if it holds a token",
    )
    traps: bool = _option(
        "CRAWL_TRAPS", True, _BOOL, "leave URLs alone that look made up by a site without end"
    )
    trap_depth: int = _option("CRAWL_TRAP_DEPTH", MAX_DEPTH, _COUNT, "most segments of a path")
    trap_repeats: int = _option(
        "CRAWL_TRAP_REPEATS", MAX_REPEATS, _COUNT, "times one segment may occur in a path"
    )
    trap_params: int = _option(
        "CRAWL_TRAP_PARAMS", MAX_PARAMS, _COUNT, "most parameters of a query"
    )
    trap_queries: int = _option(
        "CRAWL_TRAP_QUERIES",
        100_000,
        _DEPTH,
        "query strings of one path that a worker follows; 0: no limit",
    )
    patterns: str = _option(
        "CRAWL_PATTERNS",
        SAME,
        _one_of(OFF, SAME, ALIKE),
        "which pages of one URL pattern count as repeated; see docs/traps.md",
    )
    pattern_pages: int = _option(
        "CRAWL_PATTERN_PAGES",
        100,
        _COUNT,
        "repeated pages in a row at which a URL pattern is set aside",
    )
    stay: bool = _option("CRAWL_STAY", False, _BOOL, "wait for more seeds when finished", "stay")
    crawl: str = _option(
        "CRAWL_NAME",
        "",
        _CRAWL_NAME,
        "the crawl's name, so that several run side by side; none: the spider's name",
        "crawl",
    )
    output: str = _option("CRAWL_OUTPUT", "output", _TEXT, "folder of the crawl's files")
    reports: bool = _option(
        "CRAWL_REPORTS", False, _BOOL, "failures, interval stats and a summary as items and files"
    )
    report_pipelines: tuple[str, ...] = _option(
        "CRAWL_REPORT_PIPELINES",
        (),
        _WORDS,
        "those of ITEM_PIPELINES that failures and stats pass; others see only items of spiders",
    )
    stats_interval_s: float = _option(
        "CRAWL_STATS_INTERVAL", 10.0, _POSITIVE, "seconds between rows of stats and progress lines"
    )
    feed_rotate_mb: float = _option(
        "CRAWL_FEED_ROTATE_MB",
        256.0,
        _MEGABYTES,
        "size at which a feed file is closed for the next",
    )
    feed_rotate_minutes: float = _option(
        "CRAWL_FEED_ROTATE_MINUTES", 60.0, _MINUTES, "age at which a feed file is closed"
    )
    memory_limit_mb: int = _option(
        "CRAWL_MEMORY_LIMIT_MB",
        0,
        _DEPTH,
        "megabytes at which a worker hands in and ends, for another; 0: MEMUSAGE_LIMIT_MB",
    )
    worker_id: str = _option(
        "CRAWL_WORKER_ID",
        "",
        _TEXT,
        "name of this worker, different for each; none: host name, process id and a random part",
    )
    run_id: str = _option(
        "CRAWL_RUN_ID", "", _TEXT, "shared by workers started together; `scrapy fleet` sets it"
    )
    allow_addresses: tuple[str, ...] = _option(
        "CRAWL_ALLOW_ADDRESSES",
        (),
        _NETWORKS,
        "addresses beside the public ones: loopback, private, or networks such as 10.1.0.0/16",
    )
    proxies: tuple[str, ...] = _option(
        "CRAWL_PROXIES",
        (),
        _PROXIES,
        "proxies that a request may name in meta: http://user:password@host:port, comma-separated",
    )
    content_types: tuple[str, ...] = _option(
        "CRAWL_CONTENT_TYPES",
        ("text/html", "application/xhtml+xml"),
        _WORDS,
        "content whose body is read; other pages are recorded by their headers",
    )
    strict: bool = _option(
        "CRAWL_STRICT",
        False,
        _BOOL,
        "stop at any name that begins like ours and is not, not only at one that looks misspelt",
    )
    cookies: str = _option(
        "CRAWL_COOKIES",
        "",
        _one_of("shared"),
        "shared: one jar for all workers (docs/cookies.md); none: what COOKIES_ENABLED says, each "
        "worker for itself",
    )
    dns_ttl_s: float = _option(
        "CRAWL_DNS_TTL", 300.0, _SECONDS, "seconds for which a resolved name is believed"
    )
    delay_s: float | None = _option(
        "POLITENESS_DELAY",
        None,
        _SECONDS,
        "seconds between requests to one host; none: DOWNLOAD_DELAY",
        "delay",
    )
    per_host: int | None = _option(
        "POLITENESS_PER_HOST",
        None,
        _COUNT,
        "connections to one host, all machines together; none: 1 with a delay, without one "
        "CONCURRENT_REQUESTS_PER_DOMAIN",
        "per_host",
    )
    group: str = _option(
        "POLITENESS_GROUP",
        "host",
        _one_of("host", "domain", "address"),
        "what keeps one pace: a host, or all hosts of a registrable domain or an address",
    )
    robots: bool = _option(
        "POLITENESS_ROBOTS",
        False,
        _BOOL,
        "robots.txt once for all workers (with ROBOTSTXT_OBEY); false: Scrapy's own middleware",
    )
    give_up: int = _option(
        "POLITENESS_GIVE_UP", 20, _DEPTH, "failures in a row at which a host is given up; 0: never"
    )
    slowness: float = _option(
        "POLITENESS_SLOWNESS",
        1.0,
        _FACTOR,
        "a host rests at least this many times as long as its last response took",
    )
    longest_pause_s: float = _option(
        "POLITENESS_LONGEST_PAUSE",
        60.0,
        _SECONDS,
        "most that a Crawl-delay or slowness can ask for",
    )
    backoff_s: float = _option(
        "POLITENESS_BACKOFF", 1.0, _SECONDS, "hold of a failing host; doubles with each failure"
    )
    longest_hold_s: float = _option(
        "POLITENESS_LONGEST_HOLD", 600.0, _SECONDS, "most that Retry-After or back-off can ask for"
    )
    overrides: Mapping[str, Any] | None = _option(
        "POLITENESS_OVERRIDES",
        None,
        _HOSTS,
        "hosts with a delay, per_host or obey_robots of their own",
    )
    embedded: bool = _option(
        "FRONTIER_EMBEDDED", False, _BOOL, "start a private Redis when none is named"
    )
    shards: int = _option(
        "FRONTIER_SHARDS", 1, _SHARDS, "parts of the frontier, each on one node of a Redis Cluster"
    )
    wait_replicas: int | None = _option(
        "FRONTIER_WAIT_REPLICAS",
        None,
        _REPLICAS,
        "replicas that must have a page's links before it is settled; none: one on a Redis "
        "Cluster where a master has any, else 0",
    )
    wait_timeout_s: float = _option(
        "FRONTIER_WAIT_TIMEOUT",
        1.0,
        _WAIT,
        "seconds to wait for those replicas before the log says so",
    )
    lease_timeout_s: float = _option(
        "FRONTIER_LEASE_TIMEOUT", 20.0, _POSITIVE, "silence after which a worker counts as dead"
    )
    max_attempts: int = _option(
        "FRONTIER_MAX_ATTEMPTS",
        LEAST_ATTEMPTS,
        _ATTEMPTS,
        "times a URL may be tried, or lost with its worker; RETRY_TIMES, if given, allows fewer "
        "retries, and more where this is not given",
    )
    retry_delay_s: float = _option(
        "FRONTIER_RETRY_DELAY", 2.0, _SECONDS, "wait before the first retry; doubles each time"
    )
    max_record_bytes: int = _option(
        "FRONTIER_MAX_RECORD_BYTES", 262_144, _COUNT, "largest request that is stored"
    )
    watermark: float = _option(
        "FRONTIER_MEMORY_WATERMARK",
        0.85,
        _PORTION,
        "share of Redis's maxmemory from which on new links wait in the workers",
    )
    backlog: int = _option(
        "FRONTIER_BACKLOG",
        20_000,
        _COUNT,
        "links and pages that may wait in a worker; then it begins no more pages",
    )
    seen_capacity: int = _option(
        "SEEN_CAPACITY", 10_000_000, _COUNT, "URLs in the seen filter's first layer"
    )
    seen_error_rate: float = _option(
        "SEEN_ERROR_RATE", 0.001, _SHARE, "share of new URLs it may take for seen"
    )
    seen_audit_one_in: int = _option(
        "SEEN_AUDIT_ONE_IN",
        1024,
        _COUNT,
        "one URL in so many is kept exactly too: measures its errors",
    )

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], given: Iterable[str] = ()) -> Config:
        """Read and check all of ours; `given` are the arguments by which the user set some."""
        of_others(settings)
        named = set(given)
        values = {}
        for spec in fields(cls):
            raw = environment.given(settings, spec.metadata["setting"])
            if raw is None or raw == "":
                continue
            argument = spec.metadata["argument"]
            name = argument if argument in named else spec.metadata["setting"]
            values[spec.name] = _parsed(name, raw, spec.metadata["accepts"])
        return _checked(cls(**{**_from_scrapy(settings, values), **values}))


def _checked(config: Config) -> Config:
    """Refuse what cannot be kept together: only when a host is met does its address show, and by
    then it has its shard, and a group if its domain has a budget."""
    if config.group == "address" and config.shards > 1:
        raise ConfigError(
            "POLITENESS_GROUP=address: hosts of one address may be in any shard; give "
            "FRONTIER_SHARDS=1, or group by domain"
        )
    if config.group == "address" and config.pages_per_domain:
        raise ConfigError(
            "POLITENESS_GROUP=address: goes without CRAWL_PAGES_PER_DOMAIN; leave one of them out"
        )
    return config


def checked(name: str, value: Any) -> Any:
    """A field's value that comes from elsewhere than the settings, checked as they are."""
    spec = next(spec for spec in fields(Config) if spec.name == name)
    return value if value is None else _parsed(name, value, spec.metadata["accepts"])


def options() -> list[Option]:
    """Every setting, for the documentation."""
    return [
        Option(
            spec.metadata["setting"], spec.metadata["argument"], spec.default, spec.metadata["doc"]
        )
        for spec in fields(Config)
    ]


def asked_for(settings: BaseSettings) -> set[str]:
    """The fields of Config that the user has set for this very start, by -a or -s."""
    wanted = SETTINGS_PRIORITIES["cmdline"]
    return {
        spec.name
        for spec in fields(Config)
        if (settings.getpriority(spec.metadata["setting"]) or 0) >= wanted
    }


def crawl_name(settings: Mapping[str, Any], spider: Spider | type[Spider]) -> str:
    """The crawl that a spider works at: what its keys in Redis, its folder and its logs are called
    by. Everybody who needs the name asks here."""
    return str(environment.given(settings, "CRAWL_NAME") or spider.name)


def arguments() -> dict[str, str]:
    """Argument of the spider -> the setting of the same meaning."""
    return {option.argument: option.setting for option in options() if option.argument}


def names_connections(settings: Mapping[str, Any]) -> bool:
    """Whether the user has said how many connections a host may have."""
    return environment.given(settings, "POLITENESS_PER_HOST") not in (None, "")


def refuse_unknown_arguments(given: Iterable[str]) -> None:
    """Stop at a misspelt `-a`, with the nearest real one."""
    known = arguments()
    for name in given:
        if name not in known:
            raise ConfigError(f"-a {name}=…: no such argument{misspelt.hint(name, known)}")


def _parsed(name: str, raw: Any, accepts: Accepts) -> Any:
    try:
        return accepts.parse(raw)
    except (ValueError, TypeError, AttributeError, OverflowError, re.error):
        raise ConfigError(f"{name}={raw}: {accepts.expected}") from None


def _from_scrapy(settings: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """What Scrapy's own settings say where ours are silent; 0 is its word for no limit."""
    meant = (
        ("delay_s", "DOWNLOAD_DELAY", _SECONDS, 0.0),
        ("per_host", "CONCURRENT_REQUESTS_PER_DOMAIN", _DEPTH, 1),
        ("depth", "DEPTH_LIMIT", _DEPTH, None),
        ("memory_limit_mb", "MEMUSAGE_LIMIT_MB", _DEPTH, 0),
    )
    found = {
        ours: _parsed(theirs, settings.get(theirs) or 0, accepts) or default
        for ours, theirs, accepts, default in meant
    }
    retries = _parsed("RETRY_TIMES", settings.get("RETRY_TIMES") or 0, _DEPTH)
    found["max_attempts"] = min(max(LEAST_ATTEMPTS, retries + 1), MOST_ATTEMPTS)
    if own.get("delay_s", found["delay_s"]):
        # A delay lies between any two requests, unless somebody has said how many connections
        # each keep it: Scrapy's number is for crawls without one.
        found["per_host"] = 1
    return found


def of_others(settings: Mapping[str, Any]) -> list[str]:
    """Names that begin like ours and are not. One that looks like a slip stops the start; in our
    own project (CRAWL_STRICT), where nobody else has such names, any does."""
    known = [option.setting for option in options()]
    unknown = [name for name in settings if name.startswith(PREFIXES) and name not in known]
    environment.refuse_slips(known, PREFIXES)
    is_strict = _parsed("CRAWL_STRICT", environment.given(settings, "CRAWL_STRICT") or False, _BOOL)
    for name in unknown:
        if is_strict:
            raise ConfigError(f"{name}: no such setting{misspelt.hint(name, known)}")
        if slip := misspelt.meant(name, known, PREFIXES):
            raise ConfigError(f"{name}: no such setting; did you mean {slip}?")
    return unknown
