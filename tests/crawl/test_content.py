"""Bodies that nobody wants are not downloaded: judged by what the origin could send of them."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator
from itertools import repeat
from types import FrameType
from typing import Any
from urllib.parse import urlsplit

import pytest
from scrapy import Request as ScrapyRequest
from scrapy.http import HtmlResponse
from scrapy.utils.test import get_crawler

from crawlproj.fetch.content import ContentMiddleware
from crawlproj.fetch.handler import SafeDownloadHandler
from tests.servers.fleet import Fleet
from tests.servers.origin import Origin, Raw, Reply, Request

CHUNK = bytes(50_000)
PDF_BYTES = 100 * len(CHUNK)
ROOT = b"<a href=/report.pdf>a</a><a href=/film>b</a><a href=/plain>c</a><a href=/untyped>d</a>"


class Site:
    """Pages of several types; counts what was sent of the large ones, notes what was asked."""

    def __init__(self) -> None:
        self.sent = 0
        self.accept: dict[str, str] = {}

    def pdf(self, request: Request) -> Raw:
        return self._stream(f"application/pdf\r\nContent-Length: {PDF_BYTES}", 100)

    def film(self, request: Request) -> Raw:
        return self._stream("video/mp4", None)

    def _stream(self, kind: str, chunks: int | None) -> Raw:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\n".encode()

        def body() -> Iterator[bytes]:
            yield head
            for chunk in repeat(CHUNK) if chunks is None else repeat(CHUNK, chunks):
                self.sent += len(chunk)
                yield chunk

        # Paused, so that what the kernel would swallow at once is not counted as sent.
        return Raw(body(), pause_s=0.02)

    def root(self, request: Request) -> Reply:
        self.accept[request.path] = request.headers.get("accept", "")
        return Reply(body=ROOT)

    def routes(self) -> dict[str, object]:
        return {
            "/": self.root,
            "/report.pdf": self.pdf,
            "/film": self.film,
            "/plain": Reply(headers={"Content-Type": "text/plain"}, body=b"<title>no</title>"),
            "/untyped": Raw(b"HTTP/1.1 200 OK\r\n\r\n<title>untyped</title>"),
            "/robots.txt": Reply(
                headers={"Content-Type": "text/plain"}, body=b"User-agent: *\nDisallow: /plain"
            ),
        }


def crawl(fleet: Fleet, site: Site, **settings: object) -> dict[str, dict[str, str]]:
    """The rows of the site's pages, by path."""
    with Origin(site.routes()) as origin:  # type: ignore[arg-type]
        fleet.start(settings, seeds=origin.url("/"), delay=0)
        assert fleet.wait() == ["finished"]
        return {row["url"].removeprefix(origin.url("")): row for row in fleet.rows("pages")}


def test_only_headers_are_read_of_what_is_not_wanted(fleet: Fleet) -> None:
    site = Site()
    rows = crawl(fleet, site, ROBOTSTXT_OBEY=False)
    found = {path: (row["content_type"], row["size"]) for path, row in rows.items()}
    assert found == {
        "/": ("text/html", str(len(ROOT))),
        "/report.pdf": ("application/pdf", str(PDF_BYTES)),
        "/film": ("video/mp4", "0"),
        "/plain": ("text/plain", "17"),
        "/untyped": ("", "22"),
    }
    assert rows["/untyped"]["title"] == "untyped"
    assert rows["/report.pdf"]["content_hash"] == rows["/film"]["content_hash"] == ""
    assert site.sent < PDF_BYTES / 5
    assert site.accept["/"] == "text/html, application/xhtml+xml, */*;q=0.1"
    assert fleet.status()["done"] == 5


def test_what_is_asked_for_is_downloaded(fleet: Fleet) -> None:
    site = Site()
    rows = crawl(
        fleet,
        site,
        ROBOTSTXT_OBEY=False,
        CRAWL_CONTENT_TYPES="text/*, application/pdf",
    )
    assert rows["/report.pdf"]["size"] == str(PDF_BYTES)
    assert rows["/report.pdf"]["content_hash"] != ""
    assert rows["/plain"]["content_hash"] != ""
    assert rows["/film"]["content_hash"] == ""
    assert site.accept["/"] == "text/*, application/pdf, */*;q=0.1"


