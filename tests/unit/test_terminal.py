"""What is drawn on terminals: bars, blocks, the screen at any size, hostile text in all of them."""

from __future__ import annotations

import io
import subprocess
import sys
from dataclasses import replace

import pyte
import pytest
from rich.console import Console
from rich.text import Text

from crawlproj.operate.host_status import HostStatus
from crawlproj.operate.recent_pages import RecentPage, latest, read
from crawlproj.operate.status import Status
from crawlproj.operate.terminal.away import Away
from crawlproj.operate.terminal.block import block
from crawlproj.operate.terminal.bottom import BottomBlock
from crawlproj.operate.terminal.plot import bar, plot, resample
from crawlproj.operate.terminal.screen import Picture, fit, screen
from crawlproj.operate.terminal.under_log import rest_s
from crawlproj.operate.worker_status import WorkerStatus

HOSTILE = "\x1b[2J\x1b]0;owned\x07[bold red]x[/] \u202egnp.exe\r\n:smile:"


def status(**changes: object) -> Status:
    worker = WorkerStatus(HOSTILE, HOSTILE, 7, True, 1.0, 2, 100, 5.0, 10**8, 0)
    host = HostStatus(HOSTILE, 100, 50, held=True, held_s=3, why=HOSTILE, estimate_s=100)
    values = {
        "crawl": HOSTILE,
        "epoch": "1",
        "state": "running",
        "discovered": 160,
        "done": 100,
        "queued": 50,
        "dead": 10,
        "reasons": {HOSTILE: 10},
        "elapsed_s": 100.0,
        "pages_per_s": 5.0,
        "estimate_s": 100.0,
        "estimate_bound": "host",
        "bytes": 10**7,
        "hosts": 1,
        "hosts_by_doing": {"held": 1},
        "workers": (worker,) * 3,
        "recent": (RecentPage(HOSTILE, 200, "", 1.0, HOSTILE),),
        "held": (host,),
        "slowest": (host,),
    }
    return Status(**{**values, **changes})  # type: ignore[arg-type]


def drawn(picture: Picture, width: int, height: int) -> str:
    file = io.StringIO()
    console = Console(file=file, width=width, height=height, force_terminal=True, color_system=None)
    console.print(screen(picture, width, height), end="")
    return file.getvalue()


@pytest.mark.parametrize("height", [8, 24, 60])
@pytest.mark.parametrize("width", [20, 40, 80, 90, 200])
@pytest.mark.parametrize(
    "picture",
    [
        Picture(Status("site")),
        Picture(status(), [1.0, 2.0, 3.0], 3.0, Away(HOSTILE), answer=HOSTILE),
        Picture(status(), [0.0] * 500, 500.0, typed=HOSTILE),
        Picture(status(), is_gone=True, question="sure?"),
    ],
)
def test_the_screen_has_as_many_rows_and_columns_as_the_terminal(
    picture: Picture, width: int, height: int
) -> None:
    lines = drawn(picture, width, height).splitlines()
    assert len(lines) == height
    assert max(map(len, lines)) <= width


def test_on_a_small_screen_the_worker_that_is_silent_is_the_one_to_be_seen() -> None:
    silent = WorkerStatus("gone", "box", 7, False, 202.0, 2, 100, 0.0, 10**8, 0)
    well = [WorkerStatus(f"well{n}", "box", 8, True, 1.0, 2, 9, 5.0, 10**8, 0) for n in range(2)]
    text = drawn(Picture(status(crawl="site", workers=(*well, silent))), 80, 24)
    assert "gone" in text and "silent, 3 min 22 s ago" in text and "2 workers" in text


def test_on_a_large_screen_rows_are_filled_with_hosts_those_that_fail_first() -> None:
    hosts = [HostStatus(f"http://h{n:02}", 100 - n, queued=9) for n in range(20)]
    bad = HostStatus("http://bad", 0, failures=3)
    doing = {"works": 2, "rests": 18, "failing": 1}
    now = status(crawl="site", held=(), slowest=(), busiest=(*hosts,), failing=(bad,), hosts=21)
    text = drawn(Picture(replace(now, hosts_by_doing=doing)), 160, 50)
    assert all(host.host in text for host in (bad, *hosts))
    assert text.index("http://bad") < text.index("http://h00")
    assert "21 hosts · 2 work · 18 rest · 1 failing" in text


def test_when_the_crawl_began_is_not_taken_for_the_time_of_now() -> None:
    now = status(crawl="site", started_at="2026-11-18T02:14:57.123Z")
    assert "since 2026-11-18 02:14:57 UTC" in drawn(Picture(now), 120, 30)


@pytest.mark.parametrize("most", [0.04, 0.96, 9.7, 1234.0])
def test_the_rows_of_the_plot_are_as_wide_as_its_panel(most: float) -> None:
    text = drawn(Picture(status(), [most, most / 2] * 50, 100.0), 40, 60)
    rows = [line.index("▕") for line in text.splitlines() if "▕" in line]
    assert len(rows) > 2 and len(set(rows)) == 1
    assert not [line for line in text.splitlines() if "█" * 20 in line and "▕" not in line]


