"""Questions in SQL: answered from a crawl's files and from nothing else."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from crawlproj.errors import ConfigError
from crawlproj.items import utc_timestamp
from crawlproj.output import merge
from crawlproj.output.answers import write_csv, write_json, write_table
from crawlproj.output.kinds import KINDS
from crawlproj.output.merge import Wish
from crawlproj.output.query import Query, QueryError, QueryLimit
from crawlproj.output.refused import Refused, note_refused
from crawlproj.output.tables import TABLES, open_tables
from tests.unit.written_parts import as_csv, as_jsonl, failure, page

SECRET = "what nobody may read"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return written_in(tmp_path)


@pytest.fixture(scope="module")
def same_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For questions, which change nothing."""
    return written_in(tmp_path_factory.mktemp("crawl"))


def written_in(tmp_path: Path) -> Path:
    made = tmp_path / "site"
    made.mkdir()
    pages = [page("http://a/", 1, size=10), page("http://b/", 2, size=30, title="=x\x1b[2J")]
    (made / "pages-w1-0001.csv").write_bytes(as_csv(*pages))
    (made / "pages-w2-0001.csv").write_bytes(as_csv(page("http://b/", 9, status=404, size=30)))
    (made / "failures-w1-0001.csv").write_bytes(as_csv(failure("http://a/"), failure("http://c/")))
    link = {"target": "http://b/", "text": "b", "rel": ""}
    row = {"source": "http://a/", "fetched_at": utc_timestamp(1), "links": [link, link]}
    (made / "links-w1-0001.jsonl").write_bytes(as_jsonl(row))
    (tmp_path / "secret.csv").write_text(f"a\n{SECRET}\n")
    return made


def answered(folder: Path, sql: str, **limits: Any) -> list[tuple[Any, ...]]:
    with Query(sql, **limits).answer([folder]) as answer:
        return [row for batch in answer.batches for row in batch]


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT url, status FROM pages ORDER BY url", [("http://a/", 200), ("http://b/", 404)]),
        ("SELECT sum(size), max(epoch_ms(fetched_at)) FROM pages", [(40, 9000)]),
        ("SELECT url FROM failures", [("http://c/",)]),
        ("SELECT source, target, rel FROM links", [("http://a/", "http://b/", "")] * 2),
        ("SELECT count(*) FROM stats, attributes", [(0,)]),
        ("SELECT count(*) FROM query_table('pages')", [(2,)]),
        ("WITH x AS (FROM pages) SELECT count(*) FROM x -- all", [(2,)]),
        ("SELECT now() > TIMESTAMPTZ '2020-01-01'; ", [(True,)]),
    ],
)
def test_a_question_is_answered(same_folder: Path, sql: str, rows: list[tuple[Any, ...]]) -> None:
    assert answered(same_folder, sql) == rows


def test_every_table_is_there_with_its_columns_where_the_crawl_has_nothing(tmp_path: Path) -> None:
    for kind in KINDS:
        assert answered(tmp_path, f"SELECT * FROM {kind.name}") == []
        found = answered(tmp_path, f"DESCRIBE {kind.name}")
        columns = kind.table or kind.columns
        assert [(row[0], row[1].replace('"', "")) for row in found] == list(columns.items())
    assert {row[0] for row in answered(tmp_path, "SHOW TABLES")} == set(TABLES)


@pytest.mark.parametrize("formats", ["csv", "jsonl", "parquet", "csv,jsonl,parquet"])
def test_merged_files_alone_are_asked_like_parts(folder: Path, formats: str) -> None:
    merge.merge(folder, folder.parent / "merged", Wish(tuple(formats.split(","))))
    with open_tables(folder) as of_parts, open_tables(folder.parent / "merged") as of_merged:
        for name in TABLES:
            if (name, formats) != ("links", "csv"):  # which are of use with their parts alone
                sql = f"SELECT * FROM {name} ORDER BY ALL"
                assert of_parts.ask(sql) == of_merged.ask(sql)


