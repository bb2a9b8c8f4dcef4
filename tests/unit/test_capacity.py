"""scrapy plan: what a crawl needs, by what was measured."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess

import pytest

from benchmarks import page
from crawlproj.errors import ConfigError
from crawlproj.operate.capacity import DAY_S, SPARE_MEMORY, Demand, Measured, as_text, needs
from tests.servers import scrapy_process
from tests.servers.fleet import PROJECT

ROUND = Measured(
    bytes_per_url=100,
    bytes_per_url_with_referer=150,
    bytes_per_host=300,
    worker_ms_per_page=0.5,
    worker_ms_per_kb=0.01,
    redis_ms_per_page=0.1,
    row_bytes_per_page=400,
)


def test_the_shipped_figures_are_those_of_the_benchmarks() -> None:
    shipped = dataclasses.asdict(Measured.shipped())
    assert shipped == page.measured()
    assert all(value >= 0 for value in shipped.values())


def test_workers_are_as_many_as_the_days_ask_for() -> None:
    # 300 M pages in ten days are 347 a second; 64 connections of half a second each make 128.
    made = needs(Demand(pages=300_000_000, hosts=1_000_000, days=10), ROUND)
    assert (made.limit, made.workers) == ("workers", 3)
    assert made.pages_per_s == pytest.approx(3 * 128)
    assert made.days == pytest.approx(9.04, rel=1e-3)
    assert made.mbit_per_s == pytest.approx(153.6)


def test_a_small_crawl_is_not_drawn_out_over_the_days_that_it_may_take() -> None:
    demand = Demand(pages=1000, hosts=1)
    made = needs(demand, ROUND)
    assert (made.limit, made.workers) == ("politeness", 1)
    assert made.days * DAY_S == pytest.approx(1500)
    text = as_text(demand, made)
    assert "1,000 pages of 1 host, a pause of 1 s" in text
    assert "25.0  minutes, limited by politeness" in text
    assert "0.67  pages/s, 0.27 Mbit/s" in text
    assert " 0.0 " not in text and " 0  " not in text


@pytest.mark.parametrize(
    ("days", "shown"),
    [
        (30, "30.0  days"),
        (2, "2.0  days"),
        (1.5, "36.0  hours"),
        (0.1, "2.4  hours"),
        (0.01, "14.4  minutes"),
        (1e-4, "8.6  seconds"),
    ],
)
def test_the_time_is_shown_in_a_unit_of_its_size(days: float, shown: str) -> None:
    demand = Demand(pages=1000, hosts=1)
    made = dataclasses.replace(needs(demand, ROUND), days=days)
    assert shown in as_text(demand, made)


def test_given_workers_say_how_many_days_it_takes() -> None:
    demand = Demand(pages=864_000_000, hosts=10_000_000, workers=10, connections=1000)
    made = needs(demand, ROUND)
    assert made.pages_per_s == pytest.approx(10_000)
    assert made.days == pytest.approx(1)
    assert made.redis_cores_busy == pytest.approx(1)


def test_a_worker_is_as_quick_as_its_core_or_its_connections_allow() -> None:
    demand = Demand(pages=10**8, hosts=10**7, workers=1, response_s=0.5, connections=64)
    assert needs(demand, ROUND).pages_per_s == pytest.approx(128)
    more = dataclasses.replace(demand, connections=5000)
    assert needs(more, ROUND).pages_per_s == pytest.approx(1000)


def test_few_hosts_keep_many_workers_waiting() -> None:
    demand = Demand(pages=864_000, hosts=100, delay_s=9.5, response_s=0.5, workers=50)
    made = needs(demand, ROUND)
    assert made.limit == "politeness"
    assert made.pages_per_s == pytest.approx(10)
    assert made.days == pytest.approx(1)


def test_memory_is_what_is_queued_the_hosts_and_the_seen_filter() -> None:
    made = needs(Demand(pages=10**8, hosts=10**6, found=3 * 10**8), ROUND)
    assert made.queued_at_most == 2 * 10**8
    assert made.seen_gb == pytest.approx(0.593, rel=1e-2)
    data_gb = 0.150 * 200 + 0.3 + made.seen_gb
    assert made.redis_gb == pytest.approx(SPARE_MEMORY * data_gb)
    assert made.disk_gb == pytest.approx(40)
    without = needs(Demand(pages=10**8, hosts=10**6, found=3 * 10**8, keeps_referer=False), ROUND)
    assert made.redis_gb - without.redis_gb == pytest.approx(SPARE_MEMORY * 0.050 * 200)


def test_shards_are_as_many_as_memory_speed_and_bitmaps_ask_for() -> None:
    memory = needs(Demand(pages=10**9, hosts=10**6, redis_gb=16), ROUND)
    assert memory.shards == 13
    assert memory.redis_gb_per_shard <= 16
    speed = needs(Demand(pages=10**9, hosts=10**9, days=1, redis_gb=10**6), ROUND)
    assert speed.redis_cores_busy / speed.shards <= 0.7
    bitmaps = needs(Demand(pages=10**9, hosts=10**3, redis_gb=10**6), ROUND)
    assert bitmaps.shards == 8


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"pages": 0, "hosts": 1}, "--pages"),
        ({"pages": 5, "hosts": 9}, "--hosts 9"),
        ({"pages": 5, "hosts": 1, "days": 0}, "--days"),
        ({"pages": 5, "hosts": 1, "page_kb": 0}, "--page-kb"),
        ({"pages": 5, "hosts": 1, "found": 4}, "--found 4"),
    ],
)
def test_what_cannot_be_planned_is_named(wrong: dict[str, float], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Demand(**wrong)  # type: ignore[arg-type]


def scrapy_plan(*words: str) -> subprocess.CompletedProcess[str]:
    return scrapy_process.run(["plan", *words], dict(os.environ), PROJECT)


def test_the_command_prints_the_plan_for_people_and_for_scripts() -> None:
    demand = Demand(pages=10**9, hosts=10**7, delay_s=2, workers=50)
    words = ("--pages", "1e9", "--hosts", "1e7", "--delay", "2", "--workers", "50")
    expected = needs(demand, Measured.shipped())
    ran = scrapy_plan(*words, "--json")
    assert json.loads(ran.stdout) == vars(expected)
    text = scrapy_plan(*words).stdout
    assert text.startswith("1,000,000,000 pages of 10,000,000 hosts, a pause of 2 s")
    assert f"FRONTIER_SHARDS={expected.shards}" in text


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--pages many --hosts 5", "many: give a whole number above 0"),
        ("--pages 1e9", "--hosts"),
        ("--pages 10 --hosts 20", "--hosts 20: there are no more hosts than pages"),
        ("--pages 10 --hosts 1 --error-rate 2", "2: give a share between 0 and 0.5"),
    ],
)
def test_a_bad_value_is_told_in_one_line(words: str, told: str) -> None:
    ran = scrapy_plan(*words.split())
    assert ran.returncode == 2
    assert told in ran.stderr
    assert len(ran.stderr.strip().splitlines()) == 1
