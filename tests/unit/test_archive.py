"""WARC records, files and their index: what is written, what is made of what is damaged."""

from __future__ import annotations

import gzip
import io
import os
from dataclasses import replace
from pathlib import Path

import pytest
import surt as theirs  # type: ignore[import-untyped]
from isal import igzip
from warcio.archiveiterator import ArchiveIterator  # type: ignore[import-untyped]

from crawlproj.output import folder
from crawlproj.output.archive import files, index, lookup, reading, records, verifying
from crawlproj.output.archive.files import ArchiveFiles
from crawlproj.output.archive.records import Capture, Original
from crawlproj.output.archive.surt import surt

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
AT_S = 1_795_000_000

URLS = [
    "http://example.com",
    "http://www.example.com/",
    "https://www2.Example.com:443/A/b/../C/?b=2&a=1",
    "http://example.com:8080/x",
    "http://127.0.0.1:8000/p?x",
    "http://example.com/a%20b/%C3%A9?q=%41+%2520",
    "http://example.com/?",
    "http://example.com/?&&a",
    "http://example.com//a//b//",
    "http://u:p@example.com/x#f",
    "http://example.com/x;jsessionid=0123456789abcdef0123456789abcdef",
    "http://[2001:db8::1]/x",
    "http://example.com/x?phpsessid=0123456789abcdef0123456789abcdef&b=1",
    "http://[::1]:80/x",
    "http://example.com/x?a=1&sid=0123456789abcdef0123456789abcdef",
    "http://xn--bcher-kva.example/",
    "http://example.com/(a(123456789012345678901234))/page.aspx",
    "http://example.com/a?b=c=d&b&b=",
    "http://example.com/./a/../../b",
    "http://www.co.uk/",
    "http://example.com./x",
    "http://example.com/a/.",
    "http://example.com/a%2Fb%00",
    "http://example.com/%",
    "http://www/x",
    "http://wwwfoo.example/x",
    "http://example.com/a%23b?c%23d",
    "http://example.com/a/..",
    "http://example.com/a?B=%26&a=%3D",
]


class Known:
    """Originals as a crawl has them."""

    def __init__(self) -> None:
        self.found: dict[bytes, Original] = {}

    def find(self, digests: list[bytes]) -> dict[bytes, Original]:
        return {one: self.found[one] for one in digests if one in self.found}

    def keep(self, found: dict[bytes, Original]) -> None:
        self.found.update(found)


def capture(path: str = "/", body: bytes = b"x" * 600, head: bytes = HEAD) -> Capture:
    asked = f"GET {path} HTTP/1.1\r\nHost: a.example\r\n\r\n".encode()
    return Capture(f"http://a.example{path}", AT_S, asked, head, body, "192.0.2.1", "HTTP/1.1")


def archive(place: Path, known: Known | None = None, rotate: float = 1e9) -> ArchiveFiles:
    about = {"software": "test"}
    return ArchiveFiles(place, "site", "w1", about, rotate_bytes=rotate, originals=known)


def written(place: Path, *captures: Capture, known: Known | None = None) -> Path:
    """A complete file with these."""
    own = archive(place, known)
    for one in captures:
        own.add(one)
    own.save()
    own.close()
    return files.files_of(place)[-1]


def types(path: Path) -> list[str]:
    with path.open("rb") as file:
        return [record.rec_type for record in ArchiveIterator(file, check_digests="raise")]


@pytest.mark.parametrize("url", URLS)
def test_a_url_has_the_key_that_others_give_it(url: str) -> None:
    assert surt(url) == theirs.surt(url)


@pytest.mark.parametrize("url", ["", "http://[", "http://a:x/", "a b\nc", "\ud800", "mailto:a@b"])
def test_what_is_no_url_is_a_key_of_one_word(url: str) -> None:
    assert len(surt(url).split()) <= 1
    assert surt(url).isascii()


def test_newer_versions_of_http_are_written_in_the_words_of_http_1() -> None:
    head = b"HTTP/2 404 \r\ncontent-type: text/html\r\n\r\n"
    plain = gzip.decompress(records.exchange(capture(head=head), bytes(32), None))
    assert b"\r\n\r\nHTTP/1.1 404 Not Found\r\ncontent-type: text/html\r\n\r\nxxx" in plain


