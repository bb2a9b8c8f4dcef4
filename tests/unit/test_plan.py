"""The plan of a crawl: as Redis keeps it, as older versions wrote it, and as nobody should."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest

from crawlproj.config import BY_URL, Config
from crawlproj.frontier.plan import VERSION, Plan
from crawlproj.frontier.plan_change import pages_of_shard
from crawlproj.frontier.refusals import CrawlDamaged, CrawlNewer

LIMITED = Config(
    scope="domain",
    allow=("/docs/", "/man/"),
    depth=3,
    weights={"depth": 5},
    pages=9,
    pages_per_host=4,
    minutes=1 / 7,
    delay_s=0.25,
    give_up=3,
    cookies="shared",
)
BEFORE: dict[str, Any] = {
    "version": 1,
    "rules": {
        "scope": "any",
        "allow": [],
        "deny": ["x"],
        "depth": None,
        "strategy": "weighted",
        "weights": {"depth": 5},
        "stay": False,
        "media": False,
        "identity": "fingerprint",
        "drop_params": ["sid"],
        "traps": True,
        "trap_depth": 20,
        "trap_repeats": 3,
        "trap_params": 20,
    },
    "spider": "shop",
    "limits": {
        "per_host": 1,
        "delay_ms": 500,
        "pages": -1,
        "pages_per_host": 7,
        "pages_per_domain": 0,
        "group": "host",
        "lasts_ms": 0,
        "max_attempts": 5,
        "give_up": 0,
        "novelty": "",
        "shards": 1,
        "seen_capacity": 10_000_000,
        "seen_error_rate": 0.001,
    },
}
"""As version 1 has written it."""


@pytest.mark.parametrize("config", [Config(), LIMITED])
def test_a_plan_comes_back_from_redis_as_it_was(config: Config) -> None:
    plan = Plan.of(config, spider="site", novelty="10 0.1 1 0.01")
    assert Plan.decode(plan.encode()) == plan


def test_workers_of_version_1_find_what_they_look_for_before_the_version() -> None:
    """Else they would call the plan damaged, and advise to purge the crawl."""
    kept = json.loads(Plan().encode())
    assert (kept["limits"], kept["version"]) == ({}, 2)


def test_what_a_plan_says_a_setting_says_by_the_same_name() -> None:
    own = {"spider", "novelty", "stored"}
    names = {one.name for one in fields(Config)}
    assert {one.name for one in fields(Plan)} - names == own


@pytest.mark.parametrize(
    "name", ["pages", "pages_per_host", "pages_per_domain", "minutes", "give_up", "depth"]
)
def test_without_a_limit_is_none_whatever_settings_and_older_plans_call_it(name: str) -> None:
    assert getattr(Plan.of(Config(give_up=0)), name) is None
    no_host_budget = {**BEFORE, "limits": {**BEFORE["limits"], "pages_per_host": 0}}
    assert getattr(Plan.decode(json.dumps(no_host_budget)), name) is None


def test_the_scripts_are_told_no_limit_in_their_own_words() -> None:
    told = Plan().meta_fields(0, "{}")
    assert (told["pages"], told["pages_per_host"], told["give_up"]) == (-1, 0, 0)
    shares = [Plan(pages=5, shards=3).meta_fields(shard, "{}")["pages"] for shard in range(3)]
    assert shares == [2, 2, 1]


def test_a_plan_of_the_version_before_is_read_as_that_version_went_by_it() -> None:
    plan = Plan.decode(json.dumps(BEFORE))
    assert plan == Plan(
        spider="shop",
        scope="any",
        deny=("x",),
        weights={"depth": 5},
        identity="fingerprint",
        drop_params=("sid",),
        delay_s=0.5,
        pages_per_host=7,
        max_attempts=5,
        cookies=None,
    )


def test_a_plan_without_a_number_knew_requests_by_their_url() -> None:
    oldest = {"rules": {"scope": "any"}, "limits": {"lasts_ms": 90_000}}
    assert Plan.decode(json.dumps(oldest)) == Plan(scope="any", identity=BY_URL, minutes=1.5)


@pytest.mark.parametrize(
    "values",
    [
        {"scope": None},
        {"scope": "a\nb"},
        {"shards": "5"},
        {"shards": 0},
        {"pages": 0},
        {"pages": 1.5},
        {"pages": float("nan")},
        {"delay_s": float("inf")},
        {"minutes": -1},
        {"deny": "x"},
        {"deny": ["("]},
        {"deny": ["(" * 100_000]},
        {"allow": [1]},
        {"weights": []},
        {"cookies": "stolen"},
        {"spider": 5},
        {"novelty": None},
        {"traps": "yes"},
    ],
)
def test_what_no_setting_could_be_is_damage_and_said_in_one_line(values: dict[str, Any]) -> None:
    text = json.dumps({**json.loads(Plan().encode()), **values})
    with pytest.raises(CrawlDamaged, match=f"the plan's {next(iter(values))}") as caught:
        Plan.decode(text)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 600


@pytest.mark.parametrize(
    "changed",
    [
        {"limits": None},
        {"rules": []},
        {"limits": {"delay_ms": "x"}},
        {"limits": {"lasts_ms": []}},
        {"limits": {"pages": -2}},
        {"spider": 5},
        {"version": "1"},
        {"version": True},
    ],
)
def test_an_older_plan_can_be_damaged_too(changed: dict[str, Any]) -> None:
    with pytest.raises(CrawlDamaged):
        Plan.decode(json.dumps({**BEFORE, **changed}))


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"version": VERSION + 1}, f"version {VERSION + 1}"),
        ({"version": VERSION, "rules": {}}, "limits, rules"),
        ({"rules": {"robots": 1}, "limits": {"cost": 1}}, "cost, robots"),
    ],
)
def test_what_is_beyond_this_version_is_said_to_be_newer(
    changed: dict[str, Any], named: str
) -> None:
    with pytest.raises(CrawlNewer, match=f"has {named}, which this version"):
        Plan.decode(json.dumps({**BEFORE, **changed}))


@pytest.mark.parametrize(("others", "share"), [(0, 10), (4, 6), (10, 0), (13, 0)])
def test_a_budget_that_other_shards_have_used_up_does_not_become_none(
    others: int, share: int
) -> None:
    """A share below zero is one without limit."""
    assert pages_of_shard(Plan(), Plan(pages=10), others, is_first=True) == (0, share)


def test_a_comparison_names_what_was_asked_for_and_is_not_so() -> None:
    plan, wanted = Plan(depth=3, delay_s=1.0, cookies=""), Plan(depth=5, pages=7, cookies="shared")
    assert plan.differing(wanted, ["depth", "per_host"]) == ["depth 3"]
    assert plan.differing(wanted, ["cookies", "delay_s", "pages"]) == [
        "delay 1.0",
        "pages without limit",
        "cookies not shared",
    ]
