"""Pictures of a report, as SVG that stands in the page itself.

They scale with the page, take their colours from its style sheet (light, dark, paper), and hold no
text but titles: what they show is written beside them, in tables.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from crawlproj.output.report.model import Interval
from crawlproj.plural import counted

WIDTH, HEIGHT = 600, 120


def bar(count: float, most: float) -> Markup:
    """A bar as long as its share of the longest."""
    share = 100 * count / most if most else 0
    return Markup(
        '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        '<rect width="{:.2f}" height="8" rx="1"></rect></svg>'
    ).format(max(share, 0.5 if count else 0))


def highest(intervals: Sequence[Interval]) -> int:
    """What the highest column of the course stands for: pages and failures."""
    return max((one.pages + one.failures for one in intervals), default=0)


def course(intervals: Sequence[Interval]) -> Markup:
    """Pages, and on top of them failures, from the beginning of the crawl to its end."""
    most = highest(intervals)
    if not most:
        return Markup("")
    step = WIDTH / len(intervals)
    columns = Markup("").join(
        _column(place * step, step, one, most) for place, one in enumerate(intervals)
    )
    return Markup(
        '<svg class="course" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" '
        'aria-label="{}">{}</svg>'
    ).format(WIDTH, HEIGHT, _told(intervals), columns)


def _told(intervals: Sequence[Interval]) -> str:
    pages, failures = sum(one.pages for one in intervals), sum(one.failures for one in intervals)
    return (
        f"{counted(pages, 'page')} and {counted(failures, 'failure')} over time, at most "
        f"{highest(intervals):,} in one of {counted(len(intervals), 'column')}"
    )


def _column(x: float, step: float, one: Interval, most: int) -> Markup:
    pages = HEIGHT * one.pages / most
    failures = HEIGHT * one.failures / most
    shape = Markup('<rect class="{}" x="{:.2f}" y="{:.2f}" width="{:.2f}" height="{:.2f}"></rect>')
    width = step * 0.86
    return Markup("<g><title>{}</title>{}{}</g>").format(
        f"{counted(one.pages, 'page')}, {counted(one.failures, 'failure')}",
        shape.format("pages", x, HEIGHT - pages, width, pages),
        shape.format("failures", x, HEIGHT - pages - failures, width, failures)
        if one.failures
        else "",
    )
