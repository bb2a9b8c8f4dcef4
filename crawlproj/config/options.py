"""Every setting of ours: its name, type, default and meaning, written once.

Components take plain values; whoever builds them from a crawler asks `Config.from_settings`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from crawlproj.config import choices, environment, names
from crawlproj.config.conflicts import refuse_conflicts
from crawlproj.config.fetch_options import FetchOptions
from crawlproj.config.kinds import (
    ADDRESS,
    ATTEMPTS,
    BOOL,
    COUNT,
    CRAWL_NAME,
    FACTOR,
    HOSTS,
    LEAST_ATTEMPTS,
    MEGABYTES,
    MINUTES,
    PARAMS,
    PATTERNS,
    PORTION,
    POSITIVE,
    REPLICAS,
    SECONDS,
    SHARDS,
    STRATEGY,
    TEXT,
    WAIT,
    WEIGHTS,
    WORDS,
    ZERO_OR_MORE,
    one_of,
    parsed,
)
from crawlproj.config.option import option
from crawlproj.config.output_options import OutputOptions
from crawlproj.config.refresh_options import RefreshOptions
from crawlproj.config.scrapy_settings import from_scrapy
from crawlproj.config.seen_options import SeenOptions
from crawlproj.config.watch_options import WatchOptions
from crawlproj.urls import SESSION_PARAMS, TRACKING_PARAMS


@dataclass(frozen=True)
class Config(FetchOptions, OutputOptions, RefreshOptions, WatchOptions, SeenOptions):
    """The settings of one worker, typed and checked."""

    seeds: str = option(
        "CRAWL_SEEDS", "", TEXT, "URLs to start from, comma-separated, or @file", "seeds"
    )
    scope: str = option(
        "CRAWL_SCOPE",
        "host",
        one_of("host", "domain", "any"),
        "what may be followed, relative to the seeds",
        "scope",
    )
    allow: tuple[str, ...] = option(
        "CRAWL_ALLOW", (), PATTERNS, "regular expression a URL must match to be followed", "allow"
    )
    deny: tuple[str, ...] = option(
        "CRAWL_DENY", (), PATTERNS, "regular expression of URLs not to follow", "deny"
    )
    depth: int | None = option(
        "CRAWL_DEPTH", None, ZERO_OR_MORE, "links away from a seed; none: DEPTH_LIMIT", "depth"
    )
    pages: int | None = option(
        "CRAWL_PAGES", None, COUNT, "pages in the whole crawl, all machines together", "pages"
    )
    pages_per_host: int | None = option(
        "CRAWL_PAGES_PER_HOST", None, COUNT, "pages of one host", "pages_per_host"
    )
    pages_per_domain: int | None = option(
        "CRAWL_PAGES_PER_DOMAIN",
        None,
        COUNT,
        "pages of one registrable domain, all its hosts together",
        "pages_per_domain",
    )
    minutes: float | None = option(
        "CRAWL_MINUTES", None, MINUTES, "how long the crawl runs, all machines together", "minutes"
    )
    strategy: str = option(
        "CRAWL_STRATEGY", "weighted", STRATEGY, "how links are ranked", "strategy"
    )
    weights: Mapping[str, Any] | None = option(
        "CRAWL_WEIGHTS", None, WEIGHTS, "weights of the strategy that differ from its own"
    )
    nofollow: bool = option(
        "CRAWL_NOFOLLOW", True, BOOL, "leave links alone that a page marks as nofollow"
    )
    noindex: bool = option(
        "CRAWL_NOINDEX", False, BOOL, "no row for a page that says noindex; its links count"
    )
    sitemaps: bool = option(
        "CRAWL_SITEMAPS", False, BOOL, "follow the sitemaps that a host's robots.txt names"
    )
    links: bool = option(
        "CRAWL_LINKS", False, BOOL, "keep every link of every page, for reports and SQL", "links"
    )
    check: str | None = option(
        "CRAWL_CHECK",
        None,
        one_of(choices.OFFSITE, choices.ONSITE, choices.ALL),
        "links asked once, and not followed: those that leave the scope (offsite), those within it "
        "that are too deep, nofollow or media (onsite), or all",
        "check",
    )
    anchors: bool = option(
        "CRAWL_ANCHORS",
        False,
        BOOL,
        "with CRAWL_LINKS: keep the fragments of links, and where in its page each can lead",
    )
    search_url: str = option(
        "CRAWL_SEARCH_URL",
        "",
        ADDRESS,
        "address of the engine of `scrapy seed --search`; none: its own",
    )
    media: bool = option(
        "CRAWL_MEDIA",
        False,
        BOOL,
        "follow links to images, sound, film, archives and fonts; with CRAWL_CHECK: ask what pages "
        "embed (images, scripts, styles)",
    )
    referer: bool = option(
        "CRAWL_REFERER",
        True,
        BOOL,
        "keep the page that a link was found on; without it a queued URL takes half the memory",
    )
    identity: str = option(
        "CRAWL_IDENTITY",
        choices.BY_FINGERPRINT,
        one_of(choices.BY_FINGERPRINT, choices.BY_URL),
        "what makes two requests one: REQUEST_FINGERPRINTER_CLASS, or their URL in the one form "
        "that links have here (`url`, as for the spider `site`)",
    )
    drop_params: tuple[str, ...] = option(
        "CRAWL_DROP_PARAMS",
        SESSION_PARAMS + TRACKING_PARAMS,
        PARAMS,
        "parameters removed from URLs: `name*` by prefix, `name~` only if it holds a token",
    )
    traps: bool = option(
        "CRAWL_TRAPS", True, BOOL, "leave URLs alone that look made up by a site without end"
    )
    trap_depth: int = option(
        "CRAWL_TRAP_DEPTH", choices.MAX_DEPTH, COUNT, "most segments of a path"
    )
    trap_repeats: int = option(
        "CRAWL_TRAP_REPEATS", choices.MAX_REPEATS, COUNT, "times one segment may occur in a path"
    )
    trap_params: int = option(
        "CRAWL_TRAP_PARAMS", choices.MAX_PARAMS, COUNT, "most parameters of a query"
    )
    trap_queries: int = option(
        "CRAWL_TRAP_QUERIES",
        100_000,
        ZERO_OR_MORE,
        "query strings of one path that a worker follows; 0: no limit",
    )
    patterns: str = option(
        "CRAWL_PATTERNS",
        choices.SAME,
        one_of(choices.OFF, choices.SAME, choices.ALIKE),
        "which pages of one URL pattern count as repeated; see docs/traps.md",
    )
    pattern_pages: int = option(
        "CRAWL_PATTERN_PAGES",
        100,
        COUNT,
        "repeated pages in a row at which a URL pattern is set aside",
    )
    stay: bool = option("CRAWL_STAY", False, BOOL, "wait for more seeds when finished", "stay")
    crawl: str = option(
        "CRAWL_NAME",
        "",
        CRAWL_NAME,
        "the crawl's name, so that several run side by side; none: the spider's name",
        "crawl",
    )
    output: str = option("CRAWL_OUTPUT", "output", TEXT, "folder of the crawl's files")
    reports: bool = option(
        "CRAWL_REPORTS", False, BOOL, "failures, interval stats and a summary as items and files"
    )
    report_pipelines: tuple[str, ...] = option(
        "CRAWL_REPORT_PIPELINES",
        (),
        WORDS,
        "those of ITEM_PIPELINES that failures and stats pass; others see only items of spiders",
    )
    stats_interval_s: float = option(
        "CRAWL_STATS_INTERVAL", 10.0, POSITIVE, "seconds between rows of stats and progress lines"
    )
    feed_rotate_mb: float = option(
        "CRAWL_FEED_ROTATE_MB",
        256.0,
        MEGABYTES,
        "size at which a feed file is closed for the next",
    )
    feed_rotate_minutes: float = option(
        "CRAWL_FEED_ROTATE_MINUTES", 60.0, MINUTES, "age at which a feed file is closed"
    )
    memory_limit_mb: int = option(
        "CRAWL_MEMORY_LIMIT_MB",
        0,
        ZERO_OR_MORE,
        "megabytes at which a worker hands in and ends, for another; 0: MEMUSAGE_LIMIT_MB",
    )
    worker_id: str = option(
        "CRAWL_WORKER_ID",
        "",
        TEXT,
        "name of this worker, different for each; none: host name, process id and a random part",
    )
    run_id: str = option(
        "CRAWL_RUN_ID", "", TEXT, "shared by workers started together; `scrapy fleet` sets it"
    )
    strict: bool = option(
        "CRAWL_STRICT",
        False,
        BOOL,
        "stop at any name that begins like ours and is not, not only at one that looks misspelt",
    )
    cookies: str = option(
        "CRAWL_COOKIES",
        "",
        one_of("shared"),
        "shared: one jar for all workers (docs/cookies.md); none: what COOKIES_ENABLED says, each "
        "worker for itself",
    )
    delay_s: float | None = option(
        "POLITENESS_DELAY",
        None,
        SECONDS,
        "seconds between requests to one host; none: DOWNLOAD_DELAY",
        "delay",
    )
    per_host: int | None = option(
        "POLITENESS_PER_HOST",
        None,
        COUNT,
        "connections to one host, all machines together; none: 1 with a delay, without one "
        "CONCURRENT_REQUESTS_PER_DOMAIN",
        "per_host",
    )
    group: str = option(
        "POLITENESS_GROUP",
        "host",
        one_of("host", "domain", "address"),
        "what keeps one pace: a host, or all hosts of a registrable domain or an address",
    )
    shared_pace: bool = option(
        "POLITENESS_SHARED",
        False,
        BOOL,
        "one pace a host for all crawls on this Redis that have it on",
    )
    robots: bool = option(
        "POLITENESS_ROBOTS",
        False,
        BOOL,
        "robots.txt once for all workers (with ROBOTSTXT_OBEY); false: Scrapy's own middleware",
    )
    give_up: int = option(
        "POLITENESS_GIVE_UP",
        20,
        ZERO_OR_MORE,
        "failures in a row at which a host is given up; 0: never",
    )
    slowness: float = option(
        "POLITENESS_SLOWNESS",
        1.0,
        FACTOR,
        "a host rests at least this many times as long as its last response took",
    )
    longest_pause_s: float = option(
        "POLITENESS_LONGEST_PAUSE",
        60.0,
        SECONDS,
        "most that a Crawl-delay or slowness can ask for",
    )
    backoff_s: float = option(
        "POLITENESS_BACKOFF", 1.0, SECONDS, "hold of a failing host; doubles with each failure"
    )
    longest_hold_s: float = option(
        "POLITENESS_LONGEST_HOLD",
        600.0,
        SECONDS,
        "most that Retry-After, back-off or a retry can ask for",
    )
    overrides: Mapping[str, Any] | None = option(
        "POLITENESS_OVERRIDES",
        None,
        HOSTS,
        "hosts with a delay, per_host or obey_robots of their own",
    )
    embedded: bool = option(
        "FRONTIER_EMBEDDED", False, BOOL, "start a private Redis when none is named"
    )
    shards: int = option(
        "FRONTIER_SHARDS", 1, SHARDS, "parts of the frontier, each on one node of a Redis Cluster"
    )
    wait_replicas: int | None = option(
        "FRONTIER_WAIT_REPLICAS",
        None,
        REPLICAS,
        "replicas that must have a page's links before it is settled; none: one on a Redis "
        "Cluster where a master has any, else 0",
    )
    wait_timeout_s: float = option(
        "FRONTIER_WAIT_TIMEOUT",
        1.0,
        WAIT,
        "seconds to wait for those replicas before the log says so",
    )
    outcomes: bool = option(
        "FRONTIER_OUTCOMES",
        False,
        BOOL,
        "keep what became of every URL, for `scrapy why`: when, status, by whom, by which rule; "
        "about 20 bytes of Redis's memory a URL",
    )
    speculate: bool = option(
        "FRONTIER_SPECULATE",
        False,
        BOOL,
        "lease a URL that takes far longer than usual once more, to an idle worker, where its host "
        "allows another connection",
    )
    lease_timeout_s: float = option(
        "FRONTIER_LEASE_TIMEOUT", 20.0, POSITIVE, "silence after which a worker counts as dead"
    )
    max_attempts: int = option(
        "FRONTIER_MAX_ATTEMPTS",
        LEAST_ATTEMPTS,
        ATTEMPTS,
        "times a URL may be tried, or lost with its worker; RETRY_TIMES, if given, allows fewer "
        "retries, and more where this is not given",
    )
    retry_delay_s: float = option(
        "FRONTIER_RETRY_DELAY",
        2.0,
        SECONDS,
        "wait before the first retry; doubles each time, up to `POLITENESS_LONGEST_HOLD`",
    )
    max_record_bytes: int = option(
        "FRONTIER_MAX_RECORD_BYTES", 262_144, COUNT, "largest request that is stored"
    )
    watermark: float = option(
        "FRONTIER_MEMORY_WATERMARK",
        0.85,
        PORTION,
        "share of Redis's maxmemory from which on new links wait in the workers",
    )
    backlog: int = option(
        "FRONTIER_BACKLOG",
        20_000,
        COUNT,
        "links and pages that may wait in a worker; then it begins no more pages",
    )

    def folder_of(self, crawl: str) -> Path:
        """Where the files of a crawl are on this machine."""
        return Path(self.output) / crawl

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], given: Iterable[str] = ()) -> Config:
        """Read and check all of ours; `given` are the arguments by which the user set some."""
        names.unknown_names(settings, [spec.metadata["setting"] for spec in fields(cls)])
        named = set(given)
        values = {}
        for spec in fields(cls):
            raw = environment.given(settings, spec.metadata["setting"])
            if raw is None or raw == "":
                continue
            argument = spec.metadata["argument"]
            name = argument if argument in named else spec.metadata["setting"]
            values[spec.name] = parsed(name, raw, spec.metadata["accepts"])
        return refuse_conflicts(cls(**{**from_scrapy(settings, values), **values}))
