"""Settings by which crawls are watched: metrics, notifications, the dashboard."""

from __future__ import annotations

from dataclasses import dataclass

from crawlproj.config.kinds import COUNT, NOTIFY, PORT, POSITIVE, TEXT, WORDS, one_of
from crawlproj.config.option import option


@dataclass(frozen=True)
class WatchOptions:
    """Part of `Config`."""

    metrics_port: int = option(
        "CRAWL_METRICS_PORT",
        0,
        PORT,
        "port at which a worker tells Prometheus of itself (docs/monitoring.md); of several on a "
        "machine, each takes the next that is free; 0 for none",
    )
    metrics_host: str = option(
        "CRAWL_METRICS_HOST",
        "127.0.0.1",
        TEXT,
        "address at which it does; beyond loopback only with CRAWL_DASHBOARD_TOKEN, which is then "
        "asked for",
    )
    notify: str = option(
        "CRAWL_NOTIFY",
        "",
        NOTIFY,
        "http(s) URL that is sent JSON, or command that is given it, when the crawl has finished, "
        "stalls or fails, or a worker is lost (docs/monitoring.md)",
    )
    stalled_s: float = option(
        "CRAWL_STALLED",
        600.0,
        POSITIVE,
        "with CRAWL_NOTIFY: seconds without a page after which a crawl with work left has stalled",
    )
    dashboard_token: str = option(
        "CRAWL_DASHBOARD_TOKEN",
        "",
        TEXT,
        "token of `scrapy dashboard`, and of metrics beyond loopback; none: a new one at each "
        "start. Give it by the environment",
    )
    dashboard_hosts: tuple[str, ...] = option(
        "CRAWL_DASHBOARD_HOSTS",
        (),
        WORDS,
        "names, such as that of a proxy before it, by which `scrapy dashboard` may be asked for",
    )
    log_format: str = option(
        "CRAWL_LOG_FORMAT",
        "text",
        one_of("text", "json"),
        "how workers write their log: `text` as Scrapy, or `json`, one line an event, with worker "
        "and crawl in each",
    )
    log_max_bytes: int = option(
        "CRAWL_LOG_MAX_BYTES",
        100_000_000,
        COUNT,
        "size at which a log file (of a fleet's worker, or LOG_FILE) is put aside for another",
    )
    log_files: int = option(
        "CRAWL_LOG_FILES",
        5,
        COUNT,
        "log files that are kept beside the one in use, and of earlier fleets, for each worker",
    )
