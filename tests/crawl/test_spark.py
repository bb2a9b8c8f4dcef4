"""The recipe for Spark on its page gives the rows that `scrapy merge` gives.

Not run with the others: `make spark`, which installs PySpark, for which Java must be there.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb
import pytest

from crawlproj.items import utc_timestamp
from crawlproj.output import merge
from crawlproj.output.archive.files import ArchiveFiles, files_of
from crawlproj.output.archive.records import Capture
from crawlproj.output.merge import Wish
from tests.unit.written_parts import as_csv, as_jsonl, failure, page

pytestmark = pytest.mark.spark
PROJECT = Path(__file__).parents[2]
PROGRAM = re.compile(r"<!-- file: merge_spark.py -->\n```python\n(.*?)```", re.DOTALL)
SPARK_S = 300
NUMBERS = {"depth": 1, "priority": 0.5, "size": 10, "links": 2, "elapsed_ms": 5}
TITLES = [
    *("=HYPERLINK(1)", "'=1", "'quoted'", 'a "b", c', "two\nlines\r\n", "nul\0"),
    *("שלום \u202e", "🙂", "a\u2028b\u0085c", "", '{"url": "http://forged/"}', "back\\slash\\"),
]
PARQUET = Wish(formats=("parquet",))
TABLES = ("pages", "failures", "attributes")


def row(url: str, second: int = 0, lease: int = 1, **changes: Any) -> dict[str, Any]:
    return page(url, second, **NUMBERS, lease=lease, **changes)


def failed(url: str, second: int = 0, **changes: Any) -> dict[str, Any]:
    return failure(url, second) | {"status": 0, "depth": 1, "attempts": 3} | changes


def attributes(url: str, second: int, **changes: Any) -> dict[str, Any]:
    return {
        "url": url,
        "title": "A title",
        "text": "",
        "videos": ["http://v/"],
        "structured": {"json_ld": [{"url": "http://forged/", "fetched_at": utc_timestamp(99)}]},
        "fetched_at": utc_timestamp(second),
    } | changes


def write_parts(here: Path, there: Path) -> None:
    """What two machines left: rows in two leases, torn ones, zeros, failures that were mended."""
    odd = [row(f"http://odd/{n}", n, title=title) for n, title in enumerate(TITLES)]
    torn = as_jsonl(row("http://torn/", 5))
    glued = torn[:60] + as_jsonl(row("http://after-torn/", 6))
    zeros = b"\0" * 50 + as_jsonl(row("http://after-zeros/", 7))
    files = {
        here / "pages-w1-0001.jsonl": as_jsonl(*odd, row("http://twice/", 9, lease=1)) + torn[:-30],
        here / "pages-w1-0002.jsonl": glued + zeros,
        # Its clock is behind, and its lease is the last.
        there / "pages-w2-0001.jsonl": as_jsonl(
            row("http://twice/", 3, lease=7, title="settled"),
            row("http://mended/", 20),
            row("http://gone/", 21, status=404),
            row("http://failed-after/", 1),
        ),
        here / "failures-w1-0001.csv": as_csv(
            failed("http://mended/", 10), failed("http://gone/", 10), failed("http://dead/", 10)
        )
        + as_csv(failed("http://cut/"), header=False)[:-3],
        there / "failures-w2-0001.csv": as_csv(
            failed("http://dead/", 30),
            failed("http://failed-after/", 5),
            failed("http://forgot/", 5),
        ),
        there / "failures-w2-0002.csv": as_csv(failed("http://dead/", 1))
        + b"\0" * 50
        + as_csv(failed("http://dead-after-zeros/", 2), header=False),
        there / "forgotten-1.csv": as_csv(
            {"url": "http://forgot/", "forgotten_at": utc_timestamp(6), "request": ""}
        ),
        here / "attributes-w1-0001.jsonl": as_jsonl(
            attributes("http://twice/", 1), attributes("http://odd/1", 1, title=None)
        )
        + b'{"url": "http://torn/", "tit',
        there / "attributes-w2-0001.jsonl": as_jsonl(
            attributes("http://twice/", 4, text="later\u2028\n")
        ),
    }
    for path, content in (files | of_leases(here, there)).items():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)


def of_leases(here: Path, there: Path) -> dict[Path, bytes]:
    """Rows of which leases say what the clocks of their workers do not."""
    post = {"request": "0123456789abcdef"}
    refused = {"url": "http://outrun/", "lease": 6, "worker": "w1", "refused_at": utc_timestamp(60)}
    return {
        here / "pages-w1-0003.jsonl": as_jsonl(
            row("http://clock-behind/", 3, lease=9),
            row("http://lost/", 40, lease=2),
            row("http://posted/", 3, lease=3),
            row("http://outrun/", 50, lease=6, title="refused"),
        ),
        here / "failures-w1-0003.csv": as_csv(
            failed("http://dead-twice/", 90, lease=1, reason="first"),
            failed("http://outrun/", 59, lease=7, worker="w1"),
        ),
        here / "refused-w1.csv": as_csv(refused),
        there / "pages-w2-0003.jsonl": as_jsonl(
            row("http://outrun/", 49, lease=5, title="settled"),
            row("http://unchanged/", 1, lease=1),
            row("http://unchanged/", 2, lease=4, status=304),
        ),
        there / "failures-w2-0003.csv": as_csv(
            failed("http://clock-behind/", 30, lease=4),
            failed("http://lost/", 5, lease=4),
            failed("http://posted/", 5, lease=8, **post),
            failed("http://dead-twice/", 20, lease=2, reason="last"),
        ),
        there / "attributes-w2-0003.jsonl": as_jsonl(
            attributes("http://clock-behind/", 90, lease=4),
            attributes("http://posted/", 3, lease=3, problem="took too long"),
        ),
    }


def spark(folder: Path, *args: str | Path) -> None:
    """Run the program of the page, as the page says."""
    if not find_spec("pyspark") or not shutil.which("java"):
        pytest.skip("needs PySpark and Java: make spark")
    program = PROGRAM.search((PROJECT / "docs/spark.md").read_text(encoding="utf-8"))
    assert program
    (folder / "merge_spark.py").write_text(program[1], encoding="utf-8")
    local = ["--master", "local[1]", "--conf", "spark.ui.enabled=false"]
    local += ["--conf", "spark.sql.shuffle.partitions=2", "--conf", "spark.driver.host=127.0.0.1"]
    done = subprocess.run(
        [sys.executable, "merge_spark.py", *args],
        cwd=folder,
        env={
            **os.environ,
            "PYSPARK_SUBMIT_ARGS": f"{' '.join(local)} pyspark-shell",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(PROJECT),
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        capture_output=True,
        text=True,
        timeout=SPARK_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]


def rows_of(files: Path, order: str = "url") -> list[dict[str, Any]]:
    """In order, with times in UTC and JSON as what it means."""
    found = duckdb.sql(f"SET TimeZone = 'UTC'; FROM read_parquet('{files}') ORDER BY {order}")
    rows = [dict(zip(found.columns, values, strict=True)) for values in found.fetchall()]
    for one in rows:
        if one.get("structured"):
            one["structured"] = json.loads(one["structured"])
    return rows


def write_archive(folder: Path) -> None:
    """With a page that is packed, one that is no page, and a torn end."""
    body = gzip.compress(b"<html lang=de><title>Archiv</title><meta name=author content=Eva>")
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n\r\n"
    missing = b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n\r\n"
    archive = ArchiveFiles(folder, "site", "w1", {}, rotate_bytes=1e9, originals=None)
    for path, *answer in (("/kept", head, body), ("/missing", missing, b"nothing")):
        asked = f"GET {path} HTTP/1.1\r\nHost: a.example\r\n\r\n".encode()
        url = f"http://a.example{path}"
        archive.add(Capture(url, 1_795_000_000, asked, *answer, "192.0.2.1", "HTTP/1.1"))
    archive.save()
    archive.close()
    (file,) = files_of(folder)
    with file.open("ab") as end:
        end.write(file.read_bytes()[:100])


def test_spark_gives_the_rows_of_merge_from_parts_and_from_merged_parquet(tmp_path: Path) -> None:
    here, there, sent = tmp_path / "here", tmp_path / "there", tmp_path / "sent"
    write_parts(here, there)
    merge.merge([here, there], tmp_path / "merged", PARQUET)
    spark(tmp_path, here, there, "-o", tmp_path / "of-parts")
    # One machine has merged its own before, and sends that alone.
    merge.merge(there, sent, PARQUET)
    shutil.copy(there / "forgotten-1.csv", sent)
    write_archive(here / "archive")
    spark(tmp_path, here, sent, "-o", tmp_path / "of-both", "--archive")
    archived = {}
    for table in TABLES:
        expected = rows_of(tmp_path / f"merged/{table}.parquet")
        assert len(expected) >= 2
        assert rows_of(tmp_path / f"of-parts/{table}/*.parquet") == expected, table
        of_both = rows_of(tmp_path / f"of-both/{table}/*.parquet")
        archived |= {one["url"]: one for one in of_both if one not in expected}
        assert [one for one in of_both if one["url"] not in archived] == expected, table
    assert list(archived) == ["http://a.example/kept"]
    kept = archived["http://a.example/kept"]
    assert (kept["title"], kept["author"], kept["language"]) == ("Archiv", "Eva", "de")
    hosts = {one["host"]: one for one in rows_of(tmp_path / "of-parts/hosts/*.parquet", "host")}
    assert (hosts["odd"]["pages"], hosts["odd"]["without_title"]) == (len(TITLES), 1)
    assert hosts["gone"]["errors"] == 1
