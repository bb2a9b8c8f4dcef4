"""The whole screen of `scrapy status --watch`, for a terminal of any size. Pure.

From the top: the crawl, its ledger beside the rate over time, workers, hosts, what came last, the
keys. A list that is too long for its place is cut; a part that has none is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.layout import Layout
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from crawlproj.operate.plain_text import in_one_line
from crawlproj.operate.status import Status
from crawlproj.operate.terminal.away import GONE, STILL_TRUE, Away
from crawlproj.operate.terminal.block import colour_of, time_left
from crawlproj.operate.terminal.plot import bar, plot
from crawlproj.operate.terminal.tables import (
    DOING,
    HOSTS,
    MANY,
    RECENT,
    WORKERS,
    by_trouble,
    notable_hosts,
    table,
)
from crawlproj.output.summary import duration, size
from crawlproj.plural import counted

WIDE = 90
"""From so many columns on, ledger and rate stand side by side."""
BORDER = 2
HEAD = 1
LEDGER_ROWS = 8
KEYS = (("p", "pause"), ("r", "resume"), ("s", "stop"), ("/", "why"), ("q", "leave"))
LEDGER = {
    "queued": "cyan",
    "delayed": "blue",
    "leased": "magenta",
    "done": "green",
    "dead": "red",
    "filtered": "yellow",
}
QUIET = "bright_black"
"""The colour of frames: there, and not in the way, on dark and light."""


@dataclass(frozen=True)
class Picture:
    """All that is shown."""

    now: Status
    rates: Sequence[float] = ()
    span_s: float = 0.0
    """How far back the rates go."""
    away: Away | None = None
    is_gone: bool = False
    """Whether the crawl was there and is not any more."""
    typed: str | None = None
    """A URL that is being typed."""
    question: str = ""
    """What must be answered with y first."""
    answer: str = ""
    """What came of the last key."""


class Part(NamedTuple):
    """A part of the screen, with the rows that it would like to have."""

    content: RenderableType
    rows: int
    least: int


def screen(picture: Picture, width: int, height: int) -> RenderableType:
    """As many rows as there are."""
    above = [Part(_headline(picture.now, width), 1, 1), *_notices(picture, width)]
    below = Part(_footer(picture), 1, 1)
    parts = [*_top(picture, width), *_lists(picture.now, width)]
    room = height - sum(part.rows for part in above) - below.rows
    chosen = fit([part.least for part in parts], [part.rows for part in parts], max(0, room))
    filler = Part(Text(" "), room - sum(chosen), 0)
    middle = [part._replace(rows=rows) for part, rows in zip(parts, chosen, strict=True)]
    layout = Layout()
    shown = [part for part in (*above, *middle, filler, below) if part.rows > 0]
    layout.split_column(*(Layout(part.content, size=part.rows) for part in shown))
    return layout


def fit(least: Sequence[int], wanted: Sequence[int], room: int) -> list[int]:
    """How many rows each part gets: the least that it can be shown with, the first parts first,
    then what is left over, a row at a time, up to what it wants."""
    rows = [0] * len(wanted)
    for n, count in enumerate(least):
        if sum(rows) + count <= room:
            rows[n] = count
    while sum(rows) < room:
        short = [n for n, got in enumerate(rows) if 0 < got < wanted[n]]
        if not short:
            break
        rows[min(short, key=lambda n: rows[n])] += 1
    return rows


# Above and below


def _headline(now: Status, width: int) -> RenderableType:
    left = Text.assemble(
        (f" {in_one_line(now.crawl)} ", "bold reverse"),
        (f" {now.state}", f"bold {colour_of(now.state)}"),
        f" {'for' if now.state == 'running' else 'after'} {duration(now.elapsed_s)}",
    )
    memory = f"{size(now.memory.used)} of Redis" if now.memory.used else ""
    since = f"since {now.started_at[:19].replace('T', ' ')} UTC" if now.started_at else ""
    right = Text(f"{memory}  {since} ", style=QUIET)
    line = Table.grid(expand=True)
    line.add_column(no_wrap=True)
    line.add_column(justify="right", no_wrap=True, overflow="crop")
    line.add_row(left, right if width >= left.cell_len + right.cell_len + 2 else "")
    return line


def _notices(picture: Picture, width: int) -> list[Part]:
    """What must be known before the rest is read, and what came of the last key."""
    notices = []
    if picture.away:
        text = Text(f"{picture.away.sentence} {STILL_TRUE}", style="bold red")
        notices.append(_framed_text(text, "Redis is away", "red", width))
    if picture.is_gone:
        notices.append(_framed_text(Text(GONE, style="bold red"), "gone", "red", width))
    if picture.answer:
        notices.append(_framed_text(Text(in_one_line(picture.answer)), "", "cyan", width))
    return notices


def _framed_text(text: Text, title: str, colour: str, width: int) -> Part:
    inside = max(1, width - 2 * BORDER)
    rows = sum(max(1, -(-len(line) // inside)) for line in _words(text.plain, inside)) + BORDER
    return Part(Panel(text, title=title or None, border_style=colour), rows, rows)


def _words(text: str, width: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _footer(picture: Picture) -> Text:
    if picture.question:
        return Text.assemble((f" {picture.question} ", "bold yellow"), "y / n")
    if picture.typed is not None:
        return Text.assemble((" why ", "bold cyan"), in_one_line(picture.typed), ("▏", "blink"))
    keys = [part for key, what in KEYS for part in ((key, "bold cyan"), f" {what} ")]
    return Text.assemble(" ", *keys, no_wrap=True, overflow="ellipsis")


# The ledger and the rate


def _top(picture: Picture, width: int) -> list[Part]:
    ledger_width = width // 2 if width >= WIDE else width
    ledger = Panel(_ledger(picture.now, ledger_width), title="ledger", border_style=QUIET)
    rows = LEDGER_ROWS + BORDER
    if width < WIDE:
        return [
            Part(ledger, rows, rows),
            Part(_rate(picture, width, 5), 5 + BORDER, 5 + BORDER),
        ]
    side_by_side = Layout()
    side_by_side.split_row(
        Layout(ledger, size=ledger_width),
        Layout(_rate(picture, width - ledger_width, LEDGER_ROWS)),
    )
    return [Part(side_by_side, rows, rows)]


def _ledger(now: Status, width: int) -> RenderableType:
    counts = {name: getattr(now, name) for name in LEDGER if name != "filtered"}
    counts["filtered"] = sum(now.filtered.values())
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(no_wrap=True, overflow="ellipsis")
    room = max(4, width - 28)
    for name, colour in LEDGER.items():
        share = counts[name] / now.discovered if now.discovered else 0.0
        grid.add_row(name, Text(f"{counts[name]:,}", "bold"), Text(bar(share, room), colour))
    balance = Text(f"balance {now.balance:,}", "red" if now.balance else "green")
    grid.add_row("found", f"{now.discovered:,}", balance)
    grid.add_row("links", f"{now.duplicates:,}", Text("more, to the same", QUIET))
    return grid


def _rate(picture: Picture, width: int, rows: int) -> Panel:
    now, inside = picture.now, max(8, width - BORDER - 2)
    most = max(picture.rates, default=0.0)
    axis = len(_scale(0, most, rows - 2)) + 1
    drawn = plot(picture.rates, inside - axis - 1, rows - 2)
    lines = [
        Text.assemble((f"{_scale(n, most, rows - 2):>{axis}}", QUIET), ("▕", QUIET), (row, "cyan"))
        for n, row in enumerate(drawn)
    ]
    since = f"{duration(picture.span_s)} ago" if picture.span_s >= 1 else ""
    lines.append(Text(f"{'':>{axis}} {since:<{max(0, inside - axis - 4)}}now", style=QUIET))
    left = time_left(now) if now.estimate_s else ""
    lines.append(Text(left, style="magenta", no_wrap=True, overflow="ellipsis"))
    title = Text.assemble(
        (f" {now.pages_per_s:,.1f} pages/s", "bold cyan"),
        f" · {now.average:,.1f} overall ",
        f"· {size(now.bytes)} " if width > 42 else "",
    )
    return Panel(Group(*lines), title=title, border_style=QUIET)


def _scale(row: int, most: float, rows: int) -> str:
    if row == 0:
        return f"{most:,.0f}" if most >= 1 or not most else f"{most:.1f}"
    return "0" if row == rows - 1 else ""


# Workers, hosts, what went wrong


def _lists(now: Status, width: int) -> list[Part]:
    hosts = notable_hosts(now)
    parts = [
        _list(
            table(WORKERS, by_trouble(now.workers), width), len(now.workers), _workers_title(now)
        ),
        _list(table(HOSTS, hosts, width), len(hosts), _hosts_title(now)),
    ]
    if now.recent:
        recent = _list(table(RECENT, now.recent, width), len(now.recent), Text(" last "))
        parts.append(recent)
    if wrong := _wrong(now, width - 2 * BORDER):
        rows = len(wrong) + BORDER
        content = Panel(Group(*wrong), title="errors and filters", border_style=QUIET)
        parts.append(Part(content, rows, BORDER + 1))
    return parts


def _list(content: Table, count: int, title: Text) -> Part:
    panel = Panel(content, title=title, border_style=QUIET)
    return Part(panel, count + HEAD + BORDER, min(count, 1) + HEAD + BORDER)


def _workers_title(now: Status) -> Text:
    silent = len(now.workers) - now.alive
    title = Text(f" {counted(now.alive, 'worker')} ")
    return title.append(f"· {silent} silent ", style="red") if silent else title


def _hosts_title(now: Status) -> Text:
    title = Text(f" {counted(now.hosts, 'host')} ")
    looked_at = sum(now.hosts_by_doing.values())
    if looked_at < now.hosts:
        title.append(f"· of {looked_at:,} looked at ", style=QUIET)
    for name, colour in DOING.items():
        if count := now.hosts_by_doing.get(name, 0):
            word = name if count == 1 else MANY.get(name, name)
            title.append(f"· {count:,} {word} ", style=colour)
    return title


def _wrong(now: Status, width: int) -> list[Text]:
    """Why pages are dead and links were left out, the most frequent first."""
    lines = []
    for what, counts in (("dead", now.reasons), ("filtered", now.filtered)):
        ranked = sorted(counts.items(), key=lambda entry: -entry[1])
        if ranked:
            reasons = "  ".join(f"{in_one_line(name)} {count:,}" for name, count in ranked)
            line = Text.assemble((f"{what:<9}", LEDGER[what]), reasons)
            line.truncate(max(1, width), overflow="ellipsis")
            lines.append(line)
    return lines
