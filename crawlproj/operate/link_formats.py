"""A link check for people and for other programs: text, JSON, JUnit, Markdown, HTML.

What pages and servers say is hostile: nothing of it commands a terminal, ends a table, or becomes
markup.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from html import escape
from xml.sax.saxutils import quoteattr

from crawlproj.items import PERMANENT, TRANSIENT
from crawlproj.operate.link_report import LinkReport, as_json
from crawlproj.operate.plain_text import in_direction, in_one_line
from crawlproj.output.broken_links import ANCHOR, Broken, LinkTo
from crawlproj.plural import counted

HEADINGS = {
    PERMANENT: "Broken",
    TRANSIENT: "Broken, perhaps for the moment only",
    ANCHOR: "Leads to a page that is there, but not to the place in it",
}
MOST_OPEN = 10
"""Links to something broken that a page of HTML shows without being asked."""
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#|~!])")


def _why(one: Broken) -> str:
    """`404`, or the reason where there was no answer, or the reason says more."""
    if one.reason in (f"http_{one.status}", ANCHOR):
        return str(one.status) if one.kind != ANCHOR else "no such anchor"
    return f"{one.status} {one.reason}" if one.status else one.reason


def _links(one: Broken) -> list[LinkTo]:
    """Who links to it: what the table has, or the page on which it was found first."""
    return one.links or [LinkTo(page, "", one.url) for page in one.sources]


def to_text(report: LinkReport, most_sources: int | None = None) -> str:
    """For a terminal; of many pages that have a link the first few, if that is wanted."""
    lines: list[str] = []
    for kind, heading in HEADINGS.items():
        if found := report.of_kind(kind):
            lines += [f"{heading}:", ""]
            for one in found:
                lines += [*_text_of(one, most_sources), ""]
    return "\n".join([*lines, in_one_line(report.summary)]) + "\n"


def _text_of(one: Broken, most: int | None) -> Iterator[str]:
    yield f"  {in_one_line(one.url)}  {_why(one)}"
    links = _links(one)
    for link in links[:most]:
        said = f'  "{in_one_line(link.text)}"' if link.text else ""
        by = f"  through {in_one_line(link.target)}" if _is_led(link, one) else ""
        yield f"    {in_one_line(link.source)}{said}{by}"
    if most is not None and len(links) > most:
        yield f"    and {counted(len(links) - most, 'more link')}"
    if not links:
        yield "    (given on the command line, or found without a link)"


def _is_led(link: LinkTo, one: Broken) -> bool:
    """Whether a redirect lies between."""
    return link.target != one.url and one.kind != ANCHOR


def to_line(report: LinkReport) -> str:
    """The report in a line, for a terminal."""
    return in_one_line(report.summary)


def to_json(report: LinkReport) -> str:
    return json.dumps(as_json(report), indent=2) + "\n"


def to_junit(report: LinkReport) -> str:
    """A test case for each broken link, which is skipped where the check does not fail for its
    kind; one that passes where there is none."""
    found, failures = report.findings.broken, len(report.failing)
    cases = [_case(one, one.kind in report.fails_on) for one in found]
    cases = cases or ['<testcase classname="linkcheck" name="links"/>']
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<testsuites><testsuite name="linkcheck" tests="{len(cases)}" failures="{failures}" '
        f'errors="0" skipped="{len(found) - failures}" time="{report.seconds:.1f}">\n'
        + "\n".join(cases)
        + "\n"
        f"<system-out>{_xml(report.summary)}</system-out>\n</testsuite></testsuites>\n"
    )


def _case(one: Broken, is_failure: bool) -> str:
    verdict = "failure" if is_failure else "skipped"
    pages = "\n".join(_in_words(link, one) for link in _links(one))
    return (
        f'<testcase classname="linkcheck.{one.kind}" name={_attribute(one.url)}>'
        f'<{verdict} type="{one.kind}" message={_attribute(f"{_why(one)}: {one.url}")}>'
        f"{_xml(pages)}</{verdict}></testcase>"
    )


def _in_words(link: LinkTo, one: Broken) -> str:
    by = f" through {link.target}" if _is_led(link, one) else ""
    return f"{link.source} {link.text}".rstrip() + by


def _xml(text: str) -> str:
    return escape(_NOT_IN_XML.sub("\ufffd", text), quote=False)


def _attribute(text: str) -> str:
    return quoteattr(_NOT_IN_XML.sub("\ufffd", text))


def to_markdown(report: LinkReport) -> str:
    lines = ["# Link check", "", _markdown(report.summary), ""]
    for kind, heading in HEADINGS.items():
        if found := report.of_kind(kind):
            lines += [f"## {heading}", ""]
            for one in found:
                lines.append(f"- {_autolink(one.url)} {_markdown(_why(one))}")
                for link in _links(one):
                    said = f": “{_markdown(link.text)}”" if link.text else ""
                    by = f" through {_autolink(link.target)}" if _is_led(link, one) else ""
                    lines.append(f"    - {_autolink(link.source)}{said}{by}")
            lines.append("")
    return "\n".join(lines)


def _markdown(text: str) -> str:
    return escape(_MARKDOWN.sub(r"\\\1", in_one_line(text)), quote=False)


def _autolink(url: str) -> str:
    is_url = url.startswith(("http://", "https://")) and not re.search(r"[\s<>]", url)
    return f"<{in_one_line(url)}>" if is_url else _markdown(url)


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="referrer" content="no-referrer">
<title>Link check</title>
<style>
:root {{ color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }}
body {{ max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
a {{ overflow-wrap: anywhere; }}
h2 {{ margin-top: 2rem; }}
section > ul {{ list-style: none; padding: 0; }}
section > ul > li {{ border-top: 1px solid #8886; padding: .5rem 0; }}
b {{ margin-left: .5rem; }}
summary {{ cursor: pointer; }}
</style>
</head>
<body>
<h1>Link check</h1>
<p>{summary}</p>
{sections}
</body>
</html>
"""


