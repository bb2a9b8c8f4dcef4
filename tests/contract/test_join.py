"""What a worker is told of the crawl that it joins."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from scrapy import Spider
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler

from crawlproj.config import Config
from crawlproj.discover.seeds import SeedList, parse_seed
from crawlproj.errors import ConfigError, CrawlError
from crawlproj.frontier import keys, noticeboard, plan_change
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.messages import Arrival, Settlement
from crawlproj.frontier.plan import Plan
from crawlproj.frontier.refusals import CrawlNewer
from crawlproj.frontier.shard import Shard
from crawlproj.frontier.worker_names import marked
from crawlproj.operate.draining import drain
from crawlproj.operate.purge import purge
from crawlproj.server.connection import connect
from crawlproj.worker import replan
from crawlproj.worker.idle import Idle
from crawlproj.worker.join import join, seed_list, seed_list_of
from crawlproj.worker.next_crawl import NextCrawl
from tests.lua.helpers import link, seed, set_clock
from tests.servers.frontier import push_all
from tests.servers.redis import RedisServer

WAITS = Arrival(brings_seed=False)
BEGUN_WITH = {"minutes": 1 / 7, "give_up": 3, "max_attempts": 5, "seen_capacity": 1000}
OTHERS: list[dict[str, Any]] = [
    {"minutes": 9.0},
    {"give_up": 0},
    {"max_attempts": 2},
    {"shards": 3},
    {"seen_capacity": 99},
    {"seen_error_rate": 0.1},
]


async def told(url: str, asked: dict[str, Any], *, interrupted: bool = False) -> Plan | None:
    """The settings of a worker that joins, or resumes, a crawl and asks for something."""
    client = await connect(url)
    first = Frontier(client, "c", "first")
    await join(first, Config(**BEGUN_WITH))
    if interrupted:
        await push_all(first, [seed("http://a", "/")])
    config = await join(Frontier(client, "c", "w"), Config(**{**BEGUN_WITH, **asked}), asked)
    await client.aclose()
    return config


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]


@pytest.mark.parametrize("asked", OTHERS, ids=lambda asked: next(iter(asked)))
async def test_a_limit_that_has_no_effect_is_told_to_whoever_asked_for_it(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture, asked: dict[str, Any]
) -> None:
    await told(redis_server.url, asked)
    [warning] = warnings(caplog)
    assert warning.startswith(f"The crawl was begun with {next(iter(asked))} ")


async def test_who_asks_for_what_the_crawl_has_is_told_nothing(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    config = await told(redis_server.url, dict(BEGUN_WITH))
    assert warnings(caplog) == []
    assert (config.give_up, config.max_attempts) == (3, 5)


async def test_who_resumes_a_crawl_may_say_how_long_it_goes_on(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    await told(redis_server.url, {"minutes": 9.0}, interrupted=True)
    assert warnings(caplog) == []


async def test_who_resumes_a_crawl_whose_time_was_over_is_told_so(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    client = await connect(redis_server.url)
    first = Frontier(client, "c", "first")
    await join(first, Config(minutes=1.0))
    await push_all(first, [seed("http://a", "/")])
    await client.hset(keys.meta("c", 0), "deadline_ms", 1)
    await first.set_state("stopped", ("running",))
    await join(Frontier(client, "c", "w"), Config())
    await client.aclose()
    assert "which was interrupted" not in caplog.text
    assert "whose time was over" in caplog.text


# Plans of other versions


async def rejoined(
    url: str, change: Callable[[dict[str, Any]], Any], config: Config | None = None
) -> Plan | None:
    """The settings of a worker that resumes a crawl whose plan another version has written."""
    async with await connect(url) as client:
        before = Frontier(client, "c", "before")
        await join(before, Config(scope="any", deny=("x",), **BEGUN_WITH))
        await push_all(before, [seed("http://a", "/")])
        plan = json.loads(await client.hget(keys.meta("c", 0), "plan"))
        change(plan)
        await client.hset(keys.meta("c", 0), "plan", json.dumps(plan))
        return await join(Frontier(client, "c", "w"), config or Config())


def older(plan: dict[str, Any]) -> None:
    for name in ("traps", "drop_params", "give_up", "group"):
        del plan[name]


def before(plan: dict[str, Any]) -> None:
    """As version 1 wrote it."""
    rules = {name: plan[name] for name in ("scope", "allow", "deny", "depth", "identity")}
    limits = {name: plan[name] for name in ("per_host", "max_attempts", "shards", "seen_capacity")}
    plan.clear()
    limits |= {"pages": -1, "pages_per_host": 7, "lasts_ms": 0, "delay_ms": 500, "give_up": 0}
    plan.update(version=1, spider="c", rules=rules, limits=limits)


@pytest.mark.parametrize("cookies", ["", "shared"])
async def test_a_crawl_of_the_version_before_is_resumed_and_each_worker_has_its_own_cookies(
    redis_server: RedisServer, cookies: str
) -> None:
    """That version had no word of cookies in the plan."""
    plan = await rejoined(redis_server.url, before, Config(cookies=cookies))
    assert plan is not None
    assert (plan.scope, plan.deny, plan.max_attempts, plan.delay_s) == ("any", ("x",), 5, 0.5)
    assert (plan.pages, plan.pages_per_host, plan.minutes, plan.give_up) == (None, 7, None, None)
    assert plan.cookies == cookies


async def test_a_plan_that_the_version_before_has_written_can_be_changed(
    redis_server: RedisServer,
) -> None:
    await rejoined(redis_server.url, before)
    async with await connect(redis_server.url) as client:
        await replan.change(Frontier(client, "c", "command"), {"pages_per_host": 8})
        looker = Frontier(client, "c", "looker")
        await looker.attach()
    plan = looker.plan
    assert (plan.scope, plan.delay_s, plan.pages, plan.pages_per_host) == ("any", 0.5, None, 8)


async def joined_with_cookies(url: str, begun: str, own: str) -> Plan | None:
    async with await connect(url) as client:
        await join(Frontier(client, "c", "first"), Config(cookies=begun))
        return await join(Frontier(client, "c", "w"), Config(cookies=own), ["cookies"])


async def test_who_has_cookies_to_share_keeps_them_in_a_crawl_that_shares_none(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    plan = await joined_with_cookies(redis_server.url, "", "shared")
    assert plan is not None and plan.cookies == ""
    assert "begun with cookies not shared" in warnings(caplog)[0]


async def test_who_cannot_share_cookies_is_told_how_to_join_a_crawl_that_shares_them(
    redis_server: RedisServer,
) -> None:
    """What shares them is put together before a crawl is joined."""
    with pytest.raises(ConfigError, match="add -s CRAWL_COOKIES=shared, on every machine"):
        await joined_with_cookies(redis_server.url, "shared", "")


async def test_a_crawl_that_an_older_version_has_begun_goes_on(redis_server: RedisServer) -> None:
    """What that version did not know of is as it was without it."""
    config = await rejoined(redis_server.url, older)
    assert (config.scope, config.deny, config.max_attempts) == ("any", ("x",), 5)
    defaults = Config()
    assert (config.traps, config.drop_params) == (defaults.traps, defaults.drop_params)
    assert (config.give_up, config.group) == (Plan().give_up, Plan().group)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda plan: plan.update(version=99), "version 99"),
        (lambda plan: plan.update(yearning=2, zeal=1), "yearning, zeal"),
    ],
)
async def test_a_crawl_of_a_newer_version_is_not_taken_for_damaged(
    redis_server: RedisServer, change: Callable[[dict[str, Any]], Any], named: str
) -> None:
    with pytest.raises(CrawlNewer) as caught:
        await rejoined(redis_server.url, change)
    assert f"has {named}, which this version" in str(caught.value)
    assert "purge" not in str(caught.value)


class Fixed(Spider):
    name, redis_key = "shop", "shop:urls"


class Templated(Spider):
    name, redis_key = "shop", "%(name)s:urls"


@pytest.mark.parametrize(
    ("spider", "settings", "crawl", "key"),
    [
        (Fixed, {}, "shop", "shop:urls"),
        (Fixed, {}, "docs", "docs:start_urls"),
        (Templated, {}, "docs", "docs:urls"),
        (Spider, {"REDIS_START_URLS_KEY": "%(name)s:s"}, "docs", "docs:s"),
        (Spider, {"REDIS_START_URLS_KEY": "all"}, "docs", "docs:start_urls"),
        (Spider, {}, "docs", "docs:start_urls"),
    ],
)
def test_a_crawl_that_is_not_called_like_its_spider_has_seeds_of_its_own(
    spider: type[Spider], settings: dict[str, str], crawl: str, key: str
) -> None:
    made = spider(name="shop")
    assert seed_list(None, Settings(settings), made, crawl).key == key


@pytest.mark.parametrize(
    ("crawl", "key"), [("docs", "docs:start_urls"), ("books", "all"), ("unknown", "all")]
)
async def test_seeds_are_pushed_where_workers_look_also_without_their_spider(
    redis_server: RedisServer, crawl: str, key: str
) -> None:
    client = await connect(redis_server.url)
    for begun in ("docs", "books"):
        await Frontier(client, begun, "w").open(Plan(spider="books", seen_capacity=1000), "run")
    elsewhere = Settings({"REDIS_START_URLS_KEY": "all"})
    assert (await seed_list_of(client, elsewhere, crawl)).key == key
    await client.aclose()


# What can be changed


PLAN = {"pages": 10, "pages_per_host": 5, "depth": 2, "delay_s": 1.0, "per_host": 1}


async def resumed(url: str, **asked: Any) -> tuple[Plan | None, dict[str, Any]]:
    """The settings of a worker that resumes a crawl of three shards and asks for something, and
    what the crawl goes by then."""
    async with await connect(url) as client:
        first = Frontier(client, "c", "first")
        await join(first, Config(shards=3, **PLAN))
        await push_all(first, [seed("http://a", "/")])
        config = await join(
            Frontier(client, "c", "w"), Config(**{"shards": 3, **PLAN, **asked}), asked
        )
        await first.attach()
        return config, replan.changeable(first.plan)


@pytest.mark.parametrize(
    "asked",
    [{"pages": 30}, {"pages_per_host": 6}, {"depth": 3}, {"delay_s": 0.5}, {"per_host": 4}],
    ids=lambda asked: next(iter(asked)),
)
async def test_who_resumes_a_crawl_may_raise_its_budgets_and_depth_and_change_its_pace(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture, asked: dict[str, Any]
) -> None:
    config, now = await resumed(redis_server.url, **asked)
    [(name, value)] = asked.items()
    assert getattr(config, name) == value
    assert now[name.removesuffix("_s")] == value
    assert warnings(caplog) == []


@pytest.mark.parametrize("asked", [{"pages": 5}, {"depth": 1}, {"pages_per_domain": 7}])
async def test_what_cannot_be_lowered_or_added_stays_and_is_told(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture, asked: dict[str, Any]
) -> None:
    config, now = await resumed(redis_server.url, **asked)
    [name] = asked
    assert getattr(config, name) == PLAN.get(name) == now[name]
    [warning] = warnings(caplog)
    assert f"begun with {name}" in warning and "scrapy change c" in warning


async def changed_while_running(url: str) -> tuple[Plan, list[Plan], int]:
    async with await connect(url) as client:
        working = Frontier(client, "c", "w")
        await join(working, Config(shards=3, **PLAN))
        heard: list[Plan] = []
        working.on_plan = lambda: heard.append(working.plan)
        await working.renew(60_000, {})
        for _ in range(2):  # whoever asks again for what is so changes nothing
            await replan.change(Frontier(client, "c", "command"), {"pages": 20, "depth": 4})
        await working.renew(60_000, {})
        shares = [int(await client.hget(keys.meta("c", shard), "pages")) for shard in range(3)]
        return working.plan, heard, sum(shares)


async def test_a_worker_hears_with_its_heartbeat_that_the_plan_has_changed(
    redis_server: RedisServer,
) -> None:
    plan, heard, shares = await changed_while_running(redis_server.url)
    assert (plan.pages, plan.shards, shares) == (20, 3, 20)
    assert [plan.depth for plan in heard] == [4]


HOSTS = [f"http://h{number}.com" for number in range(12)]


async def begun(client: Any, **config: Any) -> Frontier:
    """A worker at a crawl of three shards that has fetched some pages and is fetching two."""
    worker = Frontier(client, "c", "w")
    await join(worker, Config(shards=3, per_host=1, **config))
    await worker.renew(6_000_000, {})
    await push_all(worker, (link(host, f"/{number}") for host in HOSTS for number in range(4)))
    leases = (await worker.lease(6)).leases
    await worker.settle((one.shard, Settlement(one.token, "done")) for one in leases[2:])
    return worker


async def fetch_all(worker: Frontier) -> int:
    """Fetch what the plan allows; returns how many were fetched in the whole crawl."""
    held = await worker.held_leases()
    await worker.settle((one.shard, Settlement(one.token, "done")) for one in held)
    for _ in range(60):
        await worker.balance_pages()
        batch = await worker.lease(5)
        await worker.settle((one.shard, Settlement(one.token, "done")) for one in batch.leases)
    return (await worker.counts())["done"]


async def test_a_page_budget_that_the_crawl_lacks_is_added_exactly_on_all_shards(
    redis_server: RedisServer,
) -> None:
    """It counts what is fetched and what is being fetched."""
    async with await connect(redis_server.url) as client:
        worker, command = await begun(client), Frontier(client, "c", "command")
        used = (await worker.counts())["done"] + 2
        with pytest.raises(ConfigError, match=f"{used} are fetched or being fetched already"):
            await replan.change(command, {"pages": used})
        for _ in range(2):
            assert (await replan.change(command, {"pages": 17}))["pages"] == 17
        assert sum([int((await shard.meta())["pages"]) for shard in command.shards]) == 17
        await worker.renew(6_000_000, {})
        assert worker.plan.pages == 17
        assert await fetch_all(worker) == 17


async def test_a_page_budget_that_is_used_up_by_revisits_is_refused(
    redis_server: RedisServer,
) -> None:
    """Each is a page of it: the crawl would end at once, and filter all that is queued."""
    async with await connect(redis_server.url) as client:
        worker = await begun(client)
        used = (await worker.counts())["done"] + 2
        await client.hincrby(keys.counts("c", 1), "revisits", 100)
        with pytest.raises(ConfigError, match=f"{used + 100} are fetched or being fetched already"):
            await replan.change(Frontier(client, "c", "command"), {"pages": used + 50})


async def test_a_host_budget_that_the_crawl_lacks_is_added(redis_server: RedisServer) -> None:
    async with await connect(redis_server.url) as client:
        worker = await begun(client)
        await replan.change(Frontier(client, "c", "command"), {"pages_per_host": 2})
        assert await fetch_all(worker) == 2 * len(HOSTS)


async def test_the_budget_of_a_domain_is_raised(redis_server: RedisServer) -> None:
    async with await connect(redis_server.url) as client:
        worker = await begun(client, pages_per_domain=2)
        await replan.change(Frontier(client, "c", "command"), {"pages_per_domain": 3})
        assert await fetch_all(worker) == 3 * len(HOSTS)


async def test_a_wider_scope_has_the_domains_of_the_seeds_which_are_no_seeds(
    redis_server: RedisServer,
) -> None:
    async with await connect(redis_server.url) as client:
        worker = await begun(client, scope="host")
        await worker.widen_scope(["www.a.example", "b.example", ">c.d.example:81"])
        await replan.change(Frontier(client, "c", "command"), {"scope": "domain"})
        added = {">a.example", ">d.example"}
        assert added <= set(await worker.scope_since(0))
        assert ">b.example" not in await worker.scope_since(0)


async def test_the_minutes_of_a_change_count_from_then(
    redis_server: RedisServer, redis: Redis
) -> None:
    def pass_minutes(minute: float) -> None:
        for number in range(3):
            set_clock(redis, minute, "c", number)

    async with await connect(redis_server.url) as client:
        worker = await begun(client, minutes=60.0)
        pass_minutes(10)
        await replan.change(Frontier(client, "c", "command"), {"minutes": 5.0})
        pass_minutes(14)
        assert (await worker.lease(1)).state == "running"
        pass_minutes(16)
        assert (await worker.lease(1)).state == "stopping"


async def test_a_budget_that_was_added_half_way_by_who_died_binds_nobody(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    replanned = plan_change.replan

    async def dies(shard: Shard, args: list[Any]) -> Any:
        if shard.number == 0:
            raise ConnectionError
        return await replanned(shard, args)

    async with await connect(redis_server.url) as client:
        worker, command = await begun(client), Frontier(client, "c", "command")
        monkeypatch.setattr(plan_change, "replan", dies)
        with pytest.raises(ConnectionError):
            await replan.change(command, {"pages": 17})
        monkeypatch.undo()
        await replan.change(command, {"depth": 9})
        assert await fetch_all(worker) == 4 * len(HOSTS)


@pytest.mark.parametrize(
    ("pushed", "is_told"), [([], False), (["/a"], False), (["/a", "/b"], False), (["/c"], True)]
)
async def test_who_is_started_with_those_who_push_the_same_seeds_is_not_told_that_it_adds_some(
    redis_server: RedisServer,
    caplog: pytest.LogCaptureFixture,
    pushed: list[str],
    is_told: bool,
) -> None:
    async with await connect(redis_server.url) as client:
        first = Frontier(client, "c", "first")
        await join(first, Config())
        await first.renew(60_000, {})
        await push_all(first, [seed("http://a.com", path) for path in pushed])
        seeds = "http://a.com/a,http://a.com/b"
        await join(Frontier(client, "c", "w"), Config(seeds=seeds))
    assert any("are added to it" in one for one in warnings(caplog)) == is_told


@pytest.mark.parametrize(
    ("wanted", "connections"), [({"delay": 5.0}, 1), ({"delay": 5.0, "per_host": 2}, 2)]
)
async def test_a_delay_that_is_given_to_a_crawl_without_one_means_one_connection_unless_told_more(
    redis_server: RedisServer, wanted: dict[str, Any], connections: int
) -> None:
    async with await connect(redis_server.url) as client:
        await join(Frontier(client, "c", "w"), Config(delay_s=0, per_host=8))
        now = await replan.change(Frontier(client, "c", "command"), wanted)
    assert (now["delay"], now["per_host"]) == (5.0, connections)


async def changed_after_a_death(
    url: str, dies_at: str, monkeypatch: pytest.MonkeyPatch
) -> list[dict[str, Any]]:
    """The plans of all shards, after one change when the process before died half-way."""
    operation = Shard.open if dies_at == "open" else plan_change.replan

    async def dies(shard: Shard, *args: Any, **named: Any) -> Any:
        if shard.number == 1:
            raise ConnectionError
        return await operation(shard, *args, **named)

    async with await connect(url) as client:
        first, second = Frontier(client, "c", "first"), Frontier(client, "c", "second")
        monkeypatch.setattr(Shard, "open", dies if dies_at == "open" else Shard.open)
        monkeypatch.setattr(
            plan_change, "replan", dies if dies_at == "replan" else plan_change.replan
        )
        with pytest.raises(ConnectionError):
            await join(first, Config(shards=3, **PLAN))
            await replan.change(first, {"depth": 7})
        monkeypatch.undo()
        await join(second, Config(shards=1))
        await replan.change(Frontier(client, "c", "command"), {"pages": 20})
        return [json.loads((await shard.meta())["plan"]) for shard in second.shards]


@pytest.mark.parametrize("dies_at", ["open", "replan"])
async def test_a_plan_can_be_changed_though_who_began_or_changed_it_died_before_all_shards_had_it(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch, dies_at: str
) -> None:
    plans = await changed_after_a_death(redis_server.url, dies_at, monkeypatch)
    assert len(plans) == 3 and plans[0] == plans[1] == plans[2]
    assert (plans[0]["pages"], plans[0]["depth"]) == (20, PLAN["depth"])


async def test_a_crawl_of_several_shards_that_waits_for_its_first_seed_can_be_stopped(
    redis_server: RedisServer,
) -> None:
    async with await connect(redis_server.url) as client:
        assert await join(Frontier(client, "c", "w"), Config(shards=3), arrival=WAITS) is None
        command = Frontier(client, "c", "command")
        assert (await command.attach())["waits"] == "1"
        assert await command.set_state("paused", ["running"]) == "paused"
        assert await command.set_state("stopping", ["paused"]) == "stopped"
        with pytest.raises(CrawlError, match="has not begun"):
            await replan.change(command, {"delay": 2})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["pages"], "give NAME=VALUE"),
        (["strategy=breadth"], "strategy: cannot be changed while a crawl goes on; pages,"),
        (["depth=x"], "depth=x: give a whole number"),
    ],
)
def test_a_change_that_cannot_be_read_is_answered_in_one_line(words: list[str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        replan.parse(words)
    assert said in str(caught.value)


def waiting(frontier: Frontier, brings_own: Callable[[], bool]) -> NextCrawl:
    """What a worker waits with, for a spider that has no more to come up with."""
    return NextCrawl(
        frontier,
        SeedList(frontier.client, f"{frontier.crawl}:start_urls"),
        redis="",
        folder=Path(),
        make=parse_seed,
        brings_own=brings_own,
        may_bring=lambda: False,
        lease_timeout_s=20,
        idle=Idle(get_crawler(), lambda: False),
        patience_s=60,
    )


async def brought_meanwhile(url: str) -> str:
    """A spider's `start()` yields its one seed, and ends, while Redis is asked for others."""
    async with await connect(url) as client:
        frontier = Frontier(client, "plain", "worker")
        assert await join(frontier, Config(), arrival=WAITS) is None
        brings = iter([False])
        return await waiting(frontier, lambda: next(brings, True)).wait()


