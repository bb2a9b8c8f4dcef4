"""From a crawl's tables to its report."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from crawlproj.items import PERMANENT, TRANSIENT, utc_timestamp
from crawlproj.output.broken_links import ANCHOR, NO_LINKS_TO_THE_WEB
from crawlproj.output.database import MEMORY_MB
from crawlproj.output.report import broken, unfetched
from crawlproj.output.report.comparison import compare
from crawlproj.output.report.model import BrokenLink, Interval, Listing, Problem, Report, Severity
from crawlproj.output.report.problems import CHECKS, HOST, IS_LINK, Check
from crawlproj.output.summary import SUMMARY
from crawlproj.output.tables import Tables, open_tables
from crawlproj.output.watching import Watch, unwatched

MOST_ROWS = 500
"""Of one problem."""
MOST_HOSTS = 200
HOST_COLUMNS = ("host", "pages", "failed", "bytes", "mean ms")
MOST_SHOWN = 20
"""Slowest and largest pages."""
MOST_TYPES = 12
LOOP = "redirect_loop"
LOGIN = "http_401"
DEEP = 15
"""Pages so far from a seed are counted together."""
MOST_DUPLICATES = 1_000
MOST_COPIES = 100
INTERVALS = 60
"""Bars of the picture of the crawl's course, about."""

_LEDGER = ("discovered", "done", "dead", "queued", "delayed", "leased", "duplicates")


def read_report(
    crawl: str,
    folders: Sequence[Path],
    against: Path | None = None,
    memory_mb: int = MEMORY_MB,
    watch: Watch = unwatched,
) -> Report:
    """The report of the crawl whose files are in these folders."""
    summary = _summary(folders)
    with open_tables(list(folders), memory_mb) as tables:
        watch("Reading what the crawl has left", tables)
        found, counts_of_broken = broken.find(tables, folders)
        broken_total = sum(counts_of_broken.values())
        has_links = bool(tables.ask("SELECT 1 FROM links LIMIT 1"))
        has_pages = _has_pages(tables, summary)
        filtered = _counts_of(summary.get("filtered"))
        problems = [
            *_broken_problems(found, counts_of_broken),
            *_found_problems(tables, has_links, has_pages),
            *unfetched.silent_hosts(tables, _counts_of(summary.get("failed_hosts"))),
            *unfetched.refusals(filtered),
        ]
        interval_s, intervals = _course(tables) if has_pages else (1, [])
        report = Report(
            crawl=crawl,
            made_at=utc_timestamp(),
            totals=_totals(tables, summary, broken_total, has_pages),
            statuses=_statuses(tables) if has_pages else _counts_of(summary.get("statuses")),
            types=_counts(tables, _TYPES),
            depths=_counts(tables, _DEPTHS),
            filtered=filtered,
            hosts=_hosts(tables, has_pages),
            interval_s=interval_s,
            intervals=intervals,
            broken=found,
            broken_total=broken_total,
            problems=sorted(problems, key=lambda one: list(Severity).index(one.severity)),
            redirects=_listing(tables, ("url", "status", "to"), "url", _REDIRECTS, MOST_ROWS),
            duplicates=_duplicates(tables),
            slowest=_listing(tables, _SLOWEST_COLUMNS, "-ms", _SLOWEST, MOST_SHOWN),
            largest=_listing(tables, _LARGEST_COLUMNS, "-bytes", _LARGEST, MOST_SHOWN),
            has_links=has_links,
            has_pages=has_pages,
        )
        comparison = compare(tables, against, memory_mb) if against else None
    counts = {
        severity: sum(one.cases.total for one in report.problems if one.severity is severity)
        for severity in Severity
    }
    return replace(report, comparison=comparison, counts=counts)


