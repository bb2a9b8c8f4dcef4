"""Feeds of real Scrapy processes: what is on disk after a flush, after a kill, on a full disk."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from crawlproj.items import FAILURE_COLUMNS, PAGE_COLUMNS, STATS_COLUMNS
from crawlproj.output import merge
from tests.servers import scrapy_process

ROOT = Path(__file__).parents[2]

SETTINGS = """
from pipelines import ITEM_PIPELINES

ADDONS = {"crawlproj.addon.Addon": 0}
SCHEDULER = "scrapy.core.scheduler.Scheduler"
DUPEFILTER_CLASS = "scrapy.dupefilters.RFPDupeFilter"
SPIDER_MODULES = ["project"]
CRAWL_WORKER_ID = "host/1:a"
"""

SPIDER = """
import asyncio, errno, os, resource
from pathlib import Path
import scrapy
from crawlproj.output import row_file
from crawlproj.output.feeds import FlushingFeedExporter
from crawlproj.output.worker_output import WorkerOutput
from crawlproj.items import FailureItem, PageItem, StatsItem, utc_timestamp

HOSTILE = ["=1+1", 'a "quote", a comma', "line\\u2028separator", "half \\ud83d", "two\\nlines"]

def page(number, **more):
    return PageItem(url=f"http://a.test/{number}", status=200, fetched_at=utc_timestamp(number),
                    worker="w", **more)

class Site(scrapy.Spider):
    name = "site"
    exported = 0

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.count, scrapy.signals.item_scraped)
        return spider

    def count(self, item):
        self.exported += 1

    async def start(self):
        async for item in getattr(self, self.scene)():
            before = self.exported
            yield item
            while self.exported == before:
                await asyncio.sleep(0)

    def flush(self):
        self.crawler.get_extension(FlushingFeedExporter).flush()

    async def one_of_each(self):
        yield page(1)
        yield FailureItem(url="http://a.test/x", kind="permanent", reason="dns",
                          failed_at=utc_timestamp(2), worker="w")
        yield StatsItem(at=utc_timestamp(3), worker="w")
        yield {"own": "item"}

    async def hostile_titles(self):
        for number, title in enumerate(HOSTILE):
            yield page(number, title=title)
        yield {"own": ["half \\ud83d", "two\\nlines"]}

    async def named(self):
        yield page(1)
        print(self.crawler.settings["CRAWL_WORKER_ID"], flush=True)

    async def many(self):
        for number in range(int(self.pages)):
            yield page(number)
            self.flush()
            await asyncio.sleep(float(getattr(self, "pause_s", 0)))

    async def held(self):
        yield page(1)
        yield page(2, title="two, 2")
        self.flush()
        yield page(3)
        print("flushed", flush=True)
        await asyncio.sleep(600)

    async def full_disk(self):
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
        for number in range(100):
            yield page(number)
        self.flush_or_say()
        yield page(100)
        self.flush_or_say()
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        self.flush_or_say()
        print(Path("output/site/pages-host_1_a-0001.csv").read_bytes().count(b"http"), flush=True)

    async def no_place(self):
        Path("output").write_text("a file where the folder should be")
        yield page(1)
        self.flush_or_say()
        os.unlink("output")
        self.flush_or_say()

    async def full_while_closing(self):
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
        for number in range(4):
            yield page(number)
        await asyncio.sleep(0)
        self.flush_or_say()
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        self.flush_or_say()

    async def of_another_exporter(self):
        yield page(1)
        WorkerOutput(self.crawler, "w", wanted=False).flush_rows()
        print(Path("output/site/pages-host_1_a-0001.jsonl").read_bytes().count(b"http"), flush=True)

    async def synced(self):
        sizes = {}

        def note(number):
            found = os.fstat(number)
            sizes[found.st_ino] = found.st_size

        row_file._sync_data = note
        for number in range(3):
            yield page(number)
            await asyncio.sleep(0)
            self.flush()
            for path in sorted(Path().rglob("pages-*")):
                found = path.stat()
                print(path.name, found.st_size - sizes.get(found.st_ino, 0), flush=True)

    async def failing_sync(self):
        def fail(number):
            raise OSError(errno.EIO, "the disk has lost it")

        sync, row_file._sync_data = row_file._sync_data, fail
        yield page(1)
        self.flush_or_say()
        row_file._sync_data = sync
        self.flush_or_say()

    def flush_or_say(self):
        try:
            self.flush()
            print("flushed", flush=True)
        except OSError as error:
            print(type(error).__name__, flush=True)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = project_settings\n")
    (tmp_path / "project_settings.py").write_text(SETTINGS)
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "__init__.py").write_text("")
    (tmp_path / "project" / "site.py").write_text(SPIDER)
    return tmp_path