def test_merged_parquet_is_asked_while_it_is_up_to_date(folder: Path) -> None:
    merge.merge(folder, folder, Wish(("parquet",)))
    sql = "SELECT count(*) FROM pages"
    with open_tables(folder) as tables:
        assert tables.ask(sql) == [(2,)]
        assert tables.ask("SELECT view_name FROM duckdb_views() WHERE NOT internal") == [("pages",)]
    (folder / "pages-w3-0001.csv").write_bytes(as_csv(page("http://new/")))
    with open_tables(folder) as tables:
        assert tables.ask(sql) == [(3,)]


ITEMS = [{"name": "b", "price": 2.5}, {"name": "a", "price": 1, "tags": ["x"]}]


def write_items(folder: Path) -> None:
    """The second was written twice, by a worker that died and by another."""
    for worker, items, leases in (("w1", ITEMS, "1 aa\n2 bb\n"), ("w2", ITEMS[1:], "3 bb\n")):
        part = folder / f"items-{worker}-0001.jsonl"
        part.write_bytes(as_jsonl(*items))
        part.with_suffix(".leases").write_text(leases)


@pytest.mark.parametrize("formats", [(), ("jsonl",), ("parquet",), ("csv", "jsonl", "parquet")])
def test_items_are_a_table_with_their_fields_in_which_each_is_once(
    tmp_path: Path, formats: tuple[str, ...]
) -> None:
    parts, merged_to = tmp_path / "things", tmp_path / "merged"
    parts.mkdir()
    write_items(parts)
    if formats:
        merge.merge(parts, merged_to, Wish(formats))
    sql = "SELECT name, price, tags[1] FROM items ORDER BY name"
    assert answered(merged_to if formats else parts, sql) == [("a", 1.0, "x"), ("b", 2.5, None)]


def test_items_that_make_no_columns_are_a_table_of_json(tmp_path: Path) -> None:
    (tmp_path / "items-w1-0001.jsonl").write_bytes(as_jsonl({"a": 1}, {"A": 2}))
    assert answered(tmp_path, "SELECT json->>'A' AS a FROM items ORDER BY a") == [("2",), (None,)]


HOSTILE = [
    "SELECT * FROM read_csv('{secret}')",
    "SELECT * FROM read_text('{secret}')",
    "SELECT * FROM read_blob('{secret}')",
    "SELECT * FROM read_json('{secret}')",
    "SELECT * FROM read_parquet('{secret}')",
    "SELECT * FROM parquet_metadata('{secret}')",
    "SELECT * FROM sniff_csv('{secret}')",
    "SELECT * FROM '{secret}'",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM read_csv('http://127.0.0.1:9/x')",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM query('FROM read_text(''{secret}'')')",
    "SELECT * FROM folder",
    "SELECT getenv('HOME')",
    "SELECT * FROM duckdb_secrets()",
    "COPY pages TO '{out}'",
    "COPY (SELECT 1) TO '{out}'",
    "COPY pages FROM '{secret}'",
    "EXPORT DATABASE '{out}'",
    "IMPORT DATABASE '{out}'",
    "ATTACH '{out}' AS other",
    "ATTACH ':memory:' AS other",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "SET lock_configuration = false",
    "SET memory_limit = '100GB'",
    "RESET memory_limit",
    "PRAGMA threads = 64",
    "PRAGMA database_list",
    "CALL pragma_version()",
    "CREATE TABLE mine (a INTEGER)",
    "CREATE TEMP TABLE mine AS FROM pages",
    "CREATE SECRET s (TYPE s3)",
    "CREATE MACRO f() AS 1",
    "INSERT INTO pages SELECT * FROM pages",
    "WITH gone AS (DELETE FROM pages RETURNING *) SELECT * FROM gone",
    "DELETE FROM pages",
    "DROP TABLE pages",
    "UPDATE pages SET url = ''",
    "CHECKPOINT",
    "VACUUM",
    "USE memory",
    "PREPARE p AS SELECT 1",
    "BEGIN TRANSACTION",
    "SELECT 1; DROP TABLE pages",
    "SELECT 1) TO '{out}' (FORMAT csv); --",
    "",
    "-- nothing",
]


