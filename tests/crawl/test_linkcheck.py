"""`scrapy linkcheck` on a site with known defects: it names exactly those.

The site has hundreds of pages, each with the same footer, and whatever breaks links: pages that
are gone, moved, moved in circles, busy for a while, slow down, hosts that are not there, fragments
that name nothing, links that are no links. One check of it is shared by most tests.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from crawlproj.operate.link_check import SEEDS
from crawlproj.operate.link_report import RESULT
from crawlproj.operate.starting import SMALL_CAPACITY
from tests.crawl.command_line import assert_one_line
from tests.servers import scrapy_process
from tests.servers.fleet import Fleet
from tests.servers.origin import HANG, Origin, Reply, Request, Route
from tests.servers.redis import RedisServer, wait_for

PAGES = 300
NOBODY = "http://127.0.5.9:9"
QUICK = {
    "CRAWL_ALLOW_ADDRESSES": "loopback",
    "POLITENESS_DELAY": "0",
    "POLITENESS_PER_HOST": "8",
    "POLITENESS_BACKOFF": "0.05",
    "FRONTIER_RETRY_DELAY": "0.1",
    "DOWNLOAD_TIMEOUT": "5",
    "SEEN_CAPACITY": "10000",
}


def moved(to: str) -> Reply:
    return Reply(301, {"Location": to})


def fine_at_last(status: int, **headers: str) -> Route:
    def answer(request: Request) -> Reply:
        return Reply(status, headers) if request.attempt < 3 else Reply(body=b"<p>fine")

    return answer


def page(number: int, other: str) -> bytes:
    next_ones = range(number * 4, min(number * 4 + 4, PAGES))
    links = [f'<a href="/page/{n}">Page {n}</a>' for n in next_ones]
    if number == 0:
        links += [
            '<a href="/moved">moved</a><a href="/moved-to-gone">moved away</a>',
            '<a href="/round">round</a><a href="/busy">busy</a><a href="/slow">slow down</a>',
            '<a href="/always-busy">always busy</a><a href="mailto:a@b.example">mail</a>',
            '<a href="tel:+1">call</a><a href="javascript:void(0)">run</a><a href="data:,x">d</a>',
            '<a href="/page/1#here">here</a><a href="/page/1#nowhere">nowhere</a>',
            '<a href="#foot">foot</a><a href="#top">top</a><a href="#lost">lost</a>',
            '<a href="http://[::1/">malformed</a><a href="/page/2" rel=nofollow>n</a>',
            f'<a href="{other}/fine">fine</a><a href="{other}/gone">there</a>',
            f'<a href="{other}/moved-to-gone">elsewhere</a><a href="{NOBODY}/">nobody</a>',
        ]
    if number in (3, 4):
        links.append('<a href="/gone#part" rel="nofollow">An old page</a>')
    body = f"<title>{number}</title><p id=here>{''.join(links)}"
    return f"{body}<footer id=foot><a href=/imprint>Imprint</a></footer>".encode()


def site(other: str) -> dict[str, Route]:
    pages: dict[str, Route] = {f"/page/{n}": Reply(body=page(n, other)) for n in range(PAGES)}
    return pages | {
        "/robots.txt": Reply(404),
        "/moved": moved("/page/7"),
        "/moved-to-gone": moved("/gone"),
        "/round": moved("/round-again"),
        "/round-again": moved("/round"),
        "/busy": fine_at_last(503),
        "/slow": fine_at_last(429, **{"Retry-After": "1"}),
        "/always-busy": Reply(503),
        "/only-busy": Reply(body=b"<a href=/always-busy>busy</a>"),
        "/clean": Reply(body=b"<a href=/page/299>the last</a>"),
        "/page/299": Reply(body=b"<a href=/clean>back</a>"),
    }


def elsewhere() -> dict[str, Route]:
    return {"/fine": Reply(), "/moved-to-gone": moved("/gone")}


class Check:
    """A site, and the command that checks it."""

    def __init__(self, fleet: Fleet, origin: Origin, other: Origin) -> None:
        self.fleet, self.origin, self.other = fleet, origin, other
        self.folder = self.folder_of(origin)

    def folder_of(self, origin: Origin) -> Path:
        return self.fleet.output / f"linkcheck-{origin.host.replace(':', '-')}"

    def words(self, url: str, *words: str) -> list[str]:
        settings = {**QUICK, "CRAWL_OUTPUT": str(self.fleet.output)}
        options = [word for name, value in settings.items() for word in ("-s", f"{name}={value}")]
        return ["linkcheck", url, *words, *options]

    def run(self, path: str, *words: str) -> Any:
        return self.run_at(self.origin.url(path), *words)

    def run_at(self, url: str, *words: str) -> Any:
        return self.fleet.command(*self.words(url, *words))


@pytest.fixture(scope="module")
def check(tmp_path_factory: pytest.TempPathFactory, redis_process: RedisServer) -> Iterator[Check]:
    redis_process.start()
    with redis_process.client() as client:
        client.flushall()
    with (
        Origin(elsewhere(), address="127.0.5.2") as other,
        Origin(site(other.url("")), address="127.0.5.1") as origin,
        Fleet(tmp_path_factory.mktemp("linkcheck"), redis_process.url) as fleet,
    ):
        yield Check(fleet, origin, other)


@pytest.fixture(scope="module")
def whole(check: Check) -> Any:
    """Everything checked, as JSON, once. Its files are kept as those of the crawl `whole`."""
    checked = check.run("/page/0", "--offsite", "--anchors", "--format", "json")
    shutil.copytree(check.folder, check.fleet.output / "whole")
    return checked


def test_it_names_every_defect_and_nothing_else(check: Check, whole: Any) -> None:
    assert whole.returncode == 1, whole.stderr
    here, there = check.origin.url(""), check.other.url("")
    broken = {one["url"]: one for one in json.loads(whole.stdout)["broken"]}
    found = {(url.replace(here, ""), one["kind"], one["reason"]) for url, one in broken.items()}
    assert found == {
        ("/imprint", "permanent", "http_404"),
        ("/gone", "permanent", "http_404"),
        ("/round-again", "permanent", "redirect_loop"),
        ("/always-busy", "transient", "http_503"),
        (f"{there}/gone", "permanent", "http_404"),
        (f"{NOBODY}/", "transient", "unreachable"),
        ("http://[::1/", "permanent", "host"),
        ("/page/1#nowhere", "anchor", "anchor"),
        ("/page/0#lost", "anchor", "anchor"),
    }
    assert broken[f"{here}/gone"]["status"] == 404


def test_every_page_that_has_a_broken_link_is_named_with_its_text(check: Check, whole: Any) -> None:
    here, there = check.origin.url(""), check.other.url("")
    broken = {one["url"]: one for one in json.loads(whole.stdout)["broken"]}
    footer = broken[f"{here}/imprint"]
    assert sorted(footer["sources"]) == sorted(f"{here}/page/{n}" for n in range(PAGES - 1))
    assert {link["text"] for link in footer["links"]} == {"Imprint"}
    gone = {(one["source"], one["text"], one["target"]) for one in broken[f"{here}/gone"]["links"]}
    assert gone == {
        (f"{here}/page/0", "moved away", f"{here}/moved-to-gone"),
        (f"{here}/page/3", "An old page", f"{here}/gone"),
        (f"{here}/page/4", "An old page", f"{here}/gone"),
    }
    away = [one["text"] for one in broken[f"{there}/gone"]["links"]]
    assert len(away) == 2
    assert "elsewhere" in away


def test_the_report_of_the_crawl_names_the_same_with_the_same_pages(
    check: Check, whole: Any
) -> None:
    output = f"CRAWL_OUTPUT={check.fleet.output}"
    told = check.fleet.command("report", "whole", "--json", "-s", output)
    assert told.returncode == 0, told.stderr

    def names(found: str) -> set[tuple[Any, ...]]:
        return {
            (one["url"], one["status"], one["kind"], one["reason"], *sorted(one["sources"]))
            for one in json.loads(found)["broken"]
        }

    assert names(told.stdout) == names(whole.stdout)
    assert (check.fleet.output / "whole/report.html").stat().st_size > 10_000


def test_what_was_busy_was_asked_again_before_it_was_called_broken(
    check: Check, whole: Any
) -> None:
    asked = [one.path for one in check.origin.requests()]
    assert asked.count("/busy") == 3
    assert asked.count("/slow") == 3
    assert asked.count("/always-busy") == 4


def test_no_page_elsewhere_was_asked_twice_or_followed(check: Check, whole: Any) -> None:
    asked = [(one.method, one.path) for one in check.other.requests()]
    assert asked.count(("HEAD", "/fine")) == 1
    assert ("GET", "/fine") not in asked


def test_the_result_is_kept_and_the_next_check_is_compared_with_it(
    check: Check, whole: Any, tmp_path: Path
) -> None:
    kept, here = check.folder / RESULT, check.origin.url("")
    assert json.loads(kept.read_text()) == json.loads(whole.stdout)

    file = tmp_path / "report.json"
    again = check.run("/page/3", "--depth", "0", "--fail-on", "transient", "-o", str(file))
    assert (again.returncode, again.stdout.count("\n")) == (0, 1), again
    told = json.loads(file.read_text())
    assert told["compared_with"] == json.loads(whole.stdout)["checked_at"]
    # It began elsewhere: what stood on pages that it has not read is neither mended nor new.
    assert (told["new"], told["mended"]) == ([], [])
    assert f"{NOBODY}/" in told["not_looked_at"]
    assert f"(that was from {here}/page/0 --offsite --anchors: only what both" in again.stdout
    assert not list(check.folder.glob("earlier-*"))

    # Of the last pages the links are asked, and not read.
    assert {one["url"] for one in told["broken"]} == {f"{here}/imprint", f"{here}/gone"}
    assert (told["pages"], told["checked"]) == (1, 4)


def test_mended_is_what_was_looked_at_again_and_new_what_was_before(
    check: Check, tmp_path: Path
) -> None:
    pages: dict[str, Route] = {
        "/": Reply(
            body=b"<a href=/gone>x</a><a href=/dropped>x</a><a href=/led>x</a><a href=/far>"
        ),
        "/led": moved("/end"),
        "/far": Reply(body=b"<a href=/lost>x</a>"),
    }
    later: dict[str, Route] = {
        "/": Reply(body=b"<a href=/gone>x</a><a href=/fresh>x</a><a href=/led>x</a><a href=/far>"),
        "/gone": Reply(body=b"<p>back"),
        "/led": Reply(body=b"<p>no longer led"),
        "/far": Reply(body=b"<a href=/lost>x</a><a href=/also>x</a>"),
    }
    with Origin(pages, address="127.0.5.6") as origin:
        assert check.run_at(origin.url("/")).returncode == 1
        port = origin.port
        result = check.folder_of(origin) / RESULT
    with Origin(later, address="127.0.5.6", port=port) as origin:

        def told(*words: str) -> dict[str, list[str]]:
            found = json.loads(check.run_at(origin.url("/"), "--json", *words).stdout)
            names = ("new", "mended", "not_looked_at")
            return {
                name: [url.replace(origin.url("/"), "") for url in found[name]] for name in names
            }

        first = tmp_path / RESULT
        shutil.copy(result, first)
        near = told("--depth", "0", "--against", str(first))
        assert near == {
            "new": ["fresh"],
            "mended": ["dropped", "end", "gone"],
            "not_looked_at": ["lost"],
        }
        whole = told("--against", str(first))
        assert whole == {
            "new": ["also", "fresh"],
            "mended": ["dropped", "end", "gone"],
            "not_looked_at": [],
        }


def test_what_is_read_as_a_page_is_not_asked_as_well_and_every_url_is_counted_once(
    check: Check,
) -> None:
    back = b"<a href=/>home</a><a href=/a>a</a><a href=/b>b</a><a href=/missing>m</a>"
    pdf = Reply(headers={"Content-Type": "application/pdf"}, body=b"%PDF-")
    pages: dict[str, Route] = {
        "/robots.txt": Reply(404),
        "/": Reply(body=back + b"<a href=/paper>paper</a>"),
        "/a": Reply(body=back + b"<a href=/far>far</a><a href=/led>led</a><a href=/paper>p</a>"),
        "/b": Reply(body=back + b"<a href=/far rel=nofollow>far</a><a href=/a rel=nofollow>a</a>"),
        "/far": Reply(),
        "/led": moved("/b"),
        "/paper": pdf,
    }
    with Origin(pages, address="127.0.5.7") as origin:
        told = json.loads(check.run_at(origin.url("/"), "--depth", "1", "--json").stdout)
        asked = [one.path for one in origin.requests() if one.path != "/robots.txt"]
    assert sorted(asked) == ["/", "/a", "/b", "/far", "/led", "/missing", "/paper"]
    assert (told["pages"], told["checked"], len(told["broken"])) == (3, 3, 1)
    assert told["broken"][0]["sources"] == [origin.url(path) for path in ("/", "/a", "/b")]


def test_a_link_that_turns_out_to_be_a_page_before_its_turn_is_not_asked(check: Check) -> None:
    """/a brings a link to /x that is beyond the depth, and /b, which is next, leads to it."""
    pages: dict[str, Route] = {
        "/robots.txt": Reply(404),
        "/": Reply(body=b"<a href=/a>a</a><a href=/b>b</a>"),
        "/a": Reply(body=b"<a href=/x>x</a>"),
        "/b": moved("/x"),
        "/x": Reply(),
    }
    with Origin(pages, address="127.0.5.8") as origin:
        given = {"seeds": origin.url("/"), "depth": 1, "check": "onsite", "per_host": 1, "delay": 0}
        worker = check.fleet.start(crawl="turned-out", **given)
        assert worker.wait() == "finished", worker.log
        asked = [(one.method, one.path) for one in sorted(origin.requests())][1:]
    assert asked == [("GET", path) for path in ("/", "/a", "/b", "/x")]
    now = check.fleet.status("turned-out")
    assert (now["filtered"], now["balance"]) == ({"robots_txt": 1, "read_as_page": 1}, 0)


def test_a_site_without_broken_links_is_one_line(check: Check) -> None:
    clean = check.run("/clean")
    assert (clean.returncode, clean.stdout.count("\n")) == (0, 1), clean.stderr
    assert clean.stdout.startswith("No broken links: 2 pages")


def test_a_link_that_was_only_asked_has_the_status_of_its_last_answer(check: Check) -> None:
    asked = check.run("/only-busy", "--depth", "0", "--json")
    (broken,) = json.loads(asked.stdout)["broken"]
    assert (broken["status"], broken["kind"], broken["reason"]) == (503, "transient", "http_503")
    summary = json.loads((check.folder / "summary.json").read_text())
    assert summary["statuses"] == {"200": 1, "503": 1}


def test_a_check_keeps_little_of_redis_unless_it_is_told_how_much(check: Check) -> None:
    def capacity_of(*words: str, env: dict[str, str]) -> int:
        output = f"CRAWL_OUTPUT={check.fleet.output}"
        here = ["linkcheck", check.origin.url("/clean"), "-s", output, *words]
        done = scrapy_process.run(here, {**check.fleet.env, **env}, check.fleet.project)
        assert done.returncode == 0, done.stderr
        seen = check.fleet.status(check.folder.name)["seen"]
        return int(seen["capacity"])

    assert capacity_of(env={}) == SMALL_CAPACITY
    assert capacity_of(env={"SEEN_CAPACITY": "5000"}) == 5000
    assert capacity_of("-s", "SEEN_CAPACITY=7000", env={}) == 7000


def test_a_start_that_is_not_there_is_wrong_use(check: Check) -> None:
    assert_one_line(check.run("/never-was"), 2, "Nothing to check", "http_404")


def test_a_start_whose_host_does_not_answer_is_told_with_the_reason(check: Check) -> None:
    nobody = check.run_at(f"{NOBODY}/")
    assert_one_line(nobody, 2, f"Nothing to check: {NOBODY}/: connection refused")


def test_a_check_that_cannot_be_made_is_not_taken_for_a_broken_link(tmp_path: Path) -> None:
    nowhere = Fleet(tmp_path, "redis://127.0.0.1:1/0")
    ended = nowhere.command("linkcheck", "http://127.0.0.1:9/")
    assert_one_line(ended, 2, "No Redis answers at 127.0.0.1:1")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["not-a-url"], "https://"),
        ([], "give a URL"),
        (["http://a.example", "--fail-on", "everything"], "permanent, transient, anchor"),
        (["http://a.example", "--against", "no-such-file"], "no-such-file"),
        (["http://a.example", "--depth", "-1"], "0 or more"),
        (["http://a.example", "-o", "/proc/none/report.json"], "the folder /proc/none: No such"),
        (["http://a.example", "-o", "/proc/report.json"], "the folder /proc: "),
        (["http://a.example", "-o", "/proc"], "is a folder"),
    ],
)
def test_wrong_use_is_said_in_one_line(check: Check, words: list[str], part: str) -> None:
    assert_one_line(check.fleet.command("linkcheck", *words), 2, part)


def interrupted(check: Check, origin: Origin, log: Path, is_time: Callable[[Path], bool]) -> int:
    """Check the origin, with Ctrl-C as soon as its folder shows that; returns the exit code."""
    with log.open("wb") as file, Path(os.devnull).open("rb") as nothing:
        process = scrapy_process.start(
            check.words(origin.url("/")),
            check.fleet.env,
            check.fleet.project,
            stdin=nothing.fileno(),
            stdout=file.fileno(),
            stderr=file.fileno(),
        )
        folder = check.folder_of(origin)
        wait_for(lambda: is_time(folder), "the time for Ctrl-C")
        process.send_signal(signal.SIGINT)
        return process.wait(60)


def test_an_interrupted_check_tells_what_is_known(check: Check, tmp_path: Path) -> None:
    slow: dict[str, Route] = {
        "/": Reply(body=b"<a href=/gone>gone</a><a href=/hangs>x</a>"),
        "/hangs": HANG,
    }
    log = tmp_path / "said"
    with Origin(slow, address="127.0.5.3") as origin:
        assert interrupted(check, origin, log, lambda at: any(at.glob("failures-*.csv"))) == 1
    said = log.read_text()
    assert "Interrupted, so far: 1 broken link" in said
    assert origin.url("/gone") in said


def test_the_last_result_stays_until_there_is_another(check: Check, tmp_path: Path) -> None:
    pages: dict[str, Route] = {"/": Reply(body=b"<a href=/gone>gone</a>")}
    log = tmp_path / "said"
    with Origin(pages, address="127.0.5.4") as origin:
        assert check.run_at(origin.url("/")).returncode == 1
        result = check.folder_of(origin) / RESULT
        kept = result.read_bytes()

        # Before the worker has moved the files of the first check aside.
        assert interrupted(check, origin, log, lambda at: (at / SEEDS).exists()) == 1
        assert log.read_text() == "interrupted before anything was read\n"
        assert result.read_bytes() == kept

        assert_one_line(check.run_at(origin.url("/never-was")), 2, "Nothing to check")
        assert result.read_bytes() == kept


def test_ctrl_c_while_commands_are_imported_is_one_line() -> None:
    words = [sys.executable, "-c", "import crawlproj.commands; raise KeyboardInterrupt"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (-signal.SIGINT, "interrupted\n")