def to_html(report: LinkReport) -> str:
    """A page that needs nothing from elsewhere, and runs nothing."""
    sections = [
        f"<section><h2>{heading} ({len(found):,})</h2>\n<ul>\n"
        + "\n".join(map(_html_of, found))
        + "\n</ul></section>"
        for kind, heading in HEADINGS.items()
        if (found := report.of_kind(kind))
    ]
    summary = escape(in_direction(report.summary))
    return _PAGE.format(summary=summary, sections="\n".join(sections))


def _html_of(one: Broken) -> str:
    links = _links(one)
    items = "".join(f"<li>{_anchor(link.source)} {_said(link, one)}</li>" for link in links)
    opened = " open" if len(links) <= MOST_OPEN else ""
    pages = f"<summary>{counted(len(links), 'link')}</summary><ul>{items}</ul>"
    why = escape(_why(one))
    return f"<li>{_anchor(one.url)}<b>{why}</b><details{opened}>{pages}</details></li>"


def _said(link: LinkTo, one: Broken) -> str:
    text = f"<q>{escape(in_direction(link.text))}</q>" if link.text else ""
    return f"{text} through {_anchor(link.target)}" if _is_led(link, one) else text


def _anchor(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        return f"<code>{escape(url)}</code>"
    return f'<a rel="noopener noreferrer nofollow" href="{escape(url)}">{escape(url)}</a>'


FORMATS: dict[str, Callable[[LinkReport], str]] = {
    "text": to_text,
    "json": to_json,
    "junit": to_junit,
    "markdown": to_markdown,
    "html": to_html,
}
SUFFIXES = {".json": "json", ".xml": "junit", ".md": "markdown", ".html": "html", ".htm": "html"}
"""What is meant by a file's name, where no format is given."""