@pytest.mark.parametrize("sql", HOSTILE)
def test_nothing_but_this_crawl_is_read_and_nothing_is_changed(same_folder: Path, sql: str) -> None:
    folder = same_folder
    out = folder.parent / "out"
    question = sql.format(secret=folder.parent / "secret.csv", out=out)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ConfigError) as caught:
        answered(folder, question)
    said = str(caught.value)
    assert "\n" not in said and SECRET not in said
    assert not out.exists()
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_the_file_of_a_table_can_not_be_written_to(folder: Path) -> None:
    merge.merge(folder, folder, Wish(("parquet",)))
    before = (folder / "pages.parquet").read_bytes()
    with open_tables(folder) as tables:
        tables.make_for("pages")
        (writable := tables.folder / "written").mkdir()
        with tables.sealed(writable) as connection:
            [(paths,)] = connection.execute("SELECT current_setting('allowed_paths')").fetchall()
            [link] = [path for path in paths if path.endswith(".parquet")]
            assert connection.execute("SELECT count(*) FROM pages").fetchall() == [(2,)]
            for option in ("", "(USE_TMP_FILE false)"):
                with pytest.raises(Exception, match="disabled"):
                    connection.execute(f"COPY (SELECT 1) TO '{link}x' {option}")
    assert (folder / "pages.parquet").read_bytes() == before


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT * FROM pagess", "no table pagess, did you mean pages? There are pages, failures"),
        ("SELECT * FROM zebra", "no table zebra; there are pages, failures, stats, links"),
        ("SELECT titel FROM pages", '"titel" not found in FROM clause! Candidate bindings: "title'),
        ("SELEC url FROM pages", 'syntax error at or near "SELEC": write SELECT … FROM pages'),
        ("SELECT url FROM pages WHERE status = 'x'", "Could not convert string 'x'"),
    ],
)
def test_what_is_wrong_with_a_question_is_said_in_one_line(
    same_folder: Path, sql: str, said: str
) -> None:
    with pytest.raises(QueryError) as caught:
        answered(same_folder, sql)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_question_ends_when_its_time_is_up(folder: Path) -> None:
    endless = "SELECT sum(a.range * b.range) FROM range(1e9::BIGINT) a, range(9) b"
    with pytest.raises(QueryLimit, match=r"no answer within 0.2 s: ask for less"):
        answered(folder, endless, timeout_s=0.2)


def test_a_question_that_takes_more_memory_than_it_may_is_said_so(folder: Path) -> None:
    rows = "SELECT repeat(range::VARCHAR, 9) AS x FROM range(3000000)"
    with pytest.raises(QueryLimit, match="too much for 100 MB"):
        answered(folder, f"SELECT length(string_agg(x)) FROM ({rows})", memory_mb=100)


def written(folder: Path, sql: str, write: Any, *more: Any) -> str:
    text = io.StringIO(newline="")
    with Query(sql).answer([folder]) as answer:
        write(answer, text, *more)
    return text.getvalue()


EVERY = (
    "SELECT title, size, fetched_at, [1.5, NULL] AS list, 0.5::DECIMAL AS d FROM pages ORDER BY 2"
)


