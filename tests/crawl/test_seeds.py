"""Seeds, in every way that users have to give them: before, during and by accident twice."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from crawlproj.demo import DemoServer, WebSpec
from crawlproj.discover import seeds as seed_lists
from crawlproj.discover.seeds import SeedIntake, SeedList, parse_seed
from crawlproj.errors import CrawlError
from crawlproj.frontier import keys
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.messages import Kind, Push
from crawlproj.frontier.plan import Plan
from crawlproj.frontier.records import encode_link, key_of_url
from crawlproj.operate.request_log import fetch_counts
from crawlproj.server.connection import connect
from tests.servers.fleet import Fleet
from tests.servers.frontier import push_all
from tests.servers.origin import Origin, Reply, Request
from tests.servers.proxy import Proxy
from tests.servers.redis import PATIENCE, RedisServer, follow, hand_over, wait_for

SEEDS = keys.start_urls("site")
REJECTED = keys.rejected(SEEDS)
PAGE = Reply(body=b"<title>t</title>")
FAST = {"ROBOTSTXT_OBEY": "False"}


@pytest.fixture
def origin() -> Iterator[Origin]:
    with Origin({}, default=PAGE) as serving:
        yield serving


def rejected(redis: Redis) -> dict[str, str]:
    found = [json.loads(raw) for raw in redis.lrange(REJECTED, 0, -1)]
    return {entry["seed"]: entry["reason"] for entry in found}


def test_a_worker_without_seeds_waits_for_redis_cli(
    fleet: Fleet, redis_server: RedisServer, redis: Redis, origin: Origin
) -> None:
    worker = fleet.start(FAST, delay=0)
    wait_for(lambda: fleet.status()["workers"], "the worker is there", 20)
    assert fleet.status()["state"] == "empty"
    fields = {"url": origin.url("/json"), "priority": 7, "meta": {"k": 1}, "headers": {"X": "y"}}
    redis_server.cli("lpush", SEEDS, origin.url("/plain"), json.dumps(fields))
    assert worker.wait(30) == "finished"
    rows = {row["url"]: row for row in fleet.rows("pages")}
    assert rows.keys() == {origin.url("/plain"), origin.url("/json")}
    assert rows[origin.url("/json")]["priority"] == "7"
    assert redis.llen(SEEDS) == 0
    assert "Took in 2 seeds" in worker.log


def test_a_host_pushed_during_the_crawl_is_crawled_as_the_first_is(
    fleet: Fleet, redis_server: RedisServer
) -> None:
    spec, may_end = WebSpec(seed=2, hosts=2, pages=60).smooth(), threading.Event()

    def answer_late(request: Request) -> Reply:
        may_end.wait()
        return PAGE

    def has_second() -> bool:
        return any(url.startswith(web.seeds[1]) for url in fleet.urls())

    with (
        Origin({"/late": answer_late}) as origin,
        DemoServer(spec) as web,
        ExitStack() as at_the_end,
    ):
        at_the_end.callback(may_end.set)
        # However fast the first host is crawled, the page that is held back keeps the crawl going.
        redis_server.cli("lpush", SEEDS, web.seeds[0], origin.url("/late"))
        for _ in range(2):
            fleet.start(delay=0.03)
        wait_for(lambda: fleet.status()["done"] > 3, "some pages", 20)
        assert not has_second()
        redis_server.cli("lpush", SEEDS, web.seeds[1])
        wait_for(has_second, "a page of the second host", 20)
        may_end.set()
        assert fleet.wait(40) == ["finished"] * 2
        expected = web.web.expected(web.seeds, scope="host").pages
    assert sorted(fleet.urls()) == sorted([*expected, origin.url("/late")])
    assert fleet.status()["balance"] == 0


def test_a_comma_belongs_to_a_url_unless_another_begins_behind_it(
    fleet: Fleet, origin: Origin
) -> None:
    paths = ["/a,b", "/c?d=1,2,3", "/e"]
    seeds = ", ".join(origin.url(path) for path in paths)
    fleet.start(FAST, seeds=f"{seeds},", delay=0)
    assert fleet.wait() == ["finished"]
    assert sorted(fleet.urls()) == [origin.url(path) for path in paths]


def test_the_seed_command_takes_urls_a_file_and_standard_input(
    fleet: Fleet, redis: Redis, tmp_path: Path
) -> None:
    file = tmp_path / "seeds.txt"
    file.write_text("# mine\nhttp://a/1\n\nhttp://a/2\nhttp://a/1\n")
    added = fleet.command("seed", "site", "http://a/1", "HTTP://A:80/1#x", '{"url": "http://a/3"}')
    assert (added.returncode, added.stdout) == (0, "2 new, 1 known already, 0 refused\n")
    added = fleet.command("seed", "site", "-f", str(file))
    assert (added.returncode, added.stdout) == (0, "1 new, 2 known already, 0 refused\n")
    added = fleet.command("seed", "site", "-", "--json", stdin="http://a/3\nhttp://a/4\nnonsense\n")
    assert added.returncode == 1
    assert json.loads(added.stdout) == {"given": 3, "new": 1, "refused": 1}
    assert added.stderr.startswith("refused: nonsense: ") and added.stderr.count("\n") == 1
    waiting = [b"http://a/1", b'{"url": "http://a/3"}', b"http://a/2", b"http://a/4"]
    assert redis.lrange(SEEDS, 0, -1) == waiting


def test_a_seed_of_the_crawl_that_runs_is_known_already(fleet: Fleet, origin: Origin) -> None:
    worker = fleet.start(FAST, seeds=origin.url("/1"), delay=0, stay="true")
    wait_for(fleet.urls, "a page", 20)
    added = fleet.command("seed", "site", origin.url("/1"), origin.url("/2"))
    assert added.stdout == "1 new, 1 known already, 0 refused\n"
    wait_for(lambda: len(fleet.urls()) == 2, "two pages", 20)
    assert worker.is_running


def test_ten_seeds_of_one_host_are_what_ten_pages_are_spent_on(fleet: Fleet) -> None:
    links = "".join(f"<a href=/link-{number}>x</a>" for number in range(30)).encode()
    with Origin({}, default=Reply(body=links)) as origin:
        seeds = [origin.url(f"/{number}") for number in range(10)]
        fleet.start(seeds=",".join(seeds), delay=0, pages=10)
        assert fleet.wait() == ["finished"]
    assert sorted(fleet.urls()) == seeds
    assert {row["priority"] for row in fleet.rows("pages")} == {"100"}
    assert fleet.status()["filtered"] == {"page_limit": 30, "robots_txt": 1}


@pytest.mark.parametrize("shards", [1, 4])
def test_two_hundred_seeds_on_as_many_hosts_have_all_pages_of_two_workers(
    fleet: Fleet, redis: Redis, many_hosts: DemoServer, shards: int
) -> None:
    redis.rpush(SEEDS, *many_hosts.seeds)
    for _ in range(2):
        fleet.start({"FRONTIER_SHARDS": shards}, delay=0.05, pages=200, scope="any")
    assert fleet.wait() == ["finished"] * 2
    assert sorted(fleet.urls()) == sorted(many_hosts.seeds)
    now = fleet.status()
    assert (now["done"], now["balance"]) == (200, 0) and now["filtered"]["page_limit"] > 0


@pytest.fixture(scope="module")
def many_hosts() -> Iterator[DemoServer]:
    with DemoServer(WebSpec(seed=4, hosts=200, pages=1000).smooth()) as web:
        yield web


@pytest.mark.parametrize("strategy", ["breadth", "novelty"])
def test_a_host_has_its_pages_for_seeds_that_come_late_and_have_to_be_tried_again(
    fleet: Fleet, redis: Redis, strategy: str
) -> None:
    links = "".join(f"<a href=/link-{number}>x</a>" for number in range(9)).encode()
    fails_once = {"/2.pdf": lambda request: Reply(status=503 if request.attempt == 1 else 200)}
    with Origin(fails_once, default=Reply(body=links)) as origin:
        redis.lpush(SEEDS, origin.url("/1"), origin.url("/2.pdf"))
        seed = json.dumps({"url": origin.url("/3"), "priority": -7})
        redis.lpush(SEEDS, seed)
        fleet.start(FAST, delay=0, pages_per_host=3, strategy=strategy)
        assert fleet.wait() == ["finished"]
        assert sorted(fleet.urls()) == [origin.url(f"/{path}") for path in ("1", "2.pdf", "3")]
    assert {row["priority"] for row in fleet.rows("pages")} >= {"-7"}


def test_a_bad_seed_is_set_aside_with_its_reason_and_the_good_ones_go_on(
    fleet: Fleet, redis_server: RedisServer, redis: Redis, origin: Origin
) -> None:
    bad = {
        "no scheme": "URL has no scheme",
        "ftp://a/": "only http and https",
        "http://a:99999/": "port is not between 1 and 65535",
        "": "URL has no scheme",
        "{": "Expecting property name",
        '{"priority": 3}': 'the JSON has no "url"',
        '{"url": "http://a/", "priority": "high"}': '"priority" must be a whole number',
        '{"url": "http://a/", "prio": 1}': "unknown field 'prio'",
        '{"url": "http://a/", "meta": ' + "[" * 5000: "recursion",
    }
    redis_server.cli("lpush", SEEDS, *bad, origin.url("/good"))
    redis.lpush(SEEDS, b"\xff\xfe")
    worker = fleet.start(FAST, delay=0)
    assert worker.wait(30) == "finished"
    assert fleet.urls() == [origin.url("/good")]
    reasons = rejected(redis)
    assert reasons.keys() - {"\ufffd\ufffd"} == {seed[:2000] for seed in bad}
    wrong = {seed: reasons[seed[:2000]] for seed in bad if bad[seed] not in reasons[seed[:2000]]}
    assert wrong == {}
    assert worker.log.count("Seed refused: ") == len(bad) + 1
    assert redis.exists(SEEDS) == 0


def test_a_key_of_another_kind_is_named_and_waited_for_until_it_is_put_right(
    fleet: Fleet, redis_server: RedisServer, redis: Redis, origin: Origin
) -> None:
    redis_server.cli("sadd", SEEDS, origin.url("/2"))
    worker = fleet.start(FAST, seeds=origin.url("/1"), delay=0)
    worker.wait_for_log(f"{SEEDS} is no list: delete it and push seeds with lpush")
    wait_for(lambda: fleet.status()["done"] == 1, "the page that was given by argument", 20)
    time.sleep(1.5)  # in which an idle worker has looked several times whether anything is left
    assert worker.is_running and fleet.status()["state"] == "running"
    with redis.pipeline() as at_once:  # an idle worker would end the crawl in between
        at_once.delete(SEEDS).lpush(SEEDS, origin.url("/2")).execute()
    assert worker.wait(30) == "finished"
    assert sorted(fleet.urls()) == [origin.url("/1"), origin.url("/2")]
    assert "Traceback" not in worker.log


@pytest.mark.parametrize(
    ("settings", "key", "kind"),
    [
        (["REDIS_START_URLS_AS_SET=True"], SEEDS, b"set"),
        (["REDIS_START_URLS_AS_ZSET=True"], SEEDS, b"zset"),
        (["REDIS_START_URLS_KEY=mine:%(name)s"], "mine:site", b"list"),
    ],
)
def test_the_seed_command_pushes_where_workers_look_and_purging_forgets_it(
    fleet: Fleet, redis: Redis, settings: list[str], key: str, kind: bytes
) -> None:
    given = [word for setting in settings for word in ("-s", setting)]
    added = fleet.command("seed", "site", "http://a/1", "http://a/2", *given)
    assert (added.stdout, added.stderr) == ("2 new, 0 known already, 0 refused\n", "")
    added = fleet.command("seed", "site", "http://a/2", "http://a/3", *given)
    assert added.stdout == "1 new, 1 known already, 0 refused\n"
    assert redis.keys("*") == [key.encode()] and redis.type(key) == kind
    assert "no such crawl" not in fleet.command("status", "site", *given).stderr
    fleet.at_frontier(lambda frontier: frontier.open(Plan(), "run"))
    assert fleet.command("purge", "site", "--yes", *given).returncode == 0
    assert redis.keys("*") == []


def test_a_seed_is_not_pushed_to_a_key_of_another_kind(fleet: Fleet, redis: Redis) -> None:
    redis.sadd(SEEDS, "http://a/1")
    added = fleet.command("seed", "site", "http://a/2")
    assert (added.returncode, added.stdout) == (1, "")
    assert added.stderr == f"{SEEDS} is no list: delete it and push seeds with lpush\n"


def test_seeds_that_are_different_requests_to_the_crawl_are_all_new(
    fleet: Fleet, origin: Origin
) -> None:
    def post(body: str) -> str:
        return json.dumps({"url": origin.url("/form"), "method": "POST", "body": body})

    pages = [origin.url(f"/?sid={number:016}") for number in range(2)]
    settings = {**FAST, "CRAWL_DROP_PARAMS": "other"}
    worker = fleet.start(settings, seeds=origin.url("/"), delay=0, stay="true")
    wait_for(fleet.urls, "a page", 20)
    added = fleet.command("seed", "site", post("1"), post("2"), post("1"), *pages)
    assert added.stdout == "4 new, 1 known already, 0 refused\n"
    wait_for(lambda: fleet.status()["done"] == 5, "every page", 20)
    added = fleet.command("seed", "site", post("1"), pages[0], f"{pages[0]}&other=1", post("3"))
    assert added.stdout == "1 new, 3 known already, 0 refused\n"
    assert worker.is_running


def test_no_seed_is_lost_to_a_filter_that_calls_everything_seen(
    fleet: Fleet, redis_server: RedisServer, origin: Origin
) -> None:
    tiny = {**FAST, "SEEN_CAPACITY": "1", "SEEN_ERROR_RATE": "0.49"}
    seeds = [origin.url(f"/{number}") for number in range(300)]
    redis_server.cli("lpush", SEEDS, *seeds)
    for _ in range(2):
        fleet.start(tiny, delay=0, per_host=8)
    assert fleet.wait(40) == ["finished"] * 2
    assert sorted(fleet.urls()) == sorted(seeds)
    assert fetch_counts(origin.requests()) == dict.fromkeys(seeds, 1)


def test_a_seed_that_is_given_again_and_again_is_fetched_once(
    fleet: Fleet, redis_server: RedisServer, origin: Origin
) -> None:
    again = [origin.url("/"), origin.url(""), origin.url("/#top")]
    redis_server.cli("rpush", SEEDS, *again, *again)
    worker = fleet.start(FAST, seeds=origin.url("/"), delay=0, stay="true")
    wait_for(lambda: fleet.status()["done"], "a page", 20)
    redis_server.cli("rpush", SEEDS, *again, origin.url("/last"))
    wait_for(lambda: fleet.status()["done"] == 2, "the last page", 20)
    assert worker.is_running
    fetched = fetch_counts(origin.requests())
    assert fetched == {origin.url("/"): 1, origin.url("/last"): 1}


def to_push(request: Any) -> Push:
    host, key = key_of_url(request.url)
    return Push(Kind.SEED, host, 0, encode_link("/", 0), key)


async def test_a_worker_whose_turn_is_over_before_it_could_push_leaves_its_seeds_to_others(
    redis_server: RedisServer, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a flush that waits for a full disk."""
    monkeypatch.setattr(seed_lists, "TURN_S", 0.2)
    redis.rpush(SEEDS, "http://a/", "http://b/")
    client = await connect(redis_server.url)
    waits, goes_on, pushed = asyncio.Event(), asyncio.Event(), Counter[str]()

    async def push(pushes: list[Push]) -> None:
        pushed.update(one.key for one in pushes)

    async def push_later(pushes: list[Push]) -> None:
        waits.set()
        await goes_on.wait()
        await push(pushes)

    ours = SeedList(client, SEEDS)
    async with asyncio.timeout(30 * PATIENCE):
        late = asyncio.create_task(
            SeedIntake(ours, parse_seed, to_push, push_later, lambda: True).take()
        )
        await waits.wait()
        other = SeedIntake(ours, parse_seed, to_push, push, lambda: True)
        while not await other.take():
            await asyncio.sleep(0.02)
        goes_on.set()
        with pytest.raises(CrawlError, match="others may take them"):
            await late
    await client.aclose()
    assert pushed == {"http://a/": 1, "http://b/": 1}