_TYPES = f"""
SELECT coalesce(nullif(content_type, ''), 'unknown') AS label, count(*) FROM pages
GROUP BY label ORDER BY 2 DESC, 1 LIMIT {MOST_TYPES}
"""
_DEPTHS = f"""
SELECT CASE WHEN depth < {DEEP} THEN depth::VARCHAR ELSE '{DEEP} and more' END AS label, count(*)
FROM pages GROUP BY label ORDER BY min(depth)
"""
_HOSTS = f"""
SELECT host, sum(page) AS pages, sum(1 - page) AS failed, sum(size) AS bytes,
       round(avg(ms) FILTER (page = 1)) AS mean_ms
FROM (SELECT {HOST} AS host, 1 AS page, size, elapsed_ms AS ms FROM pages
      UNION ALL SELECT {HOST}, 0, 0, NULL FROM failures)
GROUP BY host ORDER BY pages DESC, failed DESC, host
"""
_FAILED_HOSTS = f"""
SELECT {HOST} AS host, count(*) AS failed FROM failures GROUP BY host ORDER BY failed DESC, host
"""
_REDIRECTS = "SELECT url, status, redirect_to FROM pages WHERE redirect_to <> '' ORDER BY url"
_SLOWEST_COLUMNS = ("url", "ms", "bytes")
_LARGEST_COLUMNS = ("url", "bytes", "ms", "type")
_HAS_CONTENT = "coalesce(redirect_to, '') = ''"
_SLOWEST = (
    f"SELECT url, elapsed_ms, size FROM pages WHERE {_HAS_CONTENT} ORDER BY elapsed_ms DESC, url"
)
_LARGEST = (
    f"SELECT url, size, elapsed_ms, content_type FROM pages WHERE {_HAS_CONTENT} "
    "ORDER BY size DESC, url"
)


def _summary(folders: Sequence[Path]) -> Mapping[str, Any]:
    """What the ledger said when a worker left last; nothing, if no folder has a summary."""
    found = []
    for folder in folders:
        try:
            found.append(json.loads((folder / SUMMARY).read_bytes()))
        except (OSError, ValueError):
            continue
    usable = [one for one in found if isinstance(one, dict)]
    return max(usable, key=lambda one: str(one.get("finished_at") or ""), default={})


def _has_pages(tables: Tables, summary: Mapping[str, Any]) -> bool:
    """False for a spider of the user's own, which has no rows of pages: only the ledger has counted
    them. If it has counted none either, the rows are all there."""
    return bool(tables.ask("SELECT 1 FROM pages LIMIT 1")) or not summary.get("done")


def _counts_of(found: object) -> dict[str, int]:
    if not isinstance(found, dict):
        return {}
    return {str(name): count for name, count in found.items() if isinstance(count, int)}


def _totals(
    tables: Tables, summary: Mapping[str, Any], broken_total: int, has_pages: bool
) -> dict[str, Any]:
    pages, size, first, last, workers = tables.ask(
        "SELECT count(*), coalesce(sum(size), 0), min(fetched_at), max(fetched_at), "
        "count(DISTINCT worker) FROM pages"
    )[0]
    hosts = tables.ask(
        f"SELECT count(*) FROM (SELECT {HOST} FROM pages UNION SELECT {HOST} FROM failures)"
    )[0][0]
    duration_s = summary.get("duration_s") or ((last - first).total_seconds() if first else 0.0)
    if not has_pages:
        pages, size, hosts, workers = _ledger_of(summary)
    elif not pages:
        # A host that gave not even its robots.txt has no row anywhere.
        hosts = max(hosts, _ledger_of(summary)[2])
    totals = {
        "pages": pages,
        "failures": tables.ask("SELECT count(*) FROM failures")[0][0],
        "broken": broken_total,
        "hosts": hosts,
        "bytes": int(size),
        "workers": workers,
        "links": tables.ask("SELECT count(*) FROM links")[0][0],
        "state": summary.get("state", "unknown"),
        "started_at": summary.get("started_at") or _iso(first),
        "finished_at": summary.get("finished_at") or _iso(last),
        "duration_s": duration_s,
        "pages_per_s": round(pages / duration_s, 2) if duration_s else 0.0,
    }
    return totals | {name: summary[name] for name in _LEDGER if isinstance(summary.get(name), int)}


