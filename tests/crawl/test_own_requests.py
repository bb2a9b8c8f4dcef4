"""A spider that asks one URL in several ways: what it leaves is told apart by request."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import pytest

from tests.servers import scrapy_process
from tests.servers.fleet import PROJECT, Fleet
from tests.servers.origin import Origin, Reply, Route
from tests.servers.origin import Request as OriginRequest

SPIDER = """
from scrapy import Request, Spider
from scrapy.http import JsonRequest


class ThingsSpider(Spider):
    name = "things"

    async def start(self):
        yield Request(self.first, dont_filter=True)

    def parse(self, response):
        for i in range(5):
            yield JsonRequest(response.urljoin("/graphql"), self.parse_post, data={"page": i})
            yield JsonRequest(response.urljoin("/dead"), self.parse_post, data={"page": i})
        for i in range(3):
            yield Request(
                response.urljoin("/again"), self.parse_again, dont_filter=True, cb_kwargs={"i": i}
            )

    def parse_post(self, response):
        yield {"body": response.request.body.decode()}

    def parse_again(self, response, i):
        yield {"again": i}
"""
ITEMS = [{"again": i} for i in range(3)] + [{"body": f'{{"page": {i}}}'} for i in range(5)]
HERE = {
    "SPIDER_MODULES": "things_spiders",
    "CRAWL_ALLOW_ADDRESSES": "loopback",
    "ROBOTSTXT_OBEY": "False",
    "POLITENESS_DELAY": "0",
}


@pytest.fixture(autouse=True)
def spiders(tmp_path: Path) -> None:
    (tmp_path / "things_spiders.py").write_text(SPIDER)


def own_env(fleet: Fleet) -> dict[str, str]:
    path = os.pathsep.join(map(str, (PROJECT, fleet.folder)))
    return {"PYTHONPATH": path, "SCRAPY_SETTINGS_MODULE": "settings.base"}


def command(fleet: Fleet, *words: str) -> str:
    """What a command prints that ends well."""
    settings = {**HERE, "CRAWL_OUTPUT": str(fleet.output)}
    given = [word for pair in settings.items() for word in ("-s", "=".join(pair))]
    done = scrapy_process.run([*words, *given], {**fleet.env, **own_env(fleet)}, fleet.folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def merged_items(fleet: Fleet) -> list[dict[str, object]]:
    command(fleet, "merge", "things")
    lines = (fleet.output / "things" / "items.jsonl").read_text().splitlines()
    return sorted(map(json.loads, lines), key=str)


def merged_failures(fleet: Fleet) -> list[dict[str, str]]:
    with (fleet.output / "things" / "failures.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def second_time(request: OriginRequest) -> Reply:
    return Reply(503) if request.attempt <= 3 else Reply()


ROUTES: dict[str, Route] = {"/dead": Reply(410), "/again": second_time}


def test_items_and_failures_of_requests_that_share_a_url_are_all_merged_and_gathered(
    fleet: Fleet,
) -> None:
    with Origin(ROUTES, default=Reply()) as origin:
        first = f"first={origin.url('/')}"
        said = command(fleet, "fleet", "things", "-n", "2", "-a", first, "-O", "all.json")
        dead = origin.url("/dead")
    assert "8 items in" in said
    gathered = json.loads((fleet.folder / "all.json").read_text())
    assert sorted(gathered, key=str) == ITEMS
    assert merged_items(fleet) == ITEMS
    failures = merged_failures(fleet)
    assert [row["url"] for row in failures] == [dead] * 5
    assert len({row["request"] for row in failures}) == 5
    assert not list((fleet.output / "things").glob("pages*"))
    for table, rows in (("failures", 5), ("items", 8)):
        counted = command(fleet, "query", "things", f"SELECT count(*) AS n FROM {table}", "--json")
        assert json.loads(counted) == [{"n": rows}]
    report = json.loads(command(fleet, "report", "things", "--json"))
    assert [one["url"] for one in report["broken"]] == [dead]


def test_items_of_requests_whose_worker_died_before_it_settled_them_are_merged_to_one_set(
    fleet: Fleet,
) -> None:
    settings = {**HERE, "CONCURRENT_REQUESTS": "3", "CRAWL_WORKER_ID": "w1"}
    with Origin(ROUTES, default=Reply()) as origin:
        given = {"first": origin.url("/")}
        for failpoint in ("settle:3", "settle:5", "settle:4"):
            env = {**own_env(fleet), "CRAWL_FAILPOINT": failpoint}
            fleet.start(settings, spider="things", env=env, **given).process.wait(60)
        last = fleet.start(settings, spider="things", env=own_env(fleet), **given)
        assert last.wait(60) == "finished", last.log[-4000:]
    written = sum(len(part.read_bytes().splitlines()) for part in parts_of_items(fleet))
    assert written > len(ITEMS)
    assert merged_items(fleet) == ITEMS
    assert len(merged_failures(fleet)) == 5


def parts_of_items(fleet: Fleet) -> list[Path]:
    return list((fleet.output / "things").glob("items-*.jsonl"))