def test_text_from_elsewhere_is_shown_and_does_nothing() -> None:
    picture = Picture(status(), [1.0], 1.0, Away(HOSTILE), typed=HOSTILE, answer=HOSTILE)
    text = drawn(picture, 200, 60)
    assert not set(text) & {"\x1b", "\x07", "\r", "\u202e"}
    assert r"\x1b[2J\x1b]0;owned\x07[bold red]x[/] gnp.exe :smile:" in text
    for line in block(status(), [1.0], 80, Away(HOSTILE)):
        assert not set(line.plain) & {"\x1b", "\x07", "\r", "\n", "\u202e"}


def test_rows_go_to_the_first_parts_first_and_what_is_left_to_those_that_have_least() -> None:
    assert fit([10, 4, 4], [10, 9, 6], 30) == [10, 9, 6]
    assert fit([10, 4, 4], [10, 9, 6], 22) == [10, 6, 6]
    assert fit([10, 4, 4], [10, 9, 6], 13) == [10, 0, 0]
    assert fit([10, 4, 4], [10, 9, 6], 4) == [0, 4, 0]
    assert fit([10], [10], 0) == [0]


def test_bars_stand_for_what_they_should() -> None:
    assert plot([0, 4, 8], 3, 1) == [" ▄█"]
    assert plot([0, 8], 2, 2) == [" █", " █"]
    assert plot([1, 2], 4, 1) == ["▄▄██"], "few values fill the time that they stand for"
    assert plot([], 3, 2) == plot([0, 0], 3, 2) == ["   ", "   "]
    assert resample([1, 3, 5, 7], 2) == [2, 6]
    assert resample(list(range(1000)), 7)[-1] < 1000
    assert [bar(share, 4) for share in (0, 1e-9, 0.5, 1, 2)] == ["", "▏", "██", "████", "████"]


def test_blocks_break_between_their_parts_at_any_width() -> None:
    for width in (40, 79, 119):
        lines = block(status(crawl="site", estimate_bound="workers"), [1.0, 2.0], width)
        assert all(line.cell_len <= width for line in lines)
        whole = "  ".join(line.plain for line in lines)
        for part in ("5.0/s now 1.0/s overall", "50 queued", "10 errors", "1 min 40 s left"):
            assert part in whole


def test_a_block_is_replaced_where_it_stands_and_what_is_written_goes_above_it() -> None:
    stream = io.StringIO()
    bottom = BottomBlock(stream)
    bottom.write("first\n")
    bottom.draw([Text("one"), Text("two"), Text("three")])
    bottom.write("second\n")
    bottom.draw([Text("ONE")])
    bottom.write("half ")
    bottom.draw([Text("not yet")])
    bottom.write("a line\n")
    seen = pyte.Screen(80, 10)
    terminal = pyte.Stream(seen)
    terminal.feed(stream.getvalue().replace("\n", "\r\n"))
    assert [line.rstrip() for line in seen.display if line.strip()] == [
        *("first", "second", "half a line", "not yet")
    ]
    bottom.close()
    seen.reset()
    terminal.feed(stream.getvalue().replace("\n", "\r\n"))
    assert [line.rstrip() for line in seen.display if line.strip()] == [
        *("first", "second", "half a line")
    ]


def test_workers_load_nothing_that_draws() -> None:
    code = (
        "import sys, crawlproj.addon, crawlproj.scheduler, crawlproj.operate.progress, "
        "crawlproj.commands.crawl, crawlproj.commands.fleet, crawlproj.commands.status; "
        "sys.exit('rich' in sys.modules)"
    )
    assert subprocess.call([sys.executable, "-c", code]) == 0


def test_what_workers_tell_of_their_last_pages_is_read_however_it_was_written() -> None:
    told = {"recent": [[1.5, 200, "", "http://a/"], [0.5, 404, "http_404", "http://b/"]]}
    pages = [
        *read(told, 2.0, "w"),
        *read({"recent": [[1], None, "x", [float("nan"), 1, "", ""]]}, 0, "v"),
    ]
    assert latest(pages) == (
        RecentPage("http://b/", 404, "http_404", 2.5, "w"),
        RecentPage("http://a/", 200, "", 3.5, "w"),
    )
    assert [*read({"recent": 7}, 0, "w"), *read({}, 0, "w")] == []


@pytest.mark.parametrize(("took_s", "rests_s"), [(0.002, 1.0), (0.02, 2.0), (0.5, 5.0)])
def test_a_block_that_takes_long_to_read_is_drawn_less_often(took_s: float, rests_s: float) -> None:
    assert rest_s(took_s) == pytest.approx(rests_s)