def test_an_answer_that_nothing_has_changed_is_a_revisit() -> None:
    head = b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n"
    plain = gzip.decompress(records.exchange(capture(body=b"", head=head), bytes(32), None))
    assert b"WARC-Type: revisit\r\n" in plain
    assert b"/server-not-modified\r\n" in plain


def test_a_url_cannot_bring_in_a_header() -> None:
    evil = Original("http://a.example/\r\nWARC-Type: response", AT_S)
    plain = gzip.decompress(records.exchange(capture("/\r\nX: y"), bytes(32), evil))
    assert b"\nX: y" not in plain.partition(b"HTTP/1.1")[0]
    assert plain.count(b"\nWARC-Type:") == 2


def test_files_are_rotated_by_size_and_each_is_complete(tmp_path: Path) -> None:
    own = archive(tmp_path, rotate=1)
    for number in range(3):
        own.add(capture(f"/{number}"))
        own.save()
    own.close()
    found = files.files_of(tmp_path)
    assert [types(path) for path in found] == [["warcinfo", "response", "request"]] * 3
    assert sorted(tmp_path.iterdir()) == found


def test_a_payload_is_told_of_only_once_it_is_on_disk(tmp_path: Path) -> None:
    known = Known()
    own = archive(tmp_path, known)
    own.add(capture("/a"))
    assert not known.found
    own.save()
    assert [one.url for one in known.found.values()] == ["http://a.example/a"]
    (path,) = files.files_of(tmp_path)
    assert types(path) == ["warcinfo", "response", "request"]
    own.close()


def test_a_payload_that_another_worker_has_met_is_a_revisit(tmp_path: Path) -> None:
    known = Known()
    written(tmp_path / "one", capture("/a"), known=known)
    path = written(tmp_path / "two", capture("/b"), capture("/c", b"y" * 600), known=known)
    assert types(path) == ["warcinfo", "revisit", "request", "response", "request"]


def test_small_and_truncated_payloads_are_no_revisits(tmp_path: Path) -> None:
    cut = Capture("http://a.example/", AT_S, b"", HEAD, b"x" * 600, truncated="length")
    small = capture(body=b"small")
    path = written(tmp_path, small, small, cut, cut, known=Known())
    assert types(path).count("response") == 4


def test_a_disk_that_fails_costs_nothing(tmp_path: Path) -> None:
    place = tmp_path / "archive"
    place.write_bytes(b"in the way")
    own = archive(place)
    own.add(capture())
    with pytest.raises(OSError, match="exists"):
        own.save()
    place.unlink()
    own.save()
    own.close()
    assert types(files.files_of(place)[0]) == ["warcinfo", "response", "request"]


@pytest.mark.parametrize("fails_at", ["asked", "/a", "/b"])
def test_what_an_error_kept_from_being_written_is_written_by_the_next_saving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: str
) -> None:
    class Asked(Known):
        def find(self, digests: list[bytes]) -> dict[bytes, Original]:
            if fails_at == "asked":
                raise MemoryError
            return super().find(digests)

    def exchange(one: Capture, digest: bytes, original: Original | None) -> bytes:
        if one.url.endswith(fails_at):
            raise MemoryError
        return made(one, digest, original)

    made = records.exchange
    monkeypatch.setattr(records, "exchange", exchange)
    own = archive(tmp_path, Asked())
    for path in ("/a", "/b", "/c"):
        own.add(capture(path, path.encode() * 600))
    with pytest.raises(MemoryError):
        own.save()
    fails_at = "nothing"
    own.save()
    own.close()
    (path_of_all,) = files.files_of(tmp_path)
    assert types(path_of_all) == ["warcinfo", *["response", "request"] * 3]
    urls = [entry.fields["url"] for entry in index.entries([path_of_all])]
    assert urls == [f"http://a.example/{name}" for name in "abc"]


