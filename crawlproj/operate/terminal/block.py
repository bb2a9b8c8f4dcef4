"""How a crawl stands in two lines or three: what workers and fleets show while they run. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from crawlproj.operate import status_view
from crawlproj.operate.plain_text import in_one_line
from crawlproj.operate.status import Status
from crawlproj.operate.terminal.away import Away
from crawlproj.operate.terminal.plot import plot
from crawlproj.output.summary import duration, size
from crawlproj.plural import plural

BETWEEN = "  "
PLOT_WIDTH = 12
COLOURS = {"running": "green", "finished": "green", "paused": "yellow", "stopping": "yellow"}


def block(now: Status, rates: Sequence[float], width: int, away: Away | None = None) -> list[Text]:
    """As many lines as its parts need at that width; none is broken."""
    if now.epoch is None:
        lines = [sentence(status_view.in_one_line(now))]
    else:
        lines = _folded([*_parts(now, rates)], width)
    return [*lines, Text(away.sentence, style="red")] if away else lines


def sentence(text: str) -> Text:
    """A line that says something else than how a crawl stands."""
    return Text(in_one_line(text))


def colour_of(state: str) -> str:
    """Of the word for a crawl's state."""
    return COLOURS.get(state, "red" if state == "stopped" else "default")


def _parts(now: Status, rates: Sequence[float]) -> Iterator[Text]:
    yield Text.assemble((in_one_line(now.crawl), "bold"), " ", (now.state, colour_of(now.state)))
    yield Text(duration(now.elapsed_s), style="dim")
    if now.state == "paused":
        yield Text(f"go on: scrapy resume {in_one_line(now.crawl)}", style="yellow")
    yield figure(now.done, plural(now.done, "page"), "bold")
    yield Text(plot(rates, PLOT_WIDTH, 1)[0], style="cyan")
    yield Text.assemble((f"{now.pages_per_s:,.1f}/s", "cyan"), f" now {now.average:,.1f}/s overall")
    yield Text(size(now.bytes))
    yield figure(now.queued + now.delayed, "queued")
    yield figure(now.leased, "leased")
    yield figure(now.dead, plural(now.dead, "error"), "red" if now.dead else "")
    yield figure(now.hosts, plural(now.hosts, "host"))
    yield figure(now.alive, plural(now.alive, "worker"), "" if now.alive else "yellow")
    if now.estimate_s:
        yield Text(time_left(now), style="magenta")


def time_left(now: Status) -> str:
    """At least so long, and what does not let it be faster."""
    seconds = now.estimate_s or 0.0
    about = duration(seconds) if seconds >= 10 else f"{seconds:.0f} s"
    return f"{about} left at least{in_one_line(status_view.what_bounds(now))}"


def figure(number: int, what: str, style: str = "") -> Text:
    """A number, and what it counts."""
    return Text.assemble((f"{number:,}", style), f" {what}")


def _folded(parts: Sequence[Text], width: int) -> list[Text]:
    lines: list[Text] = []
    for part in parts:
        if lines and lines[-1].cell_len + len(BETWEEN) + part.cell_len <= width:
            lines[-1] = Text.assemble(lines[-1], BETWEEN, part)
        else:
            lines.append(part)
    return lines
