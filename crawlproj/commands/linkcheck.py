"""`scrapy linkcheck URL…`: crawls, then lists every broken link with every page that has it."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from redis.exceptions import RedisError

from crawlproj.config import Config
from crawlproj.config.choices import ALL, ONSITE
from crawlproj.errors import ConfigError, CrawlError
from crawlproj.items import utc_timestamp
from crawlproj.operate import link_formats, link_report
from crawlproj.operate.command import ProjectCommand, print_error
from crawlproj.operate.link_check import LinkCheck, given_urls, name_of, why_silent
from crawlproj.operate.link_comparison import (
    Comparison,
    Earlier,
    Extent,
    Options,
    compare,
    read_earlier,
)
from crawlproj.operate.link_report import LinkReport
from crawlproj.operate.project_spiders import require_site
from crawlproj.operate.starting import small_filter
from crawlproj.output.broken_links import (
    KINDS,
    NO_ROBOTS_TXT,
    Findings,
    count_unread,
    failures_of,
    find_broken,
)
from crawlproj.server import connection

NONE = "none"
SHOWN_SOURCES = 10
"""Pages of each broken link that a terminal shows."""


class Command(ProjectCommand):
    arguments = "URL… [--offsite] [--anchors] [--depth N] [--format FORMAT] [-o FILE]"
    summary = "List every broken link of a site, with every page that has it"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        offer = parser.add_argument
        offer("--offsite", action="store_true", help="ask links that leave the site, too")
        offer("--anchors", action="store_true", help="look for the places that #fragments name")
        offer("--media", action="store_true", help="ask images, scripts, styles and the like")
        offer("--depth", type=int, metavar="N", help="read pages up to so many links away")
        offer(
            "--fail-on",
            metavar="KINDS",
            default=",".join(KINDS),
            help=f"what exit code 1 is for: {', '.join(KINDS)} (all of them), or {NONE}",
        )
        offer("--format", choices=list(link_formats.FORMATS), help="text, or by the name of -o")
        offer("--json", action="store_true", help="the same as --format json")
        offer("-o", "--output", metavar="FILE", help="write the report there")
        offer("--sources", type=int, metavar="N", help="pages shown of a link, in text; 0: all")
        offer("--against", metavar="FILE", help="a result to compare with (that of the last check)")

    def act(self, args: list[str], opts: argparse.Namespace) -> int:
        try:
            return self._check(args, opts)
        except (ConfigError, BrokenPipeError):
            raise
        except (CrawlError, RedisError, OSError) as error:
            # Exit code 1 says that a link is broken: nothing is known of that.
            print_error(" ".join(str(error).split()))
            return 2

    def _check(self, args: list[str], opts: argparse.Namespace) -> int:
        assert self.settings is not None
        urls, fails_on = given_urls(args), _fails_on(opts.fail_on)
        if not urls:
            raise self.wrong_use("give a URL to begin with")
        if (opts.depth or 0) < 0 or (opts.sources or 0) < 0:
            raise ConfigError("--depth and --sources: give a whole number, 0 or more")
        if opts.output is not None:
            link_report.refuse_unwritable(Path(opts.output))
        require_site(self.settings, "scrapy linkcheck")
        against = read_earlier(Path(opts.against)) if opts.against else None
        name = name_of(urls)
        folder = Config.from_settings(self.settings).folder_of(name)
        against = against or _last(folder)
        try:
            resolved = connection.resolve_for_command(self.settings, may_begin=True)
            if resolved.notice:
                print_error(resolved.notice)
            check = LinkCheck(name, urls, folder, resolved)
            words = [*small_filter(self.settings), *_settings(opts)]
            check.run(_given(opts), words, shows_progress=sys.stderr.isatty())
        except KeyboardInterrupt:
            return _nothing_read()
        options = Options(opts.depth, opts.offsite, opts.anchors, opts.media)
        extent = Extent(urls, options, is_complete=not check.was_interrupted)
        report = replace(_report(check, folder, extent, against), fails_on=fails_on)
        return self._tell(report, folder, opts)

    def _tell(self, report: LinkReport, folder: Path, opts: argparse.Namespace) -> int:
        if not report.findings.pages and report.is_complete:
            print_error(_unreachable(report))
            return 2
        if not report.findings.pages and not report.findings.broken:
            return _nothing_read()
        if report.is_complete:
            link_report.keep(report, folder)
        _write(report, opts)
        return int(bool(report.failing) or not report.is_complete)


def _nothing_read() -> int:
    print_error("interrupted before anything was read")
    return 1


def _fails_on(text: str) -> frozenset[str]:
    kinds = frozenset(word.strip() for word in text.split(",") if word.strip())
    if kinds == {NONE}:
        return frozenset()
    if not kinds or kinds - set(KINDS):
        raise ConfigError(f"--fail-on {text}: give some of {', '.join(KINDS)}, or {NONE}")
    return kinds


def _given(opts: argparse.Namespace) -> dict[str, str]:
    """The arguments of the crawl."""
    given = {"links": "true", "check": ALL if opts.offsite else ONSITE}
    if opts.depth is not None:
        given["depth"] = str(opts.depth)
    return given


def _settings(opts: argparse.Namespace) -> list[str]:
    ours = {"CRAWL_ANCHORS": opts.anchors, "CRAWL_MEDIA": opts.media}
    words = [f"{name}=True" for name, is_wanted in ours.items() if is_wanted]
    # What the user sets counts more: it comes last.
    return [word for given in [*words, *opts.set] for word in ("-s", given)]


def _last(folder: Path) -> Earlier | None:
    """The last check of this site, if it left a result that can be read."""
    try:
        return read_earlier(folder)
    except ConfigError:
        return None


def _report(check: LinkCheck, folder: Path, extent: Extent, against: Earlier | None) -> LinkReport:
    wanted = against.wanted if against else frozenset()
    found = _found(folder, wanted) if check.has_begun else Findings([])
    return LinkReport(
        urls=extent.urls,
        options=extent.options,
        checked_at=utc_timestamp(),
        seconds=check.seconds,
        is_complete=extent.is_complete,
        findings=found,
        compared=compare(found, extent, against) if against else Comparison(),
    )


def _found(folder: Path, wanted: frozenset[str]) -> Findings:
    from crawlproj.output.tables import open_tables  # DuckDB is large

    with open_tables(folder) as tables:
        found = find_broken([folder], failures_of(tables), wanted)
        found.checked += count_unread(tables, found.read)
        return found


def _unreachable(report: LinkReport) -> str:
    found = report.findings
    reasons = [f"{one.url}: {one.reason}" for one in found.broken]
    if not reasons and NO_ROBOTS_TXT in found.unchecked:
        reasons = [f"{url}: {why_silent(url) or NO_ROBOTS_TXT}" for url in report.urls[:3]]
    reasons = reasons or [
        f"{', '.join(report.urls)}: {', '.join(found.unchecked) or 'no page of HTML'}"
    ]
    return f"Nothing to check: {'; '.join(reasons[:3])}"


def _write(report: LinkReport, opts: argparse.Namespace) -> None:
    by_name = link_formats.SUFFIXES.get(Path(opts.output or "").suffix.lower(), "text")
    chosen = "json" if opts.json else opts.format or by_name
    if chosen == "text":
        usual = SHOWN_SOURCES if not opts.output and sys.stdout.isatty() else 0
        most = usual if opts.sources is None else opts.sources
        text = link_formats.to_text(report, most or None)
    else:
        text = link_formats.FORMATS[chosen](report)
    if opts.output:
        link_report.write_to(Path(opts.output), text)
        print(link_formats.to_line(report))
    else:
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
