"""The metrics of crawls, as Prometheus reads them: bounded, escaped, and all documented."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from crawlproj.operate.crawl_metrics import MOST_VALUES, OTHER, exposition, families
from crawlproj.operate.exposition import Family, Histogram, text
from crawlproj.operate.host_status import HostStatus
from crawlproj.operate.status import MemoryStatus, Status
from crawlproj.operate.worker_status import WorkerStatus

PAGE = Path(__file__).parents[2] / "docs/monitoring.md"
WORKER = WorkerStatus("w", "machine", 1, True, 1.0, 3, 10, 2.0, 5000, 0)
NOW = Status(
    crawl="site",
    epoch="e",
    state="running",
    discovered=10,
    queued=4,
    done=3,
    dead=2,
    filtered={"robots": 1},
    statuses={"200": 3},
    reasons={"http_500": 2},
    workers=(WORKER, replace(WORKER, name="x", missed=1), replace(WORKER, name="y", alive=False)),
    hosts_by_doing={"works": 1},
    memory=MemoryStatus(100, 1000, 0.1),
    slowest=(HostStatus("http://a", 3, queued=4),),
    held=(HostStatus("http://b", 0, held=True, held_s=60.0),),
)


def samples(*crawls: Status | str) -> dict[str, float]:
    lines = exposition(crawls).splitlines()
    return {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))
    }


def test_the_ledger_the_workers_and_the_state_are_told() -> None:
    found = samples(NOW)
    assert found['crawl_urls{crawl="site",state="queued"}'] == 4
    assert found['crawl_urls{crawl="site",state="filtered"}'] == 1
    assert found['crawl_pages_total{crawl="site"}'] == 3
    assert found['crawl_state{crawl="site",state="running"}'] == 1
    assert found['crawl_state{crawl="site",state="paused"}'] == 0
    for state in ("alive", "late", "silent"):
        assert found[f'crawl_workers{{crawl="site",state="{state}"}}'] == 1
    assert found['crawl_host_held_seconds{crawl="site",host="http://b"}'] == 60
    assert found["crawl_redis_memory_limit_bytes"] == 1000


def test_labels_are_bounded_and_the_rest_is_told_together() -> None:
    many = {f"http_{code}": 1 for code in range(1000)}
    found = samples(replace(NOW, reasons=many, statuses=many, filtered=many))
    for name, label in (("dead_letters", "reason"), ("responses_total", "status")):
        lines = [one for one in found if one.startswith(f"crawl_{name}{{")]
        assert len(lines) == MOST_VALUES + 1
        rest = f'crawl_{name}{{crawl="site",{label}="{OTHER}"}}'
        assert found[rest] == 1000 - MOST_VALUES


def test_no_metric_has_a_url_for_a_label() -> None:
    labels = {name for family in families([NOW], 1) for _, one, _ in family.samples for name in one}
    assert labels <= {"crawl", "state", "reason", "status", "kind", "host", "doing"}


def test_text_from_elsewhere_cannot_become_another_sample() -> None:
    hostile = 'x"} 1\ncrawl_done{y="\\'
    found = exposition([replace(NOW, crawl=hostile)])
    assert all(line.startswith(("#", "crawl_")) for line in found.splitlines())
    assert 'crawl="x\\"} 1\\ncrawl_done{y=\\"\\\\"' in found


def test_several_crawls_and_a_damaged_one_stand_beside_each_other() -> None:
    found = samples(NOW, replace(NOW, crawl="docs", done=7), "broken")
    assert found['crawl_pages_total{crawl="docs"}'] == 7
    assert found["crawl_crawls"] == 3
    assert exposition([NOW, NOW]).count("# TYPE crawl_pages_total") == 1


def test_a_histogram_counts_up_to_each_bound() -> None:
    histogram = Histogram([0.1, 1])
    for value in (0.05, 0.1, 0.5, 5):
        histogram.observe(value)
    family = Family("h", "histogram", "Sizes.")
    family.add_histogram(histogram, kind="a")
    assert text([family]).splitlines() == [
        "# HELP h Sizes.",
        "# TYPE h histogram",
        'h_bucket{kind="a",le="0.1"} 2',
        'h_bucket{kind="a",le="1"} 3',
        'h_bucket{kind="a",le="+Inf"} 4',
        'h_sum{kind="a"} 5.65',
        'h_count{kind="a"} 4',
    ]


def test_every_metric_is_documented_and_nothing_else_is() -> None:
    documented = set(re.findall(r"^\| `(crawl_(?!worker_)\w+)", PAGE.read_text(), re.M))
    assert {family.name for family in families([NOW], 1)} == documented
