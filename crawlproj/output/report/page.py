"""The HTML page of a report: one file, which asks nobody for anything.

Jinja escapes whatever comes from the web. The page's policy (CSP) lets nothing run or load but its
own script and style, so that even a mistake here would do no harm.
"""

from __future__ import annotations

import base64
import hashlib
import re
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

from crawlproj.output.report import charts
from crawlproj.output.report.model import Report, Severity
from crawlproj.output.summary import duration, size
from crawlproj.output.whole_file import write_whole
from crawlproj.reasons import meaning_of

SHOWN_SOURCES = 20
"""Pages of one broken link; the JSON has more."""
SHOWN_CHANGES = 500
ON_PAPER = 20
"""Rows of a table that are printed, as the style sheet has it too."""
WORDS = {Severity.ERROR: "Errors", Severity.WARNING: "Warnings", Severity.NOTICE: "Notices"}
SINCE = {
    "added": ("New page", "New pages"),
    "gone": ("Page that is gone", "Pages that are gone"),
    "changed": ("Page that changed", "Pages that changed"),
    "newly_broken": ("Newly broken", "Newly broken"),
    "mended": ("Mended", "Mended"),
}
"""What is counted: one of it, several."""
_ROUND = {1: "second", 60: "minute", 3600: "hour", 86_400: "day"}
# Control characters have no place in HTML, and those that turn the direction of text spoil a table.
_UNSHOWABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_WEB = re.compile(r"https?://", re.IGNORECASE)


def write_page(report: Report, to: Path) -> None:
    """Write the page, whole or not at all."""
    write_whole(to, to_html(report))


def to_html(report: Report) -> str:
    """The whole page."""
    style, script = _file("report.css"), _file("report.js")
    page = _environment().get_template("report.html")
    return page.render(
        report=report,
        style=Markup(style),
        script=Markup(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
        by_severity=[
            (word, severity, [one for one in report.problems if one.severity is severity])
            for severity, word in WORDS.items()
        ],
        since=SINCE,
        interval=_interval(report.interval_s),
        charts=charts,
        shown_sources=SHOWN_SOURCES,
        shown_changes=SHOWN_CHANGES,
        on_paper=ON_PAPER,
    )


def _environment() -> Environment:
    made = Environment(
        loader=DictLoader({"report.html": _file("report.html")}),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.finalize = _showable
    made.filters |= {
        "size": size,
        "duration": duration,
        "number": _number,
        "time": _time,
        "link": _link,
        "meaning": meaning_of,
    }
    return made


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _showable(value: Any) -> Any:
    """What Jinja passes every value through before it escapes it."""
    if isinstance(value, Markup):
        return value
    return _UNSHOWABLE.sub("\ufffd", value) if isinstance(value, str) else value


def _number(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if isinstance(value, int | float) else str(value)


def _time(moment: int | str) -> str:
    """A moment, given as seconds since 1970 or as files have it."""
    if isinstance(moment, int):
        return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return str(moment)[:19].replace("T", " ")


def _interval(seconds: int) -> str:
    """A stretch of time, as it stands after "each": second, 15 s, 5 min, 2 d."""
    if seconds in _ROUND:
        return _ROUND[seconds]
    units = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
    return next(f"{seconds // unit:,} {name}" for unit, name in units if seconds >= unit)


def _link(url: Any) -> Markup:
    """A URL that can be followed, if it is one of the web: `javascript:` and the like are text."""
    text = _UNSHOWABLE.sub("\ufffd", str(url))
    if not _WEB.match(text):
        return Markup("<bdi>{}</bdi>").format(text)
    return Markup('<a href="{}" rel="noreferrer noopener nofollow"><bdi>{}</bdi></a>').format(
        text, text
    )
