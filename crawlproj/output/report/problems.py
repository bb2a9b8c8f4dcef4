"""What a report looks for, one question each, over the tables that `scrapy query` has too.

A question's first column is a URL, or what stands for a group of pages. Its cases come in the order
of their weight, so that those which are left out matter least.
"""

from __future__ import annotations

from dataclasses import dataclass

from crawlproj.output.report.model import Severity
from crawlproj.reasons import CALLBACK

SLOW_MS = 2_000
HUGE_BYTES = 1_000_000
HOST = "regexp_extract(url, '^[a-z]+://([^/?#]*)', 1)"
_IS_HTML = "status BETWEEN 200 AND 299 AND content_type ILIKE '%html%'"

_IS_OURS = f"starts_with(reason, '{CALLBACK}')"
IS_LINK = f"NOT {_IS_OURS}"
"""Of a failure: it is its page's, which links lead to, and not that of the project's own code."""


@dataclass(frozen=True)
class Check:
    """A question, and what to tell whoever has such pages."""

    name: str
    severity: Severity
    title: str
    title_of_one: str
    advice: str
    columns: tuple[str, ...]
    order: str
    """As a `Listing` has it."""
    sql: str
    needs_links: bool = False
    """True if only the link table can answer it."""
    needs_pages: bool = False
    """True if without rows of the crawl's pages it would be answered wrongly."""


CHECKS = (
    Check(
        "spider_errors",
        Severity.ERROR,
        "Pages at which the spider failed",
        "Page at which the spider failed",
        "The pages are there. A callback or a pipeline raised an exception: the log has it. Mend "
        "it, then scrapy dead --retry.",
        ("url", "status", "reason", "found on"),
        "url",
        f"SELECT url, status, reason, referer FROM failures WHERE {_IS_OURS} ORDER BY url",
    ),
    Check(
        "failed_hosts",
        Severity.ERROR,
        "Hosts that gave no page",
        "Host that gave no page",
        "Every URL of these hosts failed. Check their names, certificates and firewalls.",
        ("host", "failed", "reasons"),
        "-failed",
        f"SELECT {HOST} AS host, count(*) AS failed, string_agg(DISTINCT reason, ', ' ORDER BY "
        f"reason) AS reasons FROM failures WHERE status = 0 OR status >= 500 GROUP BY ALL HAVING "
        f"host NOT IN (SELECT {HOST} FROM pages) ORDER BY failed DESC, host",
        needs_pages=True,
    ),
    Check(
        "redirect_chains",
        Severity.WARNING,
        "Redirects that lead to redirects",
        "Redirect that leads to a redirect",
        "Each hop costs visitors a round trip. Point the first one at its end.",
        ("url", "hops", "end"),
        "-hops",
        "WITH RECURSIVE chain(url, hops, place) AS ("
        "SELECT url, 1, redirect_to FROM pages WHERE redirect_to <> '' AND url NOT IN "
        "(SELECT redirect_to FROM pages WHERE redirect_to IS NOT NULL AND redirect_to <> url) "
        "UNION ALL SELECT chain.url, hops + 1, pages.redirect_to FROM chain "
        "JOIN pages ON pages.url = chain.place WHERE pages.redirect_to <> '' AND hops < 20) "
        "SELECT url, max(hops) AS hops, arg_max(place, hops) AS place FROM chain "
        "GROUP BY url HAVING max(hops) > 1 ORDER BY hops DESC, url",
    ),
    Check(
        "slow_pages",
        Severity.WARNING,
        f"Pages that took longer than {SLOW_MS / 1000:g} s",
        f"Page that took longer than {SLOW_MS / 1000:g} s",
        "Measured from the request to the last byte, without waiting for the pace of the host.",
        ("url", "ms", "bytes"),
        "-ms",
        f"SELECT url, elapsed_ms, size FROM pages WHERE elapsed_ms > {SLOW_MS} "
        "ORDER BY elapsed_ms DESC, url",
    ),
    Check(
        "huge_pages",
        Severity.WARNING,
        f"Pages larger than {HUGE_BYTES / 1e6:g} MB",
        f"Page larger than {HUGE_BYTES / 1e6:g} MB",
        "HTML of that size is slow on a phone. Other files are not counted here.",
        ("url", "bytes"),
        "-bytes",
        f"SELECT url, size FROM pages WHERE {_IS_HTML} AND size > {HUGE_BYTES} "
        "ORDER BY size DESC, url",
    ),
    Check(
        "empty_pages",
        Severity.WARNING,
        "Pages without content",
        "Page without content",
        "They answer that all is well, and have not a single byte.",
        ("url", "status", "found on"),
        "url",
        "SELECT url, status, referer FROM pages WHERE status BETWEEN 200 AND 299 AND size = 0 "
        "ORDER BY url",
    ),
    Check(
        "missing_titles",
        Severity.WARNING,
        "Pages without a title",
        "Page without a title",
        "Search engines and browser tabs show the title. Give each page one.",
        ("url", "found on"),
        "url",
        f"SELECT url, referer FROM pages WHERE {_IS_HTML} AND coalesce(title, '') = '' "
        "AND size > 0 ORDER BY url",
    ),
    Check(
        "duplicate_titles",
        Severity.NOTICE,
        "Titles that several pages share",
        "Title that several pages share",
        "Pages that differ should say so in their titles.",
        ("title", "pages", "one of them"),
        "-pages",
        f"SELECT title, count(*) AS pages, min(url) AS url FROM pages WHERE {_IS_HTML} AND "
        "title <> '' GROUP BY title HAVING count(*) > 1 ORDER BY pages DESC, title",
    ),
    Check(
        "duplicate_pages",
        Severity.NOTICE,
        "Pages with the same content",
        "Content that several pages share",
        "Byte for byte the same under several URLs. Redirect all but one, or name a canonical one.",
        ("one of them", "pages", "bytes", "content hash"),
        "-pages",
        "SELECT min(url) AS url, count(*) AS pages, max(size) AS size, content_hash FROM pages "
        "WHERE status BETWEEN 200 AND 299 AND size > 0 AND content_hash <> '' "
        "GROUP BY content_hash HAVING count(*) > 1 ORDER BY pages DESC, url",
    ),
    Check(
        "near_duplicates",
        Severity.NOTICE,
        "Pages that say almost the same",
        "Page that others repeat almost",
        "Print views, session copies, mirrors: redirect them, or name a canonical page.",
        ("the first", "copies", "one of them"),
        "-copies",
        "SELECT near_duplicate_of AS first, count(*) AS copies, min(url) AS url FROM pages "
        "WHERE near_duplicate_of <> '' GROUP BY ALL ORDER BY copies DESC, first",
    ),
    Check(
        "unlinked_pages",
        Severity.NOTICE,
        "Pages that no page links to",
        "Page that no page links to",
        "Seeds or sitemaps named them. Visitors who follow links never get there.",
        ("url", "status"),
        "url",
        "SELECT url, status FROM pages WHERE coalesce(referer, '') = '' AND status < 400 AND url "
        "NOT IN (SELECT target FROM links WHERE target IS NOT NULL AND target <> source) "
        "ORDER BY url",
        needs_links=True,
    ),
)

REFUSED = {"robots": "robots.txt disallows them"}
"""Reasons for which a site, and no rule of the crawl, kept pages away: counted, not listed."""
UNREACHED = {
    "robots_unreachable": "robots.txt of their host could not be had",
    "host_down": "their host was given up, for it failed again and again",
}
"""Reasons for which pages were not asked for because of their host: counted, not listed."""
