"""The archive: one crawl of a site with answers of every kind, read back by warcio and by an
independent indexer, verified, indexed, packed and asked for pages."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import pytest
from cdxj_indexer.main import CDXJIndexer  # type: ignore[import-untyped]
from warcio.archiveiterator import ArchiveIterator  # type: ignore[import-untyped]

from crawlproj.output.archive import files
from tests.crawl.command_line import Ended, assert_one_line, in_output, json_of
from tests.servers.fleet import Fleet
from tests.servers.h2_origin import H2Origin
from tests.servers.origin import Origin, Raw, Reply, Request, Route
from tests.servers.redis import RedisServer
from tests.servers.tls import Authority

SETTINGS = {"POLITENESS_BACKOFF": "0.05", "CRAWL_CONTENT_TYPES": "text/html,text/plain"}
PLAIN = {"Content-Type": "text/plain"}
SAME = b"<title>Twice &amp; again</title>" + b"the same payload at several addresses. " * 60
OF_NEWER = 2
"""Requests to the origin that speaks HTTP/2: for robots.txt and a page."""
PACKED = gzip.compress(b"<title>Packed</title>" + b"a page that comes packed. " * 60)


def busy_at_first(request: Request) -> Reply:
    return Reply(503) if request.attempt < 2 else Reply(body=b"<title>Late</title>")


def site() -> dict[str, Route]:
    paths = ["/same", "/again", "/packed", "/chunked", "/moved", "/gone", "/busy", "/empty"]
    links = "".join(f"<a href={path}>{path}</a>" for path in paths)
    return {
        "/robots.txt": Reply(headers=PLAIN, body=b"User-agent: *\nDisallow: /private"),
        "/": Reply(body=b"<title>Home</title><a href=/private>x</a>" + links.encode()),
        "/same": Reply(body=SAME),
        "/again": Reply(body=SAME),
        "/packed": Reply(
            headers={"Content-Type": "text/html", "Content-Encoding": "gzip"}, body=PACKED
        ),
        "/chunked": Raw(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"5\r\n<p>in\r\n8\r\n pieces\n\r\n0\r\n\r\n",
            status=200,
        ),
        "/moved": Reply(301, {"Location": "/same"}),
        "/gone": Reply(404, body=b"no such page"),
        "/busy": busy_at_first,
        "/empty": Reply(204),
    }


class Kept:
    """What a crawl has left."""

    def __init__(self, fleet: Fleet, origin: Origin, newer: str) -> None:
        self.fleet, self.origin, self.newer = fleet, origin.url(""), newer
        self.asked = [(one.path, one.status) for one in origin.requests()]
        self.folder = fleet.output / "site" / "archive"
        self.files = files.files_of(self.folder)
        self.records = [record for path in self.files for record in read(path)]

    def command(self, *words: str) -> Ended:
        return in_output(self.fleet, "archive", *words)

    def of(self, path: str, kind: str = "response") -> list[dict[str, Any]]:
        url = path if "://" in path else f"{self.origin}{path}"
        return [one for one in self.records if (one["url"], one["type"]) == (url, kind)]


def read(path: Path) -> list[dict[str, Any]]:
    """The records of a file as warcio reads and checks them."""
    found = []
    with path.open("rb") as file:
        for record in ArchiveIterator(file, check_digests="raise"):
            headers = dict(record.rec_headers.headers)
            http = record.http_headers
            found.append(
                {
                    "type": record.rec_type,
                    "url": headers.get("WARC-Target-URI", ""),
                    "headers": headers,
                    "line": f"{http.protocol} {http.statusline}" if http else "",
                    "http": {k.lower(): v for k, v in http.headers} if http else {},
                    "raw": record.raw_stream.read(),
                }
            )
    return found


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, redis_process: RedisServer) -> Iterator[Kept]:
    folder = tmp_path_factory.mktemp("archive")
    redis_process.start()
    with redis_process.client() as client:
        client.flushall()
    authority = Authority(folder)
    settings = {**SETTINGS, "CRAWL_CA_FILE": authority.certificate}
    tls = authority.issue("127.0.4.12")
    with (
        Origin(site(), address="127.0.4.11") as origin,
        H2Origin({"/": Reply(body=b"<p>h2")}, tls=tls, address="127.0.4.12") as newer,
        Fleet(folder, redis_process.url, settings=settings) as fleet,
    ):
        seeds = ",".join([origin.url("/"), newer.url("/")])
        for _ in range(2):
            fleet.start(seeds=seeds, delay=0, archive="true")
        assert fleet.wait() == ["finished", "finished"]
        yield Kept(fleet, origin, newer.url("/"))


def test_every_exchange_is_there_as_warcio_reads_it(kept: Kept) -> None:
    answers = [
        one
        for one in kept.records
        if one["type"] in ("response", "revisit") and one["url"].startswith(kept.origin)
    ]
    kinds = sorted(
        (one["url"].removeprefix(kept.origin), int(one["line"].split()[1])) for one in answers
    )
    assert kinds == sorted(kept.asked)
    assert ("/robots.txt", 200) in kinds
    assert [status for path, status in kinds if path == "/busy"] == [200, 503]
    assert ("/moved", 301) in kinds


def test_a_file_begins_with_a_warcinfo_and_is_complete(kept: Kept) -> None:
    for path in kept.files:
        first = read(path)[0]
        assert first["type"] == "warcinfo"
        assert first["headers"]["WARC-Filename"] == path.name
        assert b"isPartOf: site" in first["raw"]
    assert not list(kept.folder.glob(".*"))


def test_a_request_is_joined_to_its_answer(kept: Kept) -> None:
    (answer,), (asked,) = kept.of("/gone"), kept.of("/gone", "request")
    assert asked["headers"]["WARC-Concurrent-To"] == answer["headers"]["WARC-Record-ID"]
    assert asked["line"] == "GET /gone HTTP/1.1"
    assert asked["http"]["host"] == kept.origin.removeprefix("http://")
    for one in (answer, asked):
        assert one["headers"]["WARC-IP-Address"] == "127.0.4.11"
        assert one["headers"]["WARC-Protocol"] == "http/1.1"
    digest = sha256(answer["raw"]).hexdigest()
    assert answer["headers"]["WARC-Payload-Digest"] == f"sha256:{digest}"


def test_what_came_over_http2_is_written_in_the_words_of_http_1(kept: Kept) -> None:
    (answer,), (asked,) = kept.of(kept.newer), kept.of(kept.newer, "request")
    assert (answer["line"], answer["raw"]) == ("HTTP/1.1 200 OK", b"<p>h2")
    assert asked["line"] == "GET / HTTP/1.1"
    for one in (answer, asked):
        assert one["headers"]["WARC-Protocol"] == "h2"


def test_a_body_is_kept_packed_and_its_chunks_are_put_together(kept: Kept) -> None:
    (packed,), (chunked,) = kept.of("/packed"), kept.of("/chunked")
    assert packed["http"]["content-encoding"] == "gzip"
    assert packed["raw"] == PACKED
    assert chunked["raw"] == b"<p>in pieces\n"
    assert "transfer-encoding" not in chunked["http"]
    assert chunked["http"]["x-archive-orig-transfer-encoding"] == "chunked"


def test_the_same_payload_again_is_a_revisit_of_the_first(kept: Kept) -> None:
    originals = [*kept.of("/same"), *kept.of("/again")]
    revisits = [*kept.of("/same", "revisit"), *kept.of("/again", "revisit")]
    assert (len(originals), len(revisits)) == (1, 1)
    first, again = originals[0]["headers"], revisits[0]["headers"]
    assert again["WARC-Profile"].endswith("/identical-payload-digest")
    assert again["WARC-Refers-To-Target-URI"] == first["WARC-Target-URI"]
    assert again["WARC-Refers-To-Date"] == first["WARC-Date"]
    assert again["WARC-Payload-Digest"] == first["WARC-Payload-Digest"]
    assert revisits[0]["http"]["content-type"] == originals[0]["http"]["content-type"]


def test_a_good_archive_is_called_good(kept: Kept) -> None:
    done = kept.command("site", "--verify")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("The archive is good\n")
    found = json_of(kept.command("site", "--verify", "--json"))
    assert found["good"]
    requests = [one for one in kept.records if one["type"] == "request"]
    assert found["records"]["request"] == len(requests) == len(kept.asked) + OF_NEWER


def test_an_independent_indexer_writes_the_same_index(kept: Kept) -> None:
    done = kept.command("site", "--index")
    assert done.returncode == 0, done.stderr
    theirs = io.StringIO()
    CDXJIndexer(theirs, [str(path) for path in kept.files], sort=True).process_all()
    lines = (kept.folder / "index.cdxj").read_text().splitlines()
    assert lines == sorted(lines)
    assert lines == theirs.getvalue().splitlines()


def test_a_page_is_had_by_its_url_with_and_without_an_index(kept: Kept) -> None:
    (kept.folder / "index.cdxj").unlink(missing_ok=True)
    for _ in range(2):
        for path in ("/same", "/again"):
            assert get(kept, path) == SAME.decode()
        assert get(kept, "/packed") == gzip.decompress(PACKED).decode()
        assert "Late" in get(kept, "/busy")
        raw = get(kept, "/gone", "--raw")
        assert raw.startswith("HTTP/1.1 404")
        assert raw.endswith("\r\n\r\nno such page")
        kept.command("site", "--index")


def test_what_is_not_there_is_said_in_a_line(kept: Kept) -> None:
    done = kept.command("site", "--get", f"{kept.origin}/private")
    assert_one_line(done, 1, "/private is not in this archive")
    assert_one_line(kept.command("none"), 1, "none: no crawl of that name has files")
    assert_one_line(kept.command("site", "--wacz", "x.zip"), 2, ".wacz")
    assert_one_line(kept.command("site", "--raw"), 2, "--get")


def test_a_wacz_is_as_its_specification_says(kept: Kept) -> None:
    target = kept.fleet.folder / "site.wacz"
    done = kept.command("site", "--wacz", str(target))
    assert done.returncode == 0, done.stderr
    with ZipFile(target) as wacz:
        manifest = json.loads(wacz.read("datapackage.json"))
        assert (manifest["profile"], manifest["wacz_version"]) == ("data-package", "1.1.1")
        listed = {one["path"]: one for one in manifest["resources"]}
        names = {*listed, "datapackage.json", "datapackage-digest.json"}
        assert set(wacz.namelist()) == names
        assert {f"archive/{path.name}" for path in kept.files} < names
        for path, one in listed.items():
            content = wacz.read(path)
            digest = f"sha256:{sha256(content).hexdigest()}"
            assert (one["bytes"], one["hash"]) == (len(content), digest)
        for info in wacz.infolist():
            assert info.compress_type == ZIP_STORED or not info.filename.endswith(".gz")
        digest = json.loads(wacz.read("datapackage-digest.json"))
        manifest_hash = sha256(wacz.read("datapackage.json")).hexdigest()
        assert digest == {"path": "datapackage.json", "hash": f"sha256:{manifest_hash}"}
        head, *pages = map(json.loads, wacz.read("pages/pages.jsonl").splitlines())
        lines = gzip.decompress(wacz.read("indexes/index.cdx.gz")).decode().splitlines()
        first, block = wacz.read("indexes/index.idx").decode().splitlines()
    assert head["format"] == "json-pages-1.0"
    titles = {one["url"].removeprefix(kept.origin): one.get("title") for one in pages}
    assert titles["/"] == "Home"
    assert titles["/packed"] == "Packed"
    assert "Twice & again" in titles.values()
    assert json.loads(first.partition("{")[1] + first.partition("{")[2])["filename"]
    assert block.startswith(lines[0].partition("{")[0].strip())
    assert len(lines) == len(kept.asked) + OF_NEWER


def get(kept: Kept, path: str, *options: str) -> str:
    done = kept.command("site", "--get", f"{kept.origin}{path}", *options)
    assert done.returncode == 0, done.stderr
    return done.stdout
