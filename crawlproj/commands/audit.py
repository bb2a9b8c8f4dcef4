"""`scrapy audit LOG`: tells by a log of requests whether every host was treated politely."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from crawlproj.config import Config
from crawlproj.errors import ConfigError
from crawlproj.operate.audit import FORMATS, Evidence, HostAudit, Limits, audit, read_evidence
from crawlproj.operate.command import ProjectCommand, offer_json, show
from crawlproj.operate.option_values import count, seconds
from crawlproj.operate.request_log import Logged
from crawlproj.plural import counted

SHOWN = 20
"""Hosts in the table: the worst come first, and --json has all."""

WEAK = "these are the workers' own notes, without robots.txt and failures: an origin's log is proof"


class Command(ProjectCommand):
    arguments = "LOG… [--delay S] [--per-host N] [--json]"
    summary = "Judge by an origin's fetch log how politely each host was treated"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "--delay",
            type=seconds,
            metavar="S",
            help="seconds each connection of a host must rest (POLITENESS_DELAY)",
        )
        parser.add_argument(
            "--per-host",
            type=count,
            metavar="N",
            help="connections a host may have at a time (POLITENESS_PER_HOST)",
        )
        offer_json(parser)

    def act(self, args: list[str], opts: argparse.Namespace) -> int:
        if not args:
            raise self.wrong_use("give a fetch log")
        limits = self._limits(opts)
        log: list[Logged] = []
        is_proof = True
        for name in args:
            evidence = _read(name)
            log += evidence.requests
            is_proof = is_proof and evidence.is_from_origin
        hosts = audit(log, limits)
        show(opts, as_json(hosts, limits, is_proof), as_text(hosts, limits, is_proof))
        return int(any(host.broken for host in hosts))

    def _limits(self, opts: argparse.Namespace) -> Limits:
        assert self.settings is not None
        config = Config.from_settings(self.settings)
        delay_s = config.delay_s if opts.delay is None else opts.delay
        return Limits(delay_s or 0.0, opts.per_host or config.per_host or 1)


def _read(name: str) -> Evidence:
    try:
        with Path(name).open(encoding="utf-8", errors="replace", newline="") as file:
            return read_evidence(name, file)
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read: {error.strerror}; give {FORMATS}") from None


def as_json(hosts: list[HostAudit], limits: Limits, is_proof: bool) -> dict[str, Any]:
    """The audit for scripts."""
    return {
        "delay_s": limits.delay_s,
        "per_host": limits.per_host,
        "from_origin": is_proof,
        "requests": sum(host.requests for host in hosts),
        "broken": sum(bool(host.broken) for host in hosts),
        "hosts": [host._asdict() for host in hosts],
    }


def as_text(hosts: list[HostAudit], limits: Limits, is_proof: bool) -> str:
    """The audit for a terminal."""
    width = max(4, *(len(host.host) for host in hosts[:SHOWN]))
    head = f"{'host':<{width}}  requests  smallest gap  most at once  robots.txt      verdict"
    lines = [head, *(_line(host, width) for host in hosts[:SHOWN])]
    if len(hosts) > SHOWN:
        lines.append(f"… and {counted(len(hosts) - SHOWN, 'host')} that did no worse")
    broken = sum(bool(host.broken) for host in hosts)
    verdict = f"{broken:,} did not" if broken else "all did"
    requests = sum(host.requests for host in hosts)
    lines += [
        "",
        f"{counted(requests, 'request')} to {counted(len(hosts), 'host')}, which had to keep "
        f"{limits.delay_s:g} s and {limits.per_host} at a time: {verdict}",
    ]
    return "\n".join(lines if is_proof else [*lines, WEAK])


def _line(one: HostAudit, width: int) -> str:
    gap = "-" if one.smallest_gap_s is None else f"{one.smallest_gap_s:.3f} s"
    when = "first" if one.robots_first else "not first"
    robots = f"{one.robots_txt} × {when}" if one.robots_txt else "none"
    verdict = "breaks " + ", ".join(one.broken) if one.broken else "keeps"
    return (
        f"{one.host:<{width}}  {one.requests:>8,}  {gap:>12}  {one.most_at_once:>12}  "
        f"{robots:<14}  {verdict}"
    )