async def test_a_worker_that_brings_a_seed_does_not_say_that_it_waits_for_some(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert await brought_meanwhile(redis_server.url) == "own seed"
    assert "waits for seeds" not in caplog.text


async def begin_and_stop(quick: Frontier) -> None:
    """A worker begins a crawl, and a user stops it at once."""
    await join(quick, Config())
    await push_all(quick, [seed("http://a", "/")])
    assert await quick.set_state("stopping", ["running"]) == "stopped"


async def test_who_waits_leaves_with_a_stop_also_if_the_crawl_began_and_ended_between_two_looks(
    redis_server: RedisServer,
) -> None:
    async with await connect(redis_server.url) as client:
        late, quick = Frontier(client, "c", "late"), Frontier(client, "c", "quick")
        assert await join(late, Config(), arrival=WAITS) is None
        epoch = late.shards[0].epoch

        next_crawl = waiting(late, lambda: True)
        assert await next_crawl.wait() == "own seed"
        await begin_and_stop(quick)
        # Whatever it has seen before, it does not resume what was stopped, and sees that next.
        arrival = Arrival(False, epoch, next_crawl.dismissals)
        assert await join(late, Config(), arrival=arrival) is None
        assert await quick.state() == "stopped"
        assert await next_crawl.wait() == "stopped"


async def test_who_waits_leaves_with_a_stop_also_if_the_crawl_was_purged_after_others(
    redis_server: RedisServer,
) -> None:
    """Stops are counted anew then: one that waits must not go by those that it knew of."""
    async with await connect(redis_server.url) as client:
        late, quick = Frontier(client, "c", "late"), Frontier(client, "c", "quick")
        assert await join(late, Config(), arrival=WAITS) is None
        for _ in range(3):
            await late.set_state("stopping", ["finished"])
        next_crawl = waiting(late, lambda: False)
        looking = asyncio.create_task(next_crawl.wait())
        while next_crawl.dismissals is None:
            await asyncio.sleep(0.01)
        assert next_crawl.dismissals == 3
        await purge(late)
        assert await looking == "crawl"
        assert await join(late, Config(), arrival=Arrival(False, "", next_crawl.dismissals)) is None
        epoch = late.shards[0].epoch
        await begin_and_stop(quick)
        arrival = Arrival(False, epoch, next_crawl.dismissals)
        assert await join(late, Config(), arrival=arrival) is None
        assert await quick.state() == "stopped"
        assert await next_crawl.wait() == "stopped"


async def test_who_waits_leaves_also_if_the_crawl_was_purged_and_stopped_between_two_looks(
    redis_server: RedisServer,
) -> None:
    async with await connect(redis_server.url) as client:
        late, quick = Frontier(client, "c", "late"), Frontier(client, "c", "quick")
        assert await join(late, Config(), arrival=WAITS) is None
        next_crawl = waiting(late, lambda: False)
        next_crawl.dismissals = 3  # before the purge
        await purge(late)
        await begin_and_stop(quick)
        assert await next_crawl.wait() == "stopped"


async def test_who_waits_leaves_also_if_it_is_taken_out_of_service(
    redis_server: RedisServer,
) -> None:
    async with await connect(redis_server.url) as client:
        both = [Frontier(client, "c", marked(name)) for name in ("one", "other")]
        looking = []
        for frontier in both:
            assert await join(frontier, Config(), arrival=WAITS) is None
            looking.append(asyncio.create_task(waiting(frontier, lambda: False).wait()))
        while await noticeboard.alive(both[0]) < len(both):
            await asyncio.sleep(0.01)
        assert await drain(Frontier(client, "c", "command"), {"one"}, None) == ["one"]
        assert await asyncio.wait_for(looking[0], 10) == "drained"
        assert not looking[1].done()
        await client.lpush("c:start_urls", "http://a/")
        assert await looking[1] == "seed"
