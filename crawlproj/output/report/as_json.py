"""A report for scripts. Lists are cut short where a crawl is huge; the totals are not."""

from __future__ import annotations

from typing import Any

from crawlproj.output.report.model import BrokenLink, Report

_HOST = ("host", "pages", "failed", "bytes", "mean_ms")
_FAILED_HOST = ("host", "failed")


def as_json(report: Report) -> dict[str, Any]:
    """What `scrapy report --json` prints."""
    found: dict[str, Any] = {
        "crawl": report.crawl,
        "made_at": report.made_at,
        "totals": dict(report.totals),
        "statuses": dict(report.statuses),
        "types": dict(report.types),
        "depths": dict(report.depths),
        "filtered": dict(report.filtered),
        "hosts": _objects(report.hosts.rows, _HOST if report.has_pages else _FAILED_HOST),
        "problems": [
            {
                "name": one.name,
                "severity": str(one.severity),
                "title": one.title,
                "count": one.cases.total,
            }
            for one in report.problems
        ],
        "broken": [_broken(one) for one in report.broken],
        "redirects": _objects(report.redirects.rows, ("url", "status", "to")),
        "duplicates": [
            {"content_hash": content_hash, "count": count, "urls": urls}
            for content_hash, urls, count in report.duplicates
        ],
        "slowest": _objects(report.slowest.rows, ("url", "elapsed_ms", "size")),
        "largest": _objects(report.largest.rows, ("url", "size", "elapsed_ms", "content_type")),
    }
    if report.comparison is not None:
        found["against"] = report.comparison.with_folder
        for name, listing in report.comparison.parts.items():
            found[name] = [url for (url,) in listing.rows]
            found["totals"][name] = listing.total
    return found


def _objects(rows: list[tuple[Any, ...]], names: tuple[str, ...]) -> list[dict[str, Any]]:
    return [dict(zip(names, row, strict=True)) for row in rows]


def _broken(one: BrokenLink) -> dict[str, Any]:
    return {
        "url": one.url,
        "status": one.status,
        "kind": one.kind,
        "reason": one.reason,
        "sources": list(dict.fromkeys(source.url for source in one.sources)),
        "source_count": one.source_count,
        "links": [{"source": source.url, "text": source.text} for source in one.sources],
    }
