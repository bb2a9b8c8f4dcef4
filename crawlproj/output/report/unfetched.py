"""Problems that no table has a row of: what was not asked for, as the ledger has counted it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crawlproj.output.report.model import Listing, Problem, Severity
from crawlproj.output.report.problems import HOST, REFUSED, UNREACHED
from crawlproj.output.tables import Tables


def silent_hosts(tables: Tables, failed_hosts: Mapping[str, int]) -> list[Problem]:
    """Hosts that have a row in no table: nobody got as far as a page of theirs."""
    known = f"SELECT {HOST} FROM pages UNION SELECT {HOST} FROM failures"
    rows_of = {host for (host,) in tables.ask(known)} if failed_hosts else set()
    rows: list[tuple[Any, ...]] = [
        (host, failures)
        for host, failures in failed_hosts.items()
        if host.partition("://")[2] not in rows_of
    ]
    problem = Problem(
        "silent_hosts",
        Severity.ERROR,
        "Hosts that gave nothing",
        "Host that gave nothing",
        "Each request failed, that for robots.txt to begin with. Check their names, certificates "
        "and firewalls, then begin them again with scrapy seed.",
        Listing(("host", "failures in a row"), rows, len(rows)),
    )
    return [problem] if rows else []


def refusals(filtered: Mapping[str, int]) -> list[Problem]:
    """Pages that were not asked for, and through no rule of the crawl: the ledger counts them."""
    problems = [
        Problem(
            "unreached",
            Severity.ERROR,
            "Pages that were not asked for, since their host failed",
            "Page that was not asked for, since its host failed",
            "It may be down, or refuse us: nothing is fetched of a host that does not give its "
            "robots.txt. Begin them again with scrapy seed. scrapy why tells of a single URL.",
            _counted(filtered, UNREACHED),
        ),
        Problem(
            "robots",
            Severity.NOTICE,
            "Pages that robots.txt kept away",
            "Page that robots.txt kept away",
            "They were counted, not fetched. scrapy why tells of a single URL.",
            _counted(filtered, REFUSED),
        ),
    ]
    return [one for one in problems if one.cases.total]


def _counted(filtered: Mapping[str, int], meanings: Mapping[str, str]) -> Listing:
    rows: list[tuple[Any, ...]] = [
        (meaning, filtered[reason]) for reason, meaning in meanings.items() if filtered.get(reason)
    ]
    return Listing(("why", "URLs"), rows, sum(count for _, count in rows))