def test_what_waits_for_the_disk_is_bounded(tmp_path: Path) -> None:
    own = archive(tmp_path)
    body = bytes(files.MOST_WAITING_BYTES // 2)
    own.add(capture("/a", body))
    assert not own.is_behind
    own.add(capture("/b", body))
    assert own.is_behind
    own.save()
    assert not own.is_behind
    own.close()


def test_a_torn_tail_is_named_left_out_and_cut_once_its_worker_is_gone(tmp_path: Path) -> None:
    own = archive(tmp_path)
    own.add(capture("/a"))
    own.add(capture("/b", os.urandom(5000)))
    own.save()
    (path,) = files.files_of(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-900])  # its last member, a request, and some of the response

    assert files.is_being_written(path)
    assert verifying.verify(tmp_path).is_good
    assert files.cut_torn_tails(tmp_path) == {}

    own.close()  # a killed worker has no lock either, and leaves its mark
    (tmp_path / f".{path.name}.open").touch()
    path.write_bytes(whole[:-900])
    verdict = verifying.verify(tmp_path)
    (problem,) = verdict.problems
    assert (problem.file, problem.is_torn, verdict.torn) == (path.name, True, 1)
    urls = [entry.fields["url"] for entry in index.entries([path])]
    assert urls == ["http://a.example/a"]
    assert files.cut_torn_tails(tmp_path) == {path: problem.offset}
    assert path.stat().st_size == problem.offset
    assert verifying.verify(tmp_path).is_good
    assert types(path) == ["warcinfo", "response", "request"]


def test_damage_in_the_middle_is_named_and_reading_goes_on(tmp_path: Path) -> None:
    path = written(tmp_path, *(capture(f"/{number}", os.urandom(2000)) for number in range(3)))
    entries = list(index.entries([path]))
    offset = int(entries[1].fields["offset"])
    data = bytearray(path.read_bytes())
    data[offset + 900] ^= 255
    path.write_bytes(data)
    verdict = verifying.verify(tmp_path)
    assert (verdict.problems[0].offset, verdict.problems[0].is_torn) == (offset, False)
    left = [entry.fields["url"] for entry in index.entries([path])]
    assert left == ["http://a.example/0", "http://a.example/2"]


