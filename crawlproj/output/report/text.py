"""A report in a few lines, for a terminal."""

from __future__ import annotations

from crawlproj.output.report.model import Report, Severity
from crawlproj.output.summary import duration, size
from crawlproj.plural import counted, plural

MARKS = {Severity.ERROR: "✗", Severity.WARNING: "!", Severity.NOTICE: "·"}
_SINCE = {
    "added": "new",
    "gone": "gone",
    "changed": "changed",
    "newly_broken": "newly broken",
    "mended": "mended",
}


def _still_open(report: Report) -> str:
    """What is left to do, of a crawl that has not ended."""
    left = sum(int(report.totals.get(name, 0)) for name in ("queued", "delayed", "leased"))
    if not left:
        return ""
    return f"; it is {report.totals['state']}, {counted(left, 'URL')} {plural(left, 'is')} left"


def to_text(report: Report) -> str:
    """What was crawled, what is wrong with it, and what is different."""
    totals = report.totals
    lines = [
        f"Crawl {report.crawl}: {counted(totals['pages'], 'page')} of "
        f"{counted(totals['hosts'], 'host')}, {size(totals['bytes'])} in "
        f"{duration(totals['duration_s'])}, {totals['failures']:,} failed{_still_open(report)}",
    ]
    lines += [
        f"  {MARKS[problem.severity]} {problem.cases.total:>8,}  {problem.heading}"
        for problem in report.problems
    ]
    if not report.problems:
        lines.append(f"  {report.nothing_wrong}")
    if report.comparison is not None:
        lines.append(f"Since {report.comparison.with_folder}")
        lines += [
            f"    {listing.total:>8,}  {_SINCE[name]}"
            for name, listing in report.comparison.parts.items()
        ]
    return "\n".join(lines) + "\n"
