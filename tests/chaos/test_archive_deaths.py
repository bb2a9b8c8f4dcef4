"""Workers that are killed while they archive: every settled page has its record."""

from __future__ import annotations

from pathlib import Path

from crawlproj.output.archive import files, index, verifying
from tests.chaos.harness import trial


def test_every_settled_page_is_in_the_archive_though_workers_were_killed(tmp_path: Path) -> None:
    with trial(tmp_path) as crawl:
        points = ("written:3", "settle:5", "pushed:4")
        doomed = [crawl.start(failpoint=point, archive="true") for point in points]
        for worker in doomed:
            worker.process.wait(90)
        folder = crawl.fleet.output / "site" / "archive"
        # Whoever began to write after another had died has completed the file of that one.
        marked = [one for one in files.files_of(folder) if (folder / f".{one.name}.open").exists()]
        torn = marked[0]
        whole = torn.read_bytes()
        torn.write_bytes(whole + whole[: len(whole) // 3])  # a write that a kill has cut short
        verdict = verifying.verify(folder)
        assert [(one.file, one.is_torn) for one in verdict.problems] == [(torn.name, True)]

        crawl.start(archive="true")
        crawl.conclude()
        verdict = verifying.verify(folder)
        assert verdict.is_good, verdict.to_text()
        assert not list(folder.glob(".*"))
        archived = {entry.fields["url"] for entry in index.entries(files.files_of(folder))}
        assert set(crawl.fleet.urls()) <= archived