def command(scene: str, *more: str) -> list[str]:
    return ["crawl", "site", "-a", f"scene={scene}", *more]


def environment(project: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": f"{project}{os.pathsep}{ROOT}", "PYTHONWARNINGS": "default"}


def run(project: Path, scene: str, *more: str) -> subprocess.CompletedProcess[str]:
    return scrapy_process.run(command(scene, *more), environment(project), project)


def crawl(project: Path, scene: str, *more: str) -> str:
    """Run a crawl that ends well, and return what its spider said."""
    done = run(project, scene, *more)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    assert "DeprecationWarning" not in done.stderr, done.stderr
    return done.stdout


@contextmanager
def crawling(project: Path, scene: str, *more: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", "scrapy", *command(scene, "--nolog", *more)],
        cwd=project,
        env=environment(project),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def output(project: Path) -> Path:
    return project / "output" / "site"


def files(project: Path) -> list[str]:
    return sorted(path.name for path in output(project).iterdir())


def rows(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file, strict=True))


def json_rows(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def urls(rows: list[list[str]]) -> list[str]:
    return [row[0].removeprefix("http://a.test/") for row in rows]


def test_each_kind_has_its_own_file_with_its_columns_even_beside_o(project: Path) -> None:
    crawl(project, "one_of_each", "-O", "pages.json", "-O", "raw-%(worker)s.jsonl")
    assert files(project) == [
        "failures-host_1_a-0001.csv",
        "items-host_1_a-0001.jsonl",
        "items-host_1_a-0001.leases",
        "pages-host_1_a-0001.csv",
        "pages-host_1_a-0001.jsonl",
        "stats-host_1_a-0001.csv",
    ]
    for kind, columns in (
        ("pages", PAGE_COLUMNS),
        ("failures", FAILURE_COLUMNS),
        ("stats", STATS_COLUMNS),
    ):
        header, _only = rows(output(project) / f"{kind}-host_1_a-0001.csv")
        assert tuple(header) == columns
    assert tuple(json_rows(output(project) / "pages-host_1_a-0001.jsonl")[0]) == PAGE_COLUMNS
    assert json_rows(output(project) / "items-host_1_a-0001.jsonl") == [{"own": "item"}]
    ordered = json.loads((project / "pages.json").read_text("utf-8"))
    assert [item.get("url") or item.get("own") for item in ordered] == ["http://a.test/1", "item"]


def test_a_worker_without_a_name_gets_one_and_its_files_have_it(project: Path) -> None:
    name = crawl(project, "named", "-s", "CRAWL_WORKER_ID=").strip()
    assert files(project) == [f"pages-{name}-0001.csv", f"pages-{name}-0001.jsonl"]


@pytest.mark.needs_ours
def test_a_feed_with_an_unknown_name_in_its_uri_stops_the_start(project: Path) -> None:
    done = run(project, "one_of_each", "-O", "pages-%(wrker)s.json")
    assert "The feed 'pages-%(wrker)s.json' cannot be named: KeyError('wrker')" in done.stderr
    assert done.returncode != 0
    assert not output(project).exists()


def test_rows_of_an_exporter_that_is_not_ours_are_handed_over_when_ours_would_be_saved(
    project: Path,
) -> None:
    settings = """
EXTENSIONS = {
    "crawlproj.output.feeds.FlushingFeedExporter": None,
    "scrapy.extensions.feedexport.FeedExporter": 0,
}
"""
    (project / "project_settings.py").write_text(SETTINGS + settings)
    assert crawl(project, "of_another_exporter").split() == ["1"]


class Bucket(BaseHTTPRequestHandler):
    """As much of S3 as takes in files."""

    files: ClassVar[dict[str, bytes]] = {}
    timeout = 60

    def do_PUT(self) -> None:
        self.files[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("ETag", '"1"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Nobody reads it."""


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where feeds of `s3://` go."""
    monkeypatch.setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")  # bodies as they are
    monkeypatch.setattr(Bucket, "files", {})
    with ThreadingHTTPServer(("127.0.0.1", 0), Bucket) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.needs_ours
def test_parts_go_to_s3_beside_those_on_disk_and_are_merged_like_them(
    project: Path, bucket: str
) -> None:
    settings = (
        SETTINGS
        + f"""
AWS_ENDPOINT_URL, AWS_REGION_NAME = "{bucket}", "us-east-1"
AWS_ACCESS_KEY_ID = AWS_SECRET_ACCESS_KEY = "a"
from crawlproj.output.feeds import default_feeds
FEEDS = default_feeds() | {{
    "s3://kept/%(crawl)s/pages-%(worker)s-%(batch_id)04d.jsonl": {{
        "format": "jsonl",
        "item_classes": ["crawlproj.items.PageItem"],
        "batch_item_count": 2,
    }},
}}
"""
    )
    (project / "project_settings.py").write_text(settings)
    crawl(project, "many", "-a", "pages=3")
    names = [f"/kept/site/pages-host_1_a-{number:04d}.jsonl" for number in (1, 2)]
    assert sorted(Bucket.files) == names
    copied = project / "copied"
    copied.mkdir()
    for name, content in Bucket.files.items():
        (copied / Path(name).name).write_bytes(content)
    merge.merge(copied, project / "from_s3")
    merge.merge(output(project), project / "from_disk")
    assert [row["url"] for row in json_rows(project / "from_s3" / "pages.jsonl")] == [
        f"http://a.test/{number}" for number in range(3)
    ]
    read = [(project / name / "pages.csv").read_bytes() for name in ("from_s3", "from_disk")]
    assert read[0] == read[1]


def test_hostile_text_keeps_its_row_in_every_format(project: Path) -> None:
    crawl(project, "hostile_titles", "-O", "all.json")
    written = [
        "=1+1",
        'a "quote", a comma',
        "line\u2028separator",
        "half \ufffd",
        "two lines",
    ]
    _header, *pages = rows(output(project) / "pages-host_1_a-0001.csv")
    assert [page[2] for page in pages] == ["'=1+1", *written[1:]]
    in_json = json_rows(output(project) / "pages-host_1_a-0001.jsonl")
    assert [page["title"] for page in in_json] == written
    own = json.loads((project / "all.json").read_text("utf-8"))[-1]
    assert own == {"own": ["half \ufffd", "two\nlines"]}


def test_a_feed_that_cannot_take_a_row_keeps_it_from_no_other(project: Path) -> None:
    more = ("-O", "narrow.csv", "-s", "FEED_EXPORT_ENCODING=latin-1", "-s", "ITEM_PIPELINES={}")
    done = run(project, "hostile_titles", *more)
    assert "'crawl/feeds/rows_refused'" in done.stderr
    in_csv = rows(output(project) / "pages-host_1_a-0001.csv")[1:]
    assert "line\u2028separator" in [row[2] for row in in_csv]
    assert "two\nlines" in [row[2] for row in in_csv]
    assert b"separator" not in (project / "narrow.csv").read_bytes()


GZIP = "scrapy.extensions.postprocessing.GzipPlugin"


def gzipped(name: str) -> tuple[str, str]:
    """The option by which pages go to one compressed feed."""
    feed = {"format": "jsonlines", "postprocessing": [GZIP], "overwrite": True}
    return "-s", f"FEEDS={json.dumps({name: feed})}"


def unpacked(path: Path) -> list[Any]:
    """The rows of a gzip file, as far as it goes."""
    text = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(path.read_bytes())
    return [json.loads(line) for line in text.split(b"\n")[:-1]]


@pytest.mark.also_plain
def test_flushed_rows_are_on_disk_whole_when_the_worker_is_killed(project: Path) -> None:
    with crawling(project, "held") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "flushed\n"
        process.kill()
        process.wait()
    _header, *pages = rows(output(project) / "pages-host_1_a-0001.csv")
    assert urls(pages) == ["1", "2"]
    assert len(json_rows(output(project) / "pages-host_1_a-0001.jsonl")) == 2


@pytest.mark.also_plain
def test_flushed_rows_can_be_unpacked_when_the_worker_is_killed(project: Path) -> None:
    with crawling(project, "held", *gzipped("all.jsonl.gz")) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "flushed\n"
        process.kill()
        process.wait()
    pages = unpacked(project / "all.jsonl.gz")
    assert [page["url"] for page in pages] == ["http://a.test/1", "http://a.test/2"]


@pytest.mark.parametrize(
    "more",
    [
        (),
        ("-s", "FEED_EXPORT_BATCH_ITEM_COUNT=1"),
        gzipped("pages-%(batch_id)d.gz"),
        (*gzipped("pages-%(batch_id)d.gz"), "-s", "FEED_EXPORT_BATCH_ITEM_COUNT=1"),
    ],
    ids=["plain", "batches", "gzip", "gzip batches"],
)
def test_a_flush_syncs_all_that_was_written(project: Path, more: tuple[str, ...]) -> None:
    said = crawl(project, "synced", *more).splitlines()
    assert len(said) >= 3
    assert {line.split()[1] for line in said} == {"0"}, said


def test_rows_that_a_failing_disk_may_have_lost_are_written_in_their_place(
    project: Path,
) -> None:
    assert crawl(project, "failing_sync").split() == ["OSError", "flushed"]
    report = merge.merge(output(project), output(project)).kinds[0]
    assert (report.rows, report.duplicates, report.torn, report.malformed) == (1, 0, 0, 0)


@pytest.mark.needs_ours
def test_files_rotate_by_size_and_a_later_run_begins_a_new_one(project: Path) -> None:
    crawl(project, "many", "-a", "pages=40", "-s", "CRAWL_FEED_ROTATE_MB=0.001")
    first_run = [name for name in files(project) if name.endswith(".csv")]
    assert len(first_run) > 2
    parts = [rows(output(project) / name) for name in first_run]
    assert all(tuple(part[0]) == PAGE_COLUMNS for part in parts)
    assert all(len(part) > 2 for part in parts[:-1])
    assert urls([row for part in parts for row in part[1:]]) == [str(n) for n in range(40)]

    crawl(project, "many", "-a", "pages=1")
    second_run = [name for name in files(project) if name.endswith(".csv")]
    assert second_run == [*first_run, f"pages-host_1_a-{len(first_run) + 1:04}.csv"]
    report = merge.merge(output(project), output(project)).kinds[0]
    assert (report.rows, report.duplicates, report.torn) == (40, 1, 0)


OLD = ("-a", "pages=3", "-a", "pause_s=0.07", "-s", "CRAWL_FEED_ROTATE_MINUTES=0.001")
"""Three pages, each when the file of the one before is too old."""


@pytest.mark.needs_ours
def test_files_rotate_by_time(project: Path) -> None:
    crawl(project, "many", *OLD)
    parts = [name for name in files(project) if name.endswith(".jsonl")]
    assert parts == [f"pages-host_1_a-{number:04}.jsonl" for number in (1, 2, 3)]


@pytest.mark.needs_ours
def test_compressed_files_rotate_too(project: Path) -> None:
    crawl(project, "many", *OLD, *gzipped("all-%(batch_id)d.jsonl.gz"))
    parts = sorted(project.glob("all-*.gz"))
    assert [len(unpacked(part)) for part in parts] == [1, 1, 1]


def test_a_feed_without_a_batch_number_never_rotates(project: Path) -> None:
    crawl(project, "many", *OLD, "-O", "a.csv")
    assert urls(rows(project / "a.csv")[1:]) == ["0", "1", "2"]


@pytest.mark.also_plain
def test_a_full_disk_is_raised_by_flush_and_costs_no_row(project: Path) -> None:
    said = crawl(project, "full_disk").split()
    assert said == ["OSError", "OSError", "flushed", "101"]
    _header, *pages = rows(output(project) / "pages-host_1_a-0001.csv")
    assert urls(pages) == [str(number) for number in range(101)]


def test_a_place_that_cannot_be_written_is_raised_by_flush_and_costs_no_row(
    project: Path,
) -> None:
    said = crawl(project, "no_place").split()
    assert said == ["NotADirectoryError", "flushed"]
    assert len(rows(output(project) / "pages-host_1_a-0001.csv")) == 2


@pytest.mark.needs_ours
def test_a_batch_that_could_not_be_closed_is_written_by_a_later_flush(project: Path) -> None:
    done = run(project, "full_while_closing", "-s", "FEED_EXPORT_BATCH_ITEM_COUNT=2")
    assert done.stdout.split() == ["OSError", "flushed"]
    names = ("pages-host_1_a-0001.csv", "pages-host_1_a-0002.csv")
    parts = [rows(output(project) / name) for name in names]
    assert [urls(part[1:]) for part in parts] == [["0", "1"], ["2", "3"]]
