"""Workers and hosts as tables that leave out columns where there is no room for them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from rich.table import Table
from rich.text import Text

from crawlproj.operate.host_status import HostStatus
from crawlproj.operate.plain_text import in_one_line
from crawlproj.operate.recent_pages import RecentPage
from crawlproj.operate.status import Status
from crawlproj.operate.worker_status import WorkerStatus
from crawlproj.output.summary import ago, duration, size

T = TypeVar("T")
DOING = {"works": "green", "rests": "cyan", "held": "yellow", "failing": "red", "done": "dim"}
MANY = {"works": "work", "rests": "rest"}
"""What several hosts do, where the word is another than for one."""


class Column(NamedTuple, Generic[T]):
    """A column that is shown from so many cells of a screen on."""

    head: str
    cell: Callable[[T], str | Text]
    from_width: int = 0
    is_number: bool = True


def _machine(worker: WorkerStatus) -> str:
    return f"{in_one_line(worker.host)}:{worker.pid}" if worker.host else ""


def _heartbeat(worker: WorkerStatus) -> Text:
    """From two that did not come on it is probably gone: said long before it counts as dead."""
    beat = "" if worker.heartbeat_s is None else ago(worker.heartbeat_s)
    if _health(worker):
        return Text(f"silent, {beat}", style=_health(worker))
    return Text(f"leaves, {beat}", style="cyan") if worker.draining else Text(beat)


def _worker_name(worker: WorkerStatus) -> Text:
    return Text.assemble(("● ", _health(worker) or "green"), in_one_line(worker.name))


def _health(worker: WorkerStatus) -> str:
    if not worker.alive:
        return "red"
    return "yellow" if worker.missed >= 2 else ""


WORKERS: tuple[Column[WorkerStatus], ...] = (
    Column("worker", _worker_name, is_number=False),
    Column("machine", _machine, 90, is_number=False),
    Column("pages", lambda one: f"{one.pages:,}", 60),
    Column("pages/s", lambda one: f"{one.pages_per_s:,.1f}"),
    Column("leased", lambda one: f"{one.leased:,}", 70),
    Column("memory", lambda one: size(one.memory) if one.memory else "", 80),
    Column("heartbeat", _heartbeat),
)


def _host_name(host: HostStatus) -> Text:
    return Text.assemble(("● ", DOING[host.doing]), in_one_line(host.host))


def _doing(host: HostStatus) -> Text:
    text = host.doing
    if host.held:
        text = f"held {duration(host.held_s)}"
    elif host.failures:
        text = f"failed {host.failures} ×"
    return Text(text, style=DOING[host.doing])


HOSTS: tuple[Column[HostStatus], ...] = (
    Column("host", _host_name, is_number=False),
    Column("", _doing, is_number=False),
    Column("because of", lambda one: in_one_line(one.why), 100, is_number=False),
    Column("pages", lambda one: f"{one.pages:,}", 80),
    Column("queued", lambda one: f"{one.queued:,}"),
    Column("pause", lambda one: f"{one.pause_s:.2f} s", 70),
    Column("time left", lambda one: duration(one.estimate_s) if one.queued else "", 60),
)


def table(columns: Sequence[Column[T]], rows: Sequence[T], width: int) -> Table:
    """Rows under a head, cut to the width."""
    shown = [column for column in columns if width >= column.from_width]
    grid = Table(box=None, expand=True, padding=(0, 1, 0, 0), header_style="dim")
    for n, column in enumerate(shown):
        grid.add_column(
            column.head,
            justify="right" if column.is_number else "left",
            no_wrap=True,
            overflow="ellipsis",
            ratio=1 if n == 0 else None,
        )
    for row in rows:
        grid.add_row(*(column.cell(row) for column in shown))
    return grid


def _ended(page: RecentPage) -> Text:
    if page.reason:
        return Text(in_one_line(page.reason), style="red")
    return Text(str(page.status or ""), style="green")


RECENT: tuple[Column[RecentPage], ...] = (
    Column("page", lambda one: in_one_line(one.url), is_number=False),
    Column("", _ended, is_number=False),
    Column("by", lambda one: in_one_line(one.worker), 100, is_number=False),
    Column("", lambda one: ago(one.ago_s), 60),
)


def by_trouble(workers: Sequence[WorkerStatus]) -> list[WorkerStatus]:
    """Those that are silent or late first: they must be seen where there is room for few."""
    return sorted(workers, key=lambda one: (one.alive, one.missed < 2))


def notable_hosts(now: Status) -> list[HostStatus]:
    """Those that are held or failing first, then the busiest and the slowest, each once."""
    known = {host.host: host for host in (*now.held, *now.failing, *now.slowest, *now.busiest)}
    order = list(DOING)
    urgent = {"held": 0, "failing": 1}
    return sorted(
        known.values(),
        key=lambda host: (urgent.get(host.doing, 2), order.index(host.doing), -host.queued),
    )
