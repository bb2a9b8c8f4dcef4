"""Pictures of a report, as SVG that stands in the page itself.

They scale with the page, take their colours from its style sheet (light, dark, paper), and hold no
text but titles: what they show is written beside them, in tables.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from crawlproj.output.report.model import Interval

WIDTH, HEIGHT = 600, 120


def bar(count: float, most: float) -> Markup:
    """A bar as long as its share of the longest."""
    share = 100 * count / most if most else 0
    return Markup(
        '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        '<rect width="{:.2f}" height="8" rx="1"></rect></svg>'
    ).format(max(share, 0.5 if count else 0))


def course(intervals: Sequence[Interval]) -> Markup:
    """Pages, and on top of them failures, from the beginning of the crawl to its end."""
    most = max((one.pages + one.failures for one in intervals), default=0)
    if not most:
        return Markup("")
    step = WIDTH / len(intervals)
    columns = Markup("").join(
        _column(place * step, step, one, most) for place, one in enumerate(intervals)
    )
    return Markup(
        '<svg class="course" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" '
        'aria-label="Pages and failures over time">{}</svg>'
    ).format(WIDTH, HEIGHT, columns)


def _column(x: float, step: float, one: Interval, most: int) -> Markup:
    pages = HEIGHT * one.pages / most
    failures = HEIGHT * one.failures / most
    shape = Markup('<rect class="{}" x="{:.2f}" y="{:.2f}" width="{:.2f}" height="{:.2f}"></rect>')
    width = step * 0.86
    return Markup("<g><title>{}</title>{}{}</g>").format(
        f"{one.pages:,} pages, {one.failures:,} failures",
        shape.format("pages", x, HEIGHT - pages, width, pages),
        shape.format("failures", x, HEIGHT - pages - failures, width, failures)
        if one.failures
        else "",
    )