def test_a_robots_txt_is_read_though_it_is_plain_text(fleet: Fleet) -> None:
    rows = crawl(fleet, Site(), ROBOTSTXT_OBEY=True)
    assert set(rows) == {"/", "/report.pdf", "/film", "/untyped"}


@pytest.mark.parametrize(
    ("wanted", "kind", "is_wanted"),
    [
        (["text/html"], "text/html", True),
        (["text/html"], "text/plain", False),
        (["text/html"], "", True),
        (["image/*"], "image/png", True),
        (["image/*"], "imagery/png", False),
        (["*/*"], "application/pdf", True),
    ],
)
def test_a_type_is_wanted_by_itself_or_by_its_family(
    wanted: list[str], kind: str, is_wanted: bool
) -> None:
    assert ContentMiddleware(wanted).is_wanted(kind) == is_wanted


async def test_no_charset_is_looked_for_in_the_packed_bytes_of_a_page() -> None:
    """The header names none, and the URL says that it is text: Scrapy would look at all of it."""
    page = b"<title>caf\xc3\xa9</title>" + b"<p>text" * 1000
    headers = {"Content-Type": "text/html", "Content-Encoding": "gzip"}
    called: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        called.add(frame.f_globals.get("__name__", ""))

    with Origin({"/a.html": Reply(headers=headers, body=gzip.compress(page))}) as origin:
        sys.setprofile(note)
        try:
            crawler = get_crawler(settings_dict={"CRAWL_ALLOW_ADDRESSES": "loopback"})
            handler = SafeDownloadHandler(crawler)
            try:
                response = await handler.download_request(ScrapyRequest(origin.url("/a.html")))
            finally:
                await handler.close()
        finally:
            sys.setprofile(None)
    assert "crawlproj.fetch.unpacking" in called
    assert not [name for name in called if name.startswith("charset_normalizer")]
    assert isinstance(response, HtmlResponse) and response.body == page
    assert (response.encoding, response.css("title::text").get()) == ("utf-8", "café")


GUESSES = """
import charset_normalizer
from_bytes = charset_normalizer.from_bytes

def told(*args, **named):
    print("a charset is guessed at", flush=True)
    return from_bytes(*args, **named)

charset_normalizer.from_bytes = told
"""

TITLES = {
    "/utf8": (b"{}", "café ☕"),
    "/windows.html": (b"{}", "café"),
    "/declared": (b"<meta charset=koi8-r>{}", "чай"),
    "/marked": (b"\xef\xbb\xbf{}", "茶"),
}
ENCODINGS = {"/windows.html": "cp1252", "/declared": "koi8-r"}


def packed(path: str) -> Reply:
    """A page by gzip whose header names no charset."""
    form, title = TITLES[path]
    text = f"<title>{title}</title>".encode(ENCODINGS.get(path, "utf-8")) + b"<p>text" * 500
    headers = {"Content-Type": "text/html", "Content-Encoding": "gzip"}
    return Reply(headers=headers, body=gzip.compress(form.replace(b"{}", text)))


def test_nobody_guesses_at_the_charset_of_a_page_and_its_title_is_right(fleet: Fleet) -> None:
    """It is decided once, as browsers do: by header, mark and declaration, else UTF-8 or cp1252."""
    custom = fleet.folder / "custom"
    custom.mkdir()
    (custom / "sitecustomize.py").write_text(GUESSES)
    links = "".join(f"<a href={path}>x</a>" for path in TITLES)
    with Origin(
        {"/": Reply(body=links.encode()), **{path: packed(path) for path in TITLES}}
    ) as origin:
        env = {"PYTHONPATH": f"{custom}:{fleet.env['PYTHONPATH']}"}
        worker = fleet.start({"ROBOTSTXT_OBEY": False}, env=env, seeds=origin.url("/"), delay=0)
        assert worker.wait() == "finished", worker.log
    titles = {urlsplit(row["url"]).path: row["title"] for row in fleet.rows("pages")}
    assert titles == {"/": "", **{path: title for path, (_, title) in TITLES.items()}}
    assert "guessed at" not in worker.log