async def test_a_worker_that_dies_between_taking_a_seed_in_and_removing_it_loses_nothing(
    redis_server: RedisServer, redis: Redis
) -> None:
    class Killed(BaseException):
        pass

    redis.rpush(SEEDS, "http://a/", "http://b/")
    client = await connect(redis_server.url)
    frontier = Frontier(client, "site", "w")
    await frontier.open(Plan(), "run")

    async def push_and_die(pushes: list[Push]) -> None:
        await push_all(frontier, pushes)
        raise Killed

    async def push(pushes: list[Push]) -> None:
        await push_all(frontier, pushes)

    seeds = SeedList(client, SEEDS)
    with pytest.raises(Killed):
        await SeedIntake(seeds, parse_seed, to_push, push_and_die, lambda: True).take()
    assert await seeds.size() == 2
    assert await SeedIntake(seeds, parse_seed, to_push, push, lambda: True).take() == 2
    assert await seeds.size() == 0
    counts = await frontier.counts()
    await client.aclose()
    assert (counts["discovered"], counts["queued"], counts["duplicates"]) == (2, 2, 2)


async def test_seeds_that_come_into_the_frontier_as_the_crawl_is_stopped_leave_their_list(
    redis_server: RedisServer, redis: Redis
) -> None:
    """Those that are not filtered would be fetched twice when it goes on."""
    redis.rpush(SEEDS, "http://a/", "http://b/")
    client = await connect(redis_server.url)
    states = ["running"]

    async def push(pushes: list[Push]) -> None:
        states.append("stopping")

    seeds = SeedList(client, SEEDS)
    intake = SeedIntake(seeds, parse_seed, to_push, push, lambda: states[-1] == "running")
    assert (await intake.take(), await seeds.size()) == (2, 0)
    await client.aclose()


