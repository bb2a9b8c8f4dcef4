"""`scrapy status site`: how the crawl stands."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any

from crawlproj.commands.patterns import as_line
from crawlproj.frontier.frontier import Frontier
from crawlproj.operate import status
from crawlproj.operate.command import FrontierCommand, show
from crawlproj.plural import counted
from crawlproj.server.memory import Memory, sentence

REFRESH_S = 1.0
SHOWN_PATTERNS = 5
LOSSES = (
    ("reclaimed", "URLs taken back from workers that fell silent"),
    ("late", "results that came after that, and were refused"),
)


class Command(FrontierCommand):
    arguments = "[--watch]"
    summary = "Show the ledger, the workers and the health of a crawl"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--watch", action="store_true", help="refresh until the crawl ends")

    async def work(self, frontier: Frontier, rest: list[str], opts: argparse.Namespace) -> int:
        while True:
            now = await status.read_all(frontier)
            if opts.watch and sys.stdout.isatty():
                print("\033[2J\033[H", end="")
            show(opts, now, as_text(now))
            if not opts.watch or now["state"] in ("finished", "stopped"):
                return 0 if now["epoch"] else 1
            await asyncio.sleep(REFRESH_S)


def as_text(now: dict[str, Any]) -> str:
    """The status for a terminal."""
    if now["epoch"] is None:
        return (
            f"{now['crawl']}: not begun yet, seeds wait; start it with scrapy crawl {now['crawl']}"
        )
    lines = [
        f"{now['crawl']}: {now['state']}  (epoch {now['epoch']}, since {now['started_at']})",
        "",
    ]
    names = ("discovered", "queued", "delayed", "leased", "done", "dead")
    lines += [f"  {name:<12}{now[name]:>12,}" for name in names]
    lines.append(
        f"  {'filtered':<12}{sum(now['filtered'].values()):>12,}{_reasons(now['filtered'])}"
    )
    lines.append(f"  {'balance':<12}{now['balance']:>12,}")
    lines += ["", f"  {'duplicates':<12}{now['duplicates']:>12,}  links to URLs known already"]
    lines += [f"  {name:<12}{now[name]:>12,}  {meaning}" for name, meaning in LOSSES if now[name]]
    lines.append(f"  {'hosts':<12}{now['hosts']:>12,}")
    shown = {host["host"]: host for host in (*now["busiest"], *now["slowest"])}
    lines += [f"    {_host(host)}" for host in shown.values()]
    lines += _patterns(now["patterns"])
    lines += [
        "",
        _seen(now["seen"]),
        *_memory(now["memory"]),
        "",
        f"  workers: {len(now['workers'])}",
    ]
    lines += [f"    {_worker(worker)}" for worker in now["workers"]]
    return "\n".join(lines)


def _patterns(rows: list[dict[str, Any]]) -> list[str]:
    if not rows:
        return []
    lines = ["", f"  set aside: {len(rows)} URL patterns (scrapy patterns)"]
    return [*lines, *(f"    {as_line(row)}" for row in rows[:SHOWN_PATTERNS])]


def _host(host: dict[str, Any]) -> str:
    text = f"{host['host']}  {counted(host['pages'], 'page')}"
    if host["failures"]:
        text += f", failed {counted(host['failures'], 'time')} in a row"
    return f"{text}, left alone for now" if host["held"] else text


def _worker(worker: dict[str, Any]) -> str:
    pages = counted(worker.get("pages", 0), "page")
    text = f"{worker['name']}  {pages}, {worker['leased']} leased"
    return text if worker["alive"] else f"{text}, silent: its URLs will be queued again"


def _reasons(counts: dict[str, int]) -> str:
    ranked = sorted(counts.items(), key=lambda item: -item[1])
    return "  " + ", ".join(f"{reason} {count:,}" for reason, count in ranked) if ranked else ""


def _memory(memory: dict[str, Any]) -> list[str]:
    """A line when Redis is short of it."""
    if not memory["waiting"]:
        return []
    found = Memory(memory["used"], memory["limit"])
    return ["", f"  {sentence(found, memory['waiting'])}"]


def _seen(seen: dict[str, Any]) -> str:
    measured = seen["measured_fp"]
    shown = f"{measured:.4%}" if measured is not None else "not yet"
    return (
        f"  seen filter: {seen['items']:,} of {seen['capacity']:,}, false positives expected "
        f"{seen['expected_fp']:.4%}, measured {shown}"
    )