def test_an_answer_is_a_table_a_csv_or_json(folder: Path) -> None:
    (folder / "pages-w2-0001.csv").unlink()
    rows = json.loads(written(folder, EVERY, write_json))
    assert rows[1] == {
        "title": "=x\x1b[2J",
        "size": 30,
        "fetched_at": "1970-01-01T00:00:02.000Z",
        "list": [1.5, None],
        "d": 0.5,
    }
    cells = list(csv.reader(io.StringIO(written(folder, EVERY, write_csv), newline="")))
    assert cells[2] == ["'=x\x1b[2J", "30", "1970-01-01T00:00:02.000Z", "[1.5, null]", "0.500"]
    table = written(folder, EVERY, write_table, lambda text: text.replace("\x1b", "?"))
    assert "\x1b" not in table
    assert table.splitlines()[0].split() == ["title", "size", "fetched_at", "list", "d"]
    assert written(folder, "SELECT * FROM stats", write_json) == "[]\n"


def test_columns_that_are_called_the_same_are_all_in_json(same_folder: Path) -> None:
    out = io.StringIO()
    sql = "SELECT 1 AS url, 2 AS url, 3 AS url_1, 4 AS url"
    with Query(sql).answer([same_folder]) as answer:
        write_json(answer, out)
    assert json.loads(out.getvalue()) == [{"url": 1, "url_1": 2, "url_1_1": 3, "url_2": 4}]


def test_merged_parquet_lacks_what_was_written_while_it_was_made(folder: Path) -> None:
    part = folder / "pages-w1-0001.csv"

    def watch(step: str, _: object) -> None:
        if step.startswith("Writing"):  # the crawl goes on
            with part.open("ab") as file:
                file.write(as_csv(page(f"http://{step}/", 3), header=False))

    merge.merge(folder, folder, Wish(("parquet",)), watch=watch)
    count = answered(folder, "SELECT count(*) FROM pages")
    (folder / "pages.parquet").unlink()
    assert answered(folder, "SELECT count(*) FROM pages") == count


def test_parquet_of_an_earlier_merge_is_not_asked_where_only_merged_files_are_left(
    folder: Path,
) -> None:
    merge.merge(folder, folder, Wish(("csv", "parquet")))
    (folder / "pages-w3-0001.csv").write_bytes(as_csv(page("http://later/", 3)))
    merge.merge(folder, folder)
    for part in folder.glob("*-*-0001.*"):
        part.unlink()
    assert answered(folder, "SELECT count(*) FROM pages") == [(3,)]
    (folder / "manifest.json").unlink()
    (folder / "pages.csv").unlink()
    (folder / "pages.jsonl").unlink()
    assert answered(folder, "SELECT count(*) FROM pages") == [(2,)]


def test_merged_parquet_is_out_of_date_once_a_lease_was_refused(tmp_path: Path) -> None:
    for lease, worker in enumerate(("w1", "w2"), 1):
        row = page("http://a/", lease, lease=lease, worker=worker)
        (tmp_path / f"pages-{worker}-0001.csv").write_bytes(as_csv(row))
    merge.merge(tmp_path, tmp_path, Wish(("parquet",)))
    note_refused(tmp_path, "w2", [Refused("http://a/", 2)])
    assert answered(tmp_path, "SELECT worker FROM pages") == [("w1",)]


def test_an_answer_is_written_as_parquet(folder: Path) -> None:
    out = folder.parent / "answer.parquet"
    assert Query("SELECT url FROM pages ORDER BY url; -- all").write_parquet([folder], out) == 2
    [kept] = [one for one in folder.parent.iterdir() if "answer" in one.name]
    assert kept.read_bytes()[:4] == b"PAR1"


def test_nothing_is_left_of_an_answer_that_could_not_be_put_in_its_place(folder: Path) -> None:
    out = folder.parent / "answer.parquet"
    out.mkdir()
    with pytest.raises(IsADirectoryError):
        Query("SELECT url FROM pages").write_parquet([folder], out)
    assert [one for one in folder.parent.iterdir() if "answer" in one.name] == [out]


def test_a_running_crawl_is_asked_for_whole_rows(folder: Path) -> None:
    with (folder / "pages-w1-0001.csv").open("ab") as part:
        part.write(as_csv(page("http://half/"), header=False)[:-30])
    assert answered(folder, "SELECT count(*) FROM pages") == [(2,)]