def test_workers_that_are_killed_while_seeds_come_lose_none(
    fleet: Fleet, redis_server: RedisServer, origin: Origin
) -> None:
    quick = {**FAST, "FRONTIER_LEASE_TIMEOUT": "1", "FRONTIER_MAX_ATTEMPTS": "20"}
    pushed = []
    for round_number, life_s in enumerate((0.0, 0.02, 0.05)):
        worker = fleet.start(quick, delay=0, per_host=4, stay="true")
        worker.wait_for_log("crawl 'site'")
        batch = [origin.url(f"/{round_number}/{number}") for number in range(400)]
        redis_server.cli("lpush", SEEDS, *batch)
        pushed += batch
        wait_for(origin.requests, "a first page", 20)
        time.sleep(life_s)  # so that it dies at another point each time
        worker.kill()
    worker = fleet.start(quick, delay=0, per_host=4)
    wait_for(lambda: len(set(fleet.urls())) == len(pushed), "every seed", 60)
    assert set(fleet.urls()) == set(pushed)
    assert fleet.status()["balance"] == 0


def test_a_seed_that_posts_is_taken_and_brings_its_host_into_scope(
    fleet: Fleet, redis: Redis
) -> None:
    with Origin({"/form": Reply(body=b"<a href=/after>x</a>")}, default=PAGE) as serving:
        fields = {"url": serving.url("/form"), "method": "POST", "body": "a=1"}
        redis.lpush(SEEDS, json.dumps(fields))
        worker = fleet.start(FAST, delay=0)
        assert worker.wait(60) == "finished"
        assert [(one.method, one.path) for one in serving.requests()] == [
            ("POST", "/form"),
            ("GET", "/after"),
        ]