def _ledger_of(summary: Mapping[str, Any]) -> tuple[int, int, int, int]:
    """Pages, bytes, hosts and workers, as the crawl has counted them."""
    counts = _counts_of({name: summary.get(name) for name in ("done", "bytes", "hosts")})
    names = summary.get("workers")
    workers = len(names) if isinstance(names, list) else 0
    return counts.get("done", 0), counts.get("bytes", 0), counts.get("hosts", 0), workers


def _iso(moment: Any) -> str | None:
    return utc_timestamp((moment - type(moment)(1970, 1, 1)).total_seconds()) if moment else None


def _counts(tables: Tables, sql: str) -> dict[str, int]:
    return {str(label): count for label, count in tables.ask(sql)}


def _statuses(tables: Tables) -> dict[str, int]:
    found = _counts(
        tables,
        "SELECT status, count(*) FROM (SELECT status FROM pages UNION ALL "
        "SELECT status FROM failures) GROUP BY status ORDER BY 2 DESC, 1",
    )
    # 0 stands for no response at all.
    return {("no response" if status == "0" else status): count for status, count in found.items()}


def _course(tables: Tables) -> tuple[int, list[Interval]]:
    """Pages and failures over time, in stretches that are equally long."""
    moments = (
        "SELECT floor(epoch(moment))::BIGINT AS second, page FROM (SELECT fetched_at AS moment, "
        "1 AS page FROM pages UNION ALL SELECT failed_at, 0 FROM failures) "
        "WHERE moment IS NOT NULL"
    )
    first_s, last_s = tables.ask(f"SELECT min(second), max(second) FROM ({moments})")[0]
    if first_s is None:
        return 1, []
    width_s = _round_interval((last_s - first_s + 1) / INTERVALS)
    found = {
        begins_s: (int(pages), int(failures))
        for begins_s, pages, failures in tables.ask(
            f"SELECT second // {width_s} * {width_s} AS begins, sum(page), sum(1 - page) "
            f"FROM ({moments}) GROUP BY begins"
        )
    }
    begins = range(min(found), max(found) + 1, width_s)
    return width_s, [Interval(at, *found.get(at, (0, 0))) for at in begins]