def forged(**changed: str) -> bytes:
    fields = {
        "WARC-Type": "response",
        "WARC-Record-ID": "<urn:uuid:x>",
        "WARC-Target-URI": "http://a.example/",
        "WARC-Date": "2026-11-17T00:00:00Z",
        "WARC-Payload-Digest": "",
        "Content-Length": str(len(HEAD)),
    } | {name.replace("_", "-"): value for name, value in changed.items()}
    text = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value)
    return gzip.compress(b"WARC/1.1\r\n" + text.encode() + b"\r\n" + HEAD + b"\r\n\r\n")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (forged(WARC_Payload_Digest="sha256:" + "0" * 64), "payload digest"),
        (forged(WARC_Payload_Digest="sha9:00000000"), "payload digest"),
        (forged(WARC_Block_Digest="sha1:" + "A" * 32), "block digest"),
        (forged(WARC_Date="yesterday"), "no time"),
        (forged(WARC_Target_URI=""), "no WARC-Target-URI"),
        (forged(WARC_Type="request"), "not joined"),
        (forged(Content_Length="3"), "more follows"),
        (forged(Content_Length="-3"), "no Content-Length"),
        (forged(Content_Length="999999999999999"), "shorter than"),
        (gzip.compress(b"WARC/1.1\r\n" + b"x" * 200_000), "do not end"),
        (gzip.compress(b"something else"), "no WARC record"),
        (igzip.compress(bytes(50_000_000)), "no WARC record"),
        (b"\x1f\x8b\x08 nothing", "gzip is damaged"),
        (b"not even packed", "gzip is damaged"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_with_a_record_is_named(tmp_path: Path, data: bytes, said: str) -> None:
    good = written(tmp_path, capture())
    size = good.stat().st_size
    good.write_bytes(good.read_bytes() + data + forged())
    verdict = verifying.verify(tmp_path)
    assert not verdict.is_good
    assert (verdict.problems[0].offset, said in verdict.problems[0].what) == (size, True)


def test_an_empty_file_and_an_empty_archive_are_read(tmp_path: Path) -> None:
    (tmp_path / "x.warc.gz").touch()
    assert verifying.verify(tmp_path).files == 1
    assert index.write_index(tmp_path) == 0
    with pytest.raises(lookup.NotThere):
        lookup.find(tmp_path, "http://a.example/")


def test_an_index_leads_to_no_file_outside_of_its_archive(tmp_path: Path) -> None:
    written(tmp_path, capture())
    written(tmp_path.parent / "outside", capture(body=b"secret"))
    secret = files.files_of(tmp_path.parent / "outside")[0]
    line = index.Entry(
        surt("http://a.example/"),
        "2",
        {"url": "http://a.example/", "offset": "0", "filename": f"../outside/{secret.name}x"},
    )
    (tmp_path / index.NAME).write_text(line.to_line())
    with pytest.raises(FileNotFoundError):
        lookup.find(tmp_path, "http://a.example/")


def test_more_lines_than_fit_are_sorted(tmp_path: Path) -> None:
    lines = [f"{number * 7919 % 1000:04}\n" for number in range(1000)] * 2
    found = list(index.sorted_lines(lines, tmp_path, run_bytes=20))
    assert found == sorted(set(lines))
    assert not list(tmp_path.iterdir())


def test_every_url_is_found_by_a_current_index(tmp_path: Path) -> None:
    paths = [f"/{number:03}{'x' * (number % 90)}" for number in range(200)]
    written(tmp_path, *(capture(path, path.encode()) for path in paths))
    index.write_index(tmp_path)
    assert index.state_of(tmp_path) == "current"
    for path in paths:
        assert lookup.find(tmp_path, f"http://a.example{path}").payload() == path.encode()


def test_what_had_not_changed_is_the_newest_page_before_however_that_was_packed(
    tmp_path: Path,
) -> None:
    packed = HEAD.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n")
    unchanged = b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n"
    said = [(HEAD, b"old"), (packed, gzip.compress(b"new")), (unchanged, b""), (unchanged, b"")]
    captures = [
        replace(capture("/", body, head), at_s=AT_S + number)
        for number, (head, body) in enumerate(said)
    ]
    later = replace(capture("/", b"later"), at_s=AT_S + 9)
    written(tmp_path, *captures, capture("/other", b"", unchanged))
    assert lookup.find(tmp_path, "http://a.example/").payload() == b"new"
    index.write_index(tmp_path)
    assert lookup.find(tmp_path, "http://a.example/").payload() == b"new"
    with pytest.raises(lookup.NotThere, match="had not changed since a page that is not in this"):
        lookup.find(tmp_path, "http://a.example/other")
    written(tmp_path, later)
    assert lookup.find(tmp_path, "http://a.example/").payload() == b"later"


def test_only_a_line_feed_ends_a_header() -> None:
    head = b"HTTP/1.1 200 OK\r\nX-Name: a\x85Content-Encoding: br\x0bETag: y\r\nETag: z\r\n\r\n"
    found = reading.parsed(head).headers
    assert "content-encoding" not in found and found["etag"] == "z"


def test_what_was_archived_while_an_index_was_made_is_found(tmp_path: Path) -> None:
    own = archive(tmp_path)
    own.add(capture("/early"))
    own.save()
    written(tmp_path, capture("/other"))
    first, second = files.files_of(tmp_path)
    for path in (first, second):
        os.utime(path, (1, 1))

    def watch(step: str, _: object) -> None:
        if step.endswith(second.name):  # the first was read
            own.add(capture("/late", b"late"))
            own.save()

    assert index.write_index(tmp_path, watch) == 2
    assert index.state_of(tmp_path) == "old"
    assert lookup.find(tmp_path, "http://a.example/late").payload() == b"late"
    own.close()
    assert index.write_index(tmp_path) == 3
    assert index.state_of(tmp_path) == "current"


def test_a_record_is_read_in_pieces(tmp_path: Path) -> None:
    path = written(tmp_path, capture(body=bytes(10_000_000)))
    with path.open("rb") as file:
        sizes = [len(piece) for found in reading.walk(file) for piece in pieces(found)]
    assert sum(sizes) > 10_000_000
    assert max(sizes) <= 2 * reading.PIECE


def pieces(found: reading.Record | reading.Damage) -> list[bytes]:
    assert isinstance(found, reading.Record)
    return list(iter(found.read, b""))


def test_a_file_without_end_is_read_as_far_as_it_goes() -> None:
    data = forged() + forged()[:-9]
    found = list(reading.walk(io.BytesIO(data)))
    assert isinstance(found[-1], reading.Damage)
    assert found[-1].is_torn


def test_the_archive_of_an_earlier_crawl_is_moved_aside_with_its_files(tmp_path: Path) -> None:
    folder.prepare(tmp_path, "first")
    path = written(tmp_path / folder.ARCHIVE, capture())
    folder.prepare(tmp_path, "first")
    assert path.exists()
    folder.prepare(tmp_path, "second")
    assert not (tmp_path / folder.ARCHIVE).exists()
    assert (tmp_path / "earlier-first" / folder.ARCHIVE / path.name).exists()