# A crawl begins with its first seed


def test_a_worker_that_joins_a_finished_crawl_leaves_it_as_it_is_until_a_seed_comes(
    fleet: Fleet, redis_server: RedisServer, redis: Redis
) -> None:
    own_run = {**FAST, "CRAWL_RUN_ID": ""}
    with Origin({"/gone": Reply(status=404)}, default=PAGE) as origin:
        seeds = ",".join(map(origin.url, ("/", "/gone")))
        assert fleet.start(own_run, seeds=seeds, delay=0).wait(30) == "finished"
        before, rows = fleet.status(), fleet.urls()
        joining = fleet.start(own_run, delay=0.01)
        joining.wait_for_log("has finished, and its results are in")
        assert f"in {fleet.output / 'site'}. This worker waits for seeds" in joining.log
        assert f"push them to {SEEDS} of the Redis at {redis_server.url}" in joining.log
        redis_server.cli("lpush", SEEDS, "nonsense")
        wait_for(lambda: rejected(redis).keys() == {"nonsense"}, "the refusal", 20)
        now = fleet.status()
        assert {**now, "workers": []} == {**before, "workers": [], "memory": now["memory"]}
        [waiting] = now["workers"]
        assert (waiting["pid"], waiting["pages"]) == (joining.process.pid, 0)
        assert waiting["memory"] > 0 and waiting["heartbeat_s"] is not None
        assert (now["dead"], fleet.urls()) == (1, rows)
        redis_server.cli("lpush", SEEDS, origin.url("/next"))
        assert joining.wait(30) == "finished"
        assert "Beginning the crawl" in joining.log and "was begun with" not in joining.log
        assert fleet.urls() == [origin.url("/next")]
    [earlier] = (fleet.output / "site").glob("earlier-*")
    assert earlier.name == f"earlier-{before['epoch']}"
    assert list(earlier.glob("failures-*.csv"))