def _round_interval(seconds: float) -> int:
    """The next longer stretch that people count in."""
    steps = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200)
    days = 86_400 * (int(seconds // 86_400) + 1)
    return next((step for step in steps if step >= seconds), days)


def _listing(tables: Tables, columns: tuple[str, ...], order: str, sql: str, most: int) -> Listing:
    total = tables.ask(f"SELECT count(*) FROM ({sql})")[0][0]
    rows = tables.ask(f"SELECT * FROM ({sql}) LIMIT {most}")
    return Listing(columns, rows, total, order, " ".join(sql.split()) if total > most else "")


def _hosts(tables: Tables, has_pages: bool) -> Listing:
    if has_pages:
        return _listing(tables, HOST_COLUMNS, "-pages", _HOSTS, MOST_HOSTS)
    return _listing(tables, ("host", "failed"), "-failed", _FAILED_HOSTS, MOST_HOSTS)


def _duplicates(tables: Tables) -> list[tuple[str, list[str], int]]:
    groups = tables.ask(
        "SELECT content_hash, count(*) AS copies FROM pages WHERE status BETWEEN 200 AND 299 AND "
        "size > 0 AND content_hash <> '' GROUP BY content_hash HAVING count(*) > 1 "
        f"ORDER BY copies DESC, content_hash LIMIT {MOST_DUPLICATES}"
    )
    urls: dict[str, list[str]] = {content_hash: [] for content_hash, _ in groups}
    if urls:
        marks = ", ".join("?" * len(urls))
        for content_hash, url in tables.ask(
            f"SELECT content_hash, url FROM pages WHERE content_hash IN ({marks}) AND "
            "status BETWEEN 200 AND 299 QUALIFY row_number() OVER (PARTITION BY content_hash "
            f"ORDER BY url) <= {MOST_COPIES} ORDER BY content_hash, url",
            list(urls),
        ):
            urls[content_hash].append(url)
    return [(content_hash, urls[content_hash], count) for content_hash, count in groups]


def _found_problems(tables: Tables, has_links: bool, has_pages: bool) -> list[Problem]:
    asked = [
        check
        for check in CHECKS
        if (has_links or not check.needs_links) and (has_pages or not check.needs_pages)
    ]
    found = [_problem(tables, check) for check in asked]
    return [one for one in found if one.cases.total]


def _problem(tables: Tables, check: Check) -> Problem:
    cases = _listing(tables, check.columns, check.order, check.sql, MOST_ROWS)
    told = check.name, check.severity, check.title, check.title_of_one, check.advice
    return Problem(*told, cases, check.sql)


_FAILED_SQL = (
    "SELECT failed.url, status, reason, links.source, links.text "
    "FROM (SELECT DISTINCT url, status, kind, reason FROM failures) AS failed "
    "LEFT JOIN links ON links.target = failed.url WHERE "
)
_GONE_SQL = (
    f"{_FAILED_SQL}kind = '{PERMANENT}' AND reason NOT IN ('{LOOP}', '{LOGIN}') AND {IS_LINK} "
    "UNION ALL SELECT target, 0, error, source, text FROM links "
    f"WHERE error NOT IN ('', '{NO_LINKS_TO_THE_WEB}') ORDER BY 1"
)
_LOGIN_SQL = f"{_FAILED_SQL}reason = '{LOGIN}' ORDER BY 1"
_PASSING_SQL = f"{_FAILED_SQL}kind = '{TRANSIENT}' ORDER BY 1"


def _is_loop(kind: str, reason: str) -> bool:
    return reason == LOOP


def _needs_login(kind: str, reason: str) -> bool:
    return reason == LOGIN


def _is_gone(kind: str, reason: str) -> bool:
    return kind == PERMANENT and reason not in (LOOP, LOGIN)


def _is_place(kind: str, reason: str) -> bool:
    return kind == ANCHOR


def _may_pass(kind: str, reason: str) -> bool:
    return kind not in (PERMANENT, ANCHOR) and reason != LOOP


def _broken_problems(found: list[BrokenLink], counts: broken.Counts) -> list[Problem]:
    problems = [
        Problem(
            "broken_links",
            Severity.ERROR,
            "Broken links",
            "Broken link",
            "These pages are not there. Mend the links on the pages that have them.",
            _broken_listing(found, counts, _is_gone),
            _GONE_SQL,
        ),
        Problem(
            "redirect_loops",
            Severity.ERROR,
            "Redirects in a circle",
            "Redirect in a circle",
            "A browser gives up on these. Let one of the pages answer with content.",
            _broken_listing(found, counts, _is_loop),
        ),
        Problem(
            "unreachable_links",
            Severity.WARNING,
            "Links that could not be had",
            "Link that could not be had",
            "They failed each time they were asked, in a way that may pass: crawl again before you "
            "call them broken.",
            _broken_listing(found, counts, _may_pass),
            _PASSING_SQL,
        ),
        Problem(
            "login_links",
            Severity.NOTICE,
            "Links that need a login",
            "Link that needs a login",
            "These pages are there for those who are logged in (401). Others cannot follow the "
            "links.",
            _broken_listing(found, counts, _needs_login),
            _LOGIN_SQL,
        ),
        Problem(
            "missing_places",
            Severity.WARNING,
            "Links to places that their page does not have",
            "Link to a place that its page does not have",
            "The page is there, the part after # is not: the browser stays at its top.",
            replace(_broken_listing(found, counts, _is_place), order=""),
        ),
    ]
    return [one for one in problems if one.cases.total]


def _broken_listing(
    found: list[BrokenLink], counts: broken.Counts, belongs: Callable[[str, str], bool]
) -> Listing:
    """Those of a kind and reason that belong here: all are counted, some are shown."""
    shown = [one for one in found if belongs(one.kind, one.reason)][:MOST_ROWS]
    rows: list[tuple[Any, ...]] = [
        (one.url, one, one.source_count, one.status or "", one.reason) for one in shown
    ]
    total = sum(count for what, count in counts.items() if belongs(*what))
    return Listing(("url", "found on", "pages", "status", "reason"), rows, total, "-pages")
