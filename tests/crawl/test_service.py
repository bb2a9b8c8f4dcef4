"""A crawl that is changed while it runs: URLs deleted, rules changed, workers taken out of service
and replaced one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from crawlproj.demo import DemoServer, WebSpec
from tests.crawl.command_line import assert_one_line, json_of
from tests.servers.fleet import Fleet
from tests.servers.origin import Origin, Reply, Request
from tests.servers.redis import wait_for

SPEC = WebSpec(hosts=4, pages=120).smooth()
POLITE = 0.25
OFTEN = {"FRONTIER_LEASE_TIMEOUT": 4}
"""A heartbeat a second."""

pytestmark = pytest.mark.demo_web


@pytest.fixture
def site() -> Iterator[Origin]:
    """A start page with 600 links to articles and 600 to lists, all of which are slow."""

    def page(request: Request) -> Reply:
        if request.path != "/":
            return Reply(delay_s=0.2)
        links = "".join(f"<a href=/a/{n}>a</a><a href=/list?page={n}>l</a>" for n in range(600))
        return Reply(body=links.encode())

    with Origin({"/robots.txt": Reply(status=404)}, default=page) as origin:
        yield origin


def test_queued_urls_are_deleted_by_pattern_and_by_host_while_the_crawl_goes_on(
    fleet: Fleet, site: Origin
) -> None:
    worker = fleet.start(OFTEN, seeds=site.url("/"), delay=0)
    wait_for(lambda: fleet.status()["queued"] > 1000, "links are queued")
    dropped = json_of(fleet.command("drop", "site", "--match", r"/list\?page=\d", "--json"))
    now = fleet.status()
    assert now["filtered"]["deleted"] == dropped["deleted"] > 500
    assert now["balance"] == 0
    assert fleet.command("drop", "site", "--match", r"/list\?").returncode == 1, "nothing is left"
    assert fleet.command("drop", "site", "--host", "127.0.0.1:1").returncode == 1
    gone = fleet.command("drop", "site", "--host", site.host.partition(":")[0])
    assert gone.returncode == 0 and "URLs deleted" in gone.stdout
    assert worker.wait() == "finished"
    now = fleet.status()
    fleet.assert_settled()
    assert now["done"] + now["filtered"]["deleted"] == 1201
    lists = [row for row in fleet.urls() if "/list?" in row]
    assert len(lists) == 600 - dropped["deleted"], "only what had been leased before"
    assert_one_line(fleet.command("drop", "site"), 2, "--host, --match")
    assert_one_line(fleet.command("drop", "site", "--match", "("), 2, "not a regular expression")


def test_links_are_judged_by_rules_that_were_changed_meanwhile(fleet: Fleet) -> None:
    def page(request: Request) -> Reply:
        number = int(request.path.strip("/ab") or 0)
        links = f"<a href=/a{number + 1}>a</a><a href=/b{number + 1}>b</a>"
        return Reply(body=links.encode())

    with Origin({"/robots.txt": Reply(status=404)}, default=page) as origin:
        worker = fleet.start(OFTEN, seeds=origin.url("/a0"), delay=0.05, deny="/b")
        wait_for(lambda: fleet.status()["done"] > 3, "pages")
        assert not any("/b" in url for url in fleet.urls())
        changed = fleet.command("set", "site", "deny=", "allow=/b")
        assert "allow /b, deny none" in changed.stdout
        worker.wait_for_log("deny none")
        wait_for(lambda: any("/b" in url for url in fleet.urls()), "what was denied is followed")
        shown = json_of(fleet.command("change", "site", "scope=any", "--json"))
        assert (shown["scope"], shown["allow"]) == ("any", ["/b"])
        worker.wait_for_log("scope any")
        assert_one_line(fleet.command("change", "site", "scope=here"), 2, "scope")
        fleet.command("stop", "site")
        worker.wait()


def test_workers_are_replaced_one_by_one_and_every_page_is_fetched_once(
    fleet: Fleet, web: DemoServer
) -> None:
    expected = web.web.expected(web.seeds).pages
    before = [
        fleet.start(
            {**OFTEN, "CRAWL_WORKER_ID": f"old-{n}"}, seeds=",".join(web.seeds), delay=POLITE
        )
        for n in range(2)
    ]
    for number, old in enumerate(before):
        done = fleet.status()["done"]
        wait_for(lambda done=done: fleet.status()["done"] > done + 10, "pages")  # type: ignore[misc]
        fleet.start({**OFTEN, "CRAWL_WORKER_ID": f"new-{number}"})
        drained = fleet.command("drain", "site", f"old-{number}")
        assert drained.returncode == 0 and f"old-{number}: takes no more" in drained.stdout
        assert old.wait() == "drained" and old.process.returncode == 0
        now = fleet.status()
        assert f"old-{number}" not in [one["name"] for one in now["workers"]]
        assert now["balance"] == 0 and now["reclaimed"] == 0
    gone = fleet.command("drain", "site", "old-0")
    assert gone.returncode == 1 and "old-0: no such worker" in gone.stdout
    assert fleet.wait()[2:] == ["finished", "finished"]
    fleet.assert_settled()
    assert Counter(fleet.urls()) == Counter(expected)
    workers = {row["worker"] for row in fleet.rows("pages")}
    assert workers <= {"old-0", "old-1", "new-0", "new-1"}
    assert workers & {"new-0", "new-1"}


def test_all_workers_of_a_machine_leave_and_the_crawl_can_be_resumed(
    fleet: Fleet, web: DemoServer
) -> None:
    worker = fleet.start(OFTEN, seeds=",".join(web.seeds), delay=POLITE)
    wait_for(lambda: fleet.status()["done"] > 3, "pages")
    [told] = fleet.status()["workers"]
    assert json_of(fleet.command("drain", "site", "--machine", "elsewhere", "--json")) == {
        "draining": [],
        "missing": [],
    }
    asked = json_of(fleet.command("drain", "site", "--machine", told["host"], "--json"))
    assert asked["draining"] == [told["name"]]
    assert worker.wait() == "drained"
    assert fleet.status()["state"] == "stopped" and fleet.status()["queued"] > 0