def test_workers_that_wait_for_seeds_take_the_plan_of_who_brings_one(
    fleet: Fleet, origin: Origin
) -> None:
    waiting = fleet.start({**FAST, "CRAWL_RUN_ID": ""}, delay=7, stay="true")
    waiting.wait_for_log("'site' has not begun yet. This worker waits for seeds")
    bringing = fleet.start(FAST, seeds=origin.url("/"), delay=0.25, stay="true")
    waiting.wait_for_log("Joining the crawl 'site'")
    waiting.wait_for_log("The crawl was begun with delay 0.25")
    assert "begun with delay 0.25, stay" not in waiting.log
    assert "was begun with" not in bringing.log
    bringing.wait_for_log(f"waiting for more seeds at {SEEDS}")
    assert fleet.command("pause", "site").returncode == 0
    bringing.wait_for_log("scrapy resume site lets its workers go on")
    assert fleet.command("stop", "site").returncode == 0
    assert fleet.wait(30) == ["stopped", "stopped"]


def test_those_who_wait_at_a_finished_crawl_can_be_sent_away(
    fleet: Fleet, origin: Origin, redis: Redis
) -> None:
    own_run = {**FAST, "CRAWL_RUN_ID": ""}
    assert fleet.start(own_run, seeds=origin.url("/"), delay=0).wait(30) == "finished"
    redis.hset(keys.meta("site", 0), "skew_ms", -3_600_000)  # the server's was set forward
    waiting = fleet.start(own_run)
    wait_for(lambda: fleet.status()["workers"], "the worker is there", 20)
    sent = fleet.command("stop", "site")
    assert (sent.returncode, "1 worker that waited for seeds leaves" in sent.stdout) == (0, True)
    assert waiting.wait(20) == "stopped"
    assert (fleet.status()["state"], fleet.status()["workers"]) == ("finished", [])
    later = fleet.start(own_run)
    wait_for(lambda: fleet.status()["workers"], "another worker is there", 20)
    fleet.start(FAST, seeds=origin.url("/"), delay=0, stay="true")
    later.wait_for_log("Joining the crawl 'site'")


def test_who_waits_for_seeds_leaves_a_master_that_has_become_a_replica(
    tmp_path: Path, origin: Origin
) -> None:
    with ExitStack() as stack:
        master = stack.enter_context(RedisServer(tmp_path / "master"))
        heir = stack.enter_context(RedisServer(tmp_path / "heir"))
        follow(heir, master)
        proxy = stack.enter_context(Proxy(master.port))
        fleet = stack.enter_context(Fleet(tmp_path, proxy.url))
        waiting = fleet.start(FAST, delay=0)
        waiting.wait_for_log("This worker waits for seeds")
        hand_over(master, heir)
        proxy.lead_to(heir.port)
        heir.cli("lpush", SEEDS, origin.url("/"))
        assert waiting.wait(60) == "finished"
    assert fleet.urls() == [origin.url("/")]


def test_who_resumes_a_crawl_with_other_seeds_is_told_that_they_are_added_to_it(
    fleet: Fleet, origin: Origin
) -> None:
    first = fleet.start(FAST, seeds=origin.url("/"), delay=0, stay="true")
    wait_for(lambda: fleet.status()["done"], "a page", 20)
    first.signal(signal.SIGTERM)
    assert first.wait(20) == "shutdown"
    fleet.start(FAST, seeds=origin.url("/")).wait_for_log("Resuming the crawl")
    again = fleet.start(FAST, seeds=origin.url("/other"))
    again.wait_for_log("The seeds given now are added to it")
    assert "-a crawl=NAME" in again.log
    assert "added to it" not in fleet.workers[1].log
    wait_for(lambda: fleet.status()["done"] == 2, "the other page", 20)
