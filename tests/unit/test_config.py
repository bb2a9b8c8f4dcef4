"""Every setting of ours: what it accepts, and what it says of the rest."""

from __future__ import annotations

import math
from typing import Any

import pytest
from scrapy import Spider
from scrapy.settings import Settings

from crawlproj.config import (
    PREFIXES,
    Config,
    arguments,
    asked_for,
    crawl_name,
    doubtful_variables,
    options,
    refuse_unknown_arguments,
    take_arguments,
    unknown_names,
)
from crawlproj.errors import ConfigError

WHOLE = "give a whole number, 1 or more"
SECONDS = "give seconds, 0 to 86400"
POSITIVE = "give seconds, more than 0"
NOT_COUNTS = ["0", "-1", "many", "1.5", 2.5, math.inf, math.nan, [], 10**16]
NOT_SECONDS = ["-1", "soon", math.nan, math.inf, "1e9", []]

BAD: dict[str, tuple[list[Any], str]] = {
    "CRAWL_SCOPE": (["page", "HOST", 5, ["host"]], "give one of host, domain, any"),
    "CRAWL_ALLOW": (["(", ["a", "["], 5, [5]], "give a regular expression"),
    "CRAWL_DENY": (["*", ["a", "+"]], "give a regular expression"),
    "CRAWL_DEPTH": (["-1", "deep", 1.5], "give a whole number, 0 or more"),
    "CRAWL_PAGES": (NOT_COUNTS, WHOLE),
    "CRAWL_PAGES_PER_HOST": (NOT_COUNTS, WHOLE),
    "CRAWL_PAGES_PER_DOMAIN": (NOT_COUNTS, WHOLE),
    "CRAWL_MINUTES": (["0", "-1", "long", math.inf, math.nan], "give minutes, more than 0"),
    "CRAWL_STRATEGY": (
        ["best", "", "a b.c", 5],
        "give breadth, weighted, novelty, opic or the dotted",
    ),
    "CRAWL_WEIGHTS": (["heavy", 5], 'give a table such as {"depth": '),
    "CRAWL_NOFOLLOW": (["perhaps"], "give true or false"),
    "CRAWL_TRAPS": (["perhaps"], "give true or false"),
    "CRAWL_NOINDEX": (["perhaps"], "give true or false"),
    "CRAWL_SITEMAPS": (["perhaps"], "give true or false"),
    "CRAWL_REFERER": (["perhaps"], "give true or false"),
    "CRAWL_LINKS": (["perhaps"], "give true or false"),
    "CRAWL_CHECK": (["inside", "true"], "give one of offsite, onsite, all"),
    "CRAWL_ANCHORS": (["perhaps"], "give true or false"),
    "CRAWL_STORE": (
        ["mysql://h/d", "sqlite://", "sqlite:///", "postgresql:h", 5],
        "give sqlite:///FILE, postgresql://USER@HOST/DATABASE",
    ),
    "CRAWL_ARCHIVE": (["perhaps"], "give true or false"),
    "CRAWL_ARCHIVE_DEDUP": (["perhaps"], "give true or false"),
    "CRAWL_ARCHIVE_ROTATE_MB": (["0", "-1", "big", math.inf], "give megabytes, more than 0"),
    "CRAWL_REFRESH": (
        ["5", "5/year", "-1/s", "0/s", "5 /s", "nan/s", "1e3/s", 5, "9999999/s"],
        "give a number of fetches in a time",
    ),
    "CRAWL_REFRESH_SHORTEST": (["0", "-1", "soon", math.inf, "2e9"], "give seconds, more than 0"),
    "CRAWL_REFRESH_LONGEST": (["0", "-1", "soon", math.inf, "2e9"], "give seconds, more than 0"),
    "CRAWL_REFRESH_POLICY": (["best", 5], "give one of optimal, uniform, proportional"),
    "CRAWL_MEDIA": (["perhaps"], "give true or false"),
    "CRAWL_ATTRIBUTES": (["perhaps"], "give true or false"),
    "CRAWL_AGAINST": (["nowhere"], "no such folder; give one with files of a crawl"),
    "CRAWL_EXTRACT": (["nowhere.toml"], "no such file"),
    "CRAWL_NEAR": (["perhaps"], "give true or false"),
    "CRAWL_KEEP": (["language", "published within days", 'text matches "("', "("], "column "),
    "CRAWL_SEARCH_URL": (["searx", "ftp://a/", "http://", 5], "give an address such as https://"),
    "CRAWL_IDENTITY": (["URL", "key", 5], "give one of fingerprint, url"),
    "CRAWL_DROP_PARAMS": (["a=b", "*", "a**", [5], 5], "give names such as"),
    "CRAWL_TRAP_DEPTH": (NOT_COUNTS, WHOLE),
    "CRAWL_TRAP_REPEATS": (NOT_COUNTS, WHOLE),
    "CRAWL_TRAP_PARAMS": (NOT_COUNTS, WHOLE),
    "CRAWL_TRAP_QUERIES": (["-1", "many", 0.5], "give a whole number, 0 or more"),
    "CRAWL_PATTERNS": (["on", "similar", 5], "give one of off, same, alike"),
    "CRAWL_PATTERN_PAGES": (NOT_COUNTS, WHOLE),
    "CRAWL_STAY": (["perhaps", "2"], "give true or false"),
    "CRAWL_NAME": (["a/b", "{a}", "-x", "a b", ".."], "give a name of letters, digits"),
    "CRAWL_REPORTS": (["perhaps"], "give true or false"),
    "CRAWL_REPORT_PIPELINES": ([5, [5]], "give words, separated by commas"),
    "CRAWL_STATS_INTERVAL": (["0", *NOT_SECONDS], POSITIVE),
    "CRAWL_FEED_ROTATE_MB": (["0", "-1", "big", math.inf], "give megabytes, more than 0"),
    "CRAWL_FEED_ROTATE_MINUTES": (["0", "old"], "give minutes, more than 0"),
    "CRAWL_MEMORY_LIMIT_MB": (["-1", "little", 1.5], "give a whole number, 0 or more"),
    "POLITENESS_DELAY": (NOT_SECONDS, SECONDS),
    "POLITENESS_PER_HOST": (NOT_COUNTS, WHOLE),
    "CRAWL_PROXIES": (["p:3128", "http://p", "ftp://p:1", "http://:1", 5], "give proxies such"),
    "CRAWL_ALLOW_ADDRESSES": (["10.0.0.0/99", "home", 5], "give networks such as"),
    "CRAWL_COOKIES": (["on", "true"], "give one of shared"),
    "CRAWL_CONTENT_TYPES": ([5, [5]], "give words, separated by commas"),
    "CRAWL_STRICT": (["perhaps"], "give true or false"),
    "CRAWL_DNS_TTL": (NOT_SECONDS, SECONDS),
    "CRAWL_HTTP": (["1", "4", "h2", 5], "give one of"),
    "CRAWL_CONNECT_TIMEOUT": (NOT_SECONDS, SECONDS),
    "CRAWL_FIRST_BYTE_TIMEOUT": (NOT_SECONDS, SECONDS),
    "CRAWL_METRICS_PORT": ([-1, 65_536, "many"], "give a port, 1 to 65535, or 0 for none"),
    "CRAWL_NOTIFY": (["mail 'me"], "give an http(s) URL or a command"),
    "CRAWL_STALLED": ([0, -1, "soon"], "give seconds, more than 0"),
    "CRAWL_CA_FILE": (["/no/such.pem", __file__, "/"], "give a file of certificates"),
    "CRAWL_CLIENT_CERTIFICATES": (
        ["x", 5, {"a.test": "/no/such.pem"}, {"a.test": __file__}, {"a.test": 5}],
        "give a table such as",
    ),
    "CRAWL_RENDER": (["allways", "Auto", "never!", "(", "[a"], "give auto, always, never, or a"),
    "CRAWL_RENDER_TIMEOUT": (["0", *NOT_SECONDS], POSITIVE),
    "CRAWL_RENDER_PAGES": (NOT_COUNTS, WHOLE),
    "CRAWL_RENDER_MEMORY_MB": (["0", "-1", "big", math.inf], "give megabytes, more than 0"),
    "CRAWL_RENDER_HOSTS": ([5, [5]], "give words, separated by commas"),
    "POLITENESS_SLOWNESS": (["-1", "slow", math.nan], "give a"),
    "POLITENESS_LONGEST_PAUSE": (NOT_SECONDS, SECONDS),
    "POLITENESS_BACKOFF": (NOT_SECONDS, SECONDS),
    "POLITENESS_LONGEST_HOLD": (NOT_SECONDS, SECONDS),
    "POLITENESS_OVERRIDES": (["host", 5, ["a"]], 'give a table such as {"example.com": '),
    "POLITENESS_GROUP": (["site", "HOST", 5], "give one of host, domain, address"),
    "POLITENESS_ROBOTS": (["perhaps"], "give true or false"),
    "POLITENESS_SHARED": (["perhaps"], "give true or false"),
    "POLITENESS_GIVE_UP": (["-1", "never", 0.5], "give a whole number, 0 or more"),
    "FRONTIER_EMBEDDED": (["perhaps"], "give true or false"),
    "FRONTIER_WAIT_REPLICAS": (["-1", "x", "101"], "give a whole number, 0 to 100"),
    "FRONTIER_WAIT_TIMEOUT": (["0", "x", "6"], "give seconds, more than 0, at most 5"),
    "FRONTIER_SHARDS": (["0", "x", "16385"], "give a whole number, 1 to 16384"),
    "FRONTIER_OUTCOMES": (["perhaps"], "give true or false"),
    "FRONTIER_SPECULATE": (["twice"], "give true or false"),
    "CRAWL_LOG_FORMAT": (["xml", ""], "give one of text, json"),
    "CRAWL_LOG_MAX_BYTES": ([0, "much"], "give a whole number, 1 or more"),
    "CRAWL_LOG_FILES": ([0, "many"], "give a whole number, 1 or more"),
    "FRONTIER_LEASE_TIMEOUT": (["0", *NOT_SECONDS], POSITIVE),
    "FRONTIER_MAX_ATTEMPTS": (["0", "256", "x"], "give a whole number, 1 to 255"),
    "FRONTIER_RETRY_DELAY": (NOT_SECONDS, SECONDS),
    "FRONTIER_MAX_RECORD_BYTES": (NOT_COUNTS, WHOLE),
    "FRONTIER_MEMORY_WATERMARK": (
        ["0", "1.1", "-1", "full", math.nan],
        "give a share between 0.01",
    ),
    "FRONTIER_BACKLOG": (NOT_COUNTS, WHOLE),
    "SEEN_CAPACITY": (NOT_COUNTS, WHOLE),
    "SEEN_ERROR_RATE": (["0", "0.5", "1", "-0.1", "low"], "give a share between 0 and 0.5"),
    "SEEN_AUDIT_ONE_IN": (NOT_COUNTS, WHOLE),
}
TAKES_ANYTHING = {
    "CRAWL_SEEDS",
    "CRAWL_OUTPUT",
    "CRAWL_WORKER_ID",
    "CRAWL_RUN_ID",
    "CRAWL_BROWSER",
    "CRAWL_DASHBOARD_TOKEN",
    "CRAWL_METRICS_HOST",
    "CRAWL_DASHBOARD_HOSTS",
}

GOOD: list[tuple[str, Any, str, Any]] = [
    ("CRAWL_SEEDS", "http://a,http://b", "seeds", "http://a,http://b"),
    ("CRAWL_SCOPE", "domain", "scope", "domain"),
    ("CRAWL_ALLOW", "/blog/", "allow", ("/blog/",)),
    ("CRAWL_ALLOW", ["/a", "", "/b"], "allow", ("/a", "/b")),
    ("CRAWL_DEPTH", "0", "depth", 0),
    ("CRAWL_PAGES", "5000", "pages", 5000),
    ("CRAWL_PAGES", 5.0, "pages", 5),
    ("CRAWL_MINUTES", "1.5", "minutes", 1.5),
    ("CRAWL_STRATEGY", "my.module.rank", "strategy", "my.module.rank"),
    ("CRAWL_STAY", "Yes", "stay", True),
    ("CRAWL_RENDER", "never", "render", None),
    ("CRAWL_RENDER", "/shop/.*", "render", "/shop/.*"),
    ("CRAWL_STAY", "false", "stay", False),
    ("CRAWL_STAY", True, "stay", True),
    ("POLITENESS_DELAY", "0", "delay_s", 0.0),
    ("POLITENESS_PER_HOST", "3", "per_host", 3),
    ("FRONTIER_MAX_ATTEMPTS", "255", "max_attempts", 255),
    ("SEEN_ERROR_RATE", "1e-6", "seen_error_rate", 1e-6),
]


@pytest.mark.parametrize(("setting", "raw", "field", "value"), GOOD)
def test_a_setting_is_read_as_its_type(setting: str, raw: Any, field: str, value: Any) -> None:
    found = getattr(Config.from_settings({setting: raw}), field)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("setting", "raw", "expected"),
    [
        (setting, raw, expected)
        for setting, (raws, expected) in BAD.items()
        for raw in raws
        if raw != ""
    ],
)
def test_a_bad_value_is_refused_by_the_settings_name_and_what_is_accepted(
    setting: str, raw: Any, expected: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        Config.from_settings({setting: raw})
    assert str(caught.value).startswith(f"{setting}={raw}: {expected}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("setting", "raw", "shown"),
    [
        ("CRAWL_STORE", "postgresql://u:s3cr3t@x@h/d", "postgresql://…@h/d"),
        ("CRAWL_STORE", "postgresq://h/d?password=s3cr3t&a=b", "postgresq://h/d?password=…&a=b"),
        ("CRAWL_PROXIES", "http://u:s3cr3t@h:1,nonsense", "http://…@h:1,nonsense"),
    ],
)
def test_a_bad_value_is_shown_without_its_password(setting: str, raw: str, shown: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Config.from_settings({setting: raw})
    assert str(caught.value).startswith(f"{setting}={shown}: give ")


def test_every_setting_has_its_bad_values_in_the_table() -> None:
    assert {option.setting for option in options()} - TAKES_ANYTHING <= BAD.keys()


@pytest.mark.parametrize(("argument", "setting"), list(arguments().items()))
def test_what_came_as_an_argument_is_refused_by_the_arguments_name(
    argument: str, setting: str
) -> None:
    if setting in BAD:
        raw, expected = BAD[setting][0][0], BAD[setting][1]
        with pytest.raises(ConfigError) as caught:
            Config.from_settings({setting: raw}, given=[argument])
        assert str(caught.value).startswith(f"{argument}={raw}: {expected}")


def test_the_arguments_are_those_that_users_were_promised() -> None:
    promised = (
        "seeds scope allow deny depth pages pages_per_host pages_per_domain minutes strategy delay "
        "per_host stay"
    )
    assert list(arguments()) == sorted(arguments(), key=list(arguments()).index)
    assert set(promised.split()) <= set(arguments())


@pytest.mark.parametrize("unset", [None, ""])
def test_what_is_not_set_has_its_default(unset: Any) -> None:
    settings = {option.setting: unset for option in options()}
    found, defaults = Config.from_settings(settings), Config()
    assert found == Config.from_settings({})
    assert (found.scope, found.pages, found.shards) == (defaults.scope, None, defaults.shards)


STRICT = {"CRAWL_STRICT": True}
"""As in the project that this package belongs to."""

SLIPS = [
    ("CRAWL_PAGE", "CRAWL_PAGES"),
    ("CRAWL_PAEGS", "CRAWL_PAGES"),
    ("POLITENESS_DELAYS", "POLITENESS_DELAY"),
    ("FRONTIER_SHARD", "FRONTIER_SHARDS"),
    ("SEEN_CAPACTIY", "SEEN_CAPACITY"),
]


@pytest.mark.parametrize("project", [STRICT, {}], ids=["ours", "another's"])
@pytest.mark.parametrize(("misspelt", "meant"), SLIPS)
def test_a_misspelt_setting_stops_the_start_and_suggests_the_nearest(
    project: dict[str, bool], misspelt: str, meant: str
) -> None:
    with pytest.raises(ConfigError, match=f"^{misspelt}: no such setting; did you mean {meant}"):
        Config.from_settings({**project, misspelt: "1"})


@pytest.mark.parametrize(
    ("misplaced", "meant"),
    [
        ("CRAWL_DELAY", "POLITENESS_DELAY"),
        ("POLITENESS_PAGES_PER_HOST", "CRAWL_PAGES_PER_HOST"),
        ("CRAWL_MEMRY_LIMT_MB", "CRAWL_MEMORY_LIMIT_MB"),
    ],
)
def test_so_does_one_of_another_prefix_and_a_long_one_with_two_slips(
    misplaced: str, meant: str
) -> None:
    with pytest.raises(ConfigError, match=f"^{misplaced}: no such setting; did you mean {meant}"):
        Config.from_settings({misplaced: "1"})


def test_in_our_project_a_setting_like_none_of_ours_is_told_all_there_are() -> None:
    with pytest.raises(ConfigError, match=r"^SEEN_9: no such setting; there are CRAWL_AGAINST, "):
        Config.from_settings({**STRICT, "SEEN_9": 1})


@pytest.mark.parametrize(
    "name", ["CRAWL_DATE", "CRAWL_SPEED", "CRAWL_JOB_ID", "FRONTIER_MODE", "SEEN_9", "CRAWL_STATE"]
)
def test_in_another_project_a_setting_like_none_of_ours_is_its_own(name: str) -> None:
    assert Config.from_settings({name: "1"}) == Config.from_settings({})
    assert unknown_names({name: "1", "CRAWL_PAGES": 5, "BOT_NAME": "x"}) == [name]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("CRAWL_MEMORY_LIMIT", ["did you mean CRAWL_MEMORY_LIMIT_MB?"]),
        ("FRONTIER_LEASE_TIME", ["did you mean FRONTIER_LEASE_TIMEOUT?"]),
        ("CRAWL_JOB_ID", []),
        ("CRAWL_MEMORY_LIMIT_MB", []),
        ("MY_CRAWL_MEMORY_LIMIT", []),
    ],
)
def test_a_variable_that_resembles_a_setting_of_ours_is_doubted_and_left_alone(
    monkeypatch: pytest.MonkeyPatch, name: str, said: list[str]
) -> None:
    monkeypatch.setenv(name, "500")
    Config.from_settings({})
    assert [doubt.partition("; ")[2] for doubt in doubtful_variables()] == said


def test_settings_of_others_are_left_alone() -> None:
    Config.from_settings({"DOWNLOAD_TIMEOUT": 5, "SCRAWL_X": 1, "MY_CRAWL_PAGES": "many"})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("page", "-a page=…: no such argument; did you mean pages"),
        ("xyzzy", "-a xyzzy=…: no such argument; there are against, "),
    ],
)
def test_an_unknown_argument_stops_the_start_and_suggests_the_nearest(
    given: str, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        refuse_unknown_arguments(["seeds", given])
    assert str(caught.value).startswith(message)
    refuse_unknown_arguments(arguments())


@pytest.mark.parametrize("name", [name for name in arguments() if name != "seeds"])
@pytest.mark.parametrize("value", ["", " "])
def test_an_argument_without_a_value_stops_the_start_and_says_what_is_accepted(
    name: str, value: str
) -> None:
    with pytest.raises(ConfigError, match=f"^-a {name}={value}: .*give .*, or leave it out$"):
        take_arguments(Settings(), {name: value})


def test_arguments_may_be_unset_by_programs() -> None:
    settings = Settings()
    take_arguments(settings, {"pages": None, "allow": ()})
    assert Config.from_settings(settings).pages is None


def test_every_setting_has_one_of_our_prefixes_and_is_explained() -> None:
    for option in options():
        assert option.setting.startswith(PREFIXES)
        assert option.doc
    assert len({option.setting for option in options()}) == len(options())


# Scrapy's own settings where ours are silent

EIGHT = {"CONCURRENT_REQUESTS_PER_DOMAIN": 8}


@pytest.mark.parametrize(
    ("settings", "delay_s", "per_host", "depth"),
    [
        ({}, 0.0, 1, None),
        ({"DOWNLOAD_DELAY": "2.5"}, 2.5, 1, None),
        ({"DOWNLOAD_DELAY": 0, "POLITENESS_DELAY": 3}, 3.0, 1, None),
        ({"DOWNLOAD_DELAY": 2, "POLITENESS_DELAY": 0}, 0.0, 1, None),
        (EIGHT, 0.0, 8, None),
        ({**EIGHT, "POLITENESS_PER_HOST": 2}, 0.0, 2, None),
        ({**EIGHT, "DOWNLOAD_DELAY": 2}, 2.0, 1, None),
        ({**EIGHT, "DOWNLOAD_DELAY": 2, "POLITENESS_PER_HOST": 3}, 2.0, 3, None),
        ({**EIGHT, "POLITENESS_DELAY": 1}, 1.0, 1, None),
        ({**EIGHT, "POLITENESS_DELAY": 1, "POLITENESS_PER_HOST": 3}, 1.0, 3, None),
        ({**EIGHT, "DOWNLOAD_DELAY": 2, "POLITENESS_DELAY": 1}, 1.0, 1, None),
        ({**EIGHT, "DOWNLOAD_DELAY": 2, "POLITENESS_DELAY": 0}, 0.0, 8, None),
        ({"DEPTH_LIMIT": "4"}, 0.0, 1, 4),
        ({"DEPTH_LIMIT": 0}, 0.0, 1, None),
        ({"DEPTH_LIMIT": "0", "CONCURRENT_REQUESTS_PER_DOMAIN": "0"}, 0.0, 1, None),
        ({"DEPTH_LIMIT": 4, "CRAWL_DEPTH": 0}, 0.0, 1, 0),
    ],
)
def test_scrapys_settings_speak_where_ours_are_silent(
    settings: dict[str, Any], delay_s: float, per_host: int, depth: int | None
) -> None:
    config = Config.from_settings(settings)
    assert (config.delay_s, config.per_host, config.depth) == (delay_s, per_host, depth)


@pytest.mark.parametrize(
    ("setting", "raw", "expected"),
    [
        ("DOWNLOAD_DELAY", "slow", SECONDS),
        ("DOWNLOAD_DELAY", -1, SECONDS),
        ("CONCURRENT_REQUESTS_PER_DOMAIN", "all", "give a whole number, 0 or more"),
        ("DEPTH_LIMIT", "deep", "give a whole number, 0 or more"),
    ],
)
def test_a_bad_value_of_scrapys_is_refused_by_its_name(
    setting: str, raw: Any, expected: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        Config.from_settings({setting: raw})
    assert str(caught.value).startswith(f"{setting}={raw}: {expected}")


def test_real_scrapy_settings_are_accepted() -> None:
    config = Config.from_settings(Settings({"CRAWL_PAGES": "3"}))
    assert (config.pages, config.per_host) == (
        3,
        Settings().getint("CONCURRENT_REQUESTS_PER_DOMAIN"),
    )


@pytest.mark.parametrize("profile", ["base", "broad", "cluster", "fast"])
def test_every_profile_of_the_project_is_accepted(profile: str) -> None:
    settings = Settings()
    settings.setmodule(f"settings.{profile}")
    Config.from_settings(settings)


@pytest.mark.parametrize("beside", [{"FRONTIER_SHARDS": 2}, {"CRAWL_PAGES_PER_DOMAIN": 9}])
def test_what_cannot_be_kept_together_is_refused(beside: dict[str, Any]) -> None:
    Config.from_settings({"POLITENESS_GROUP": "domain", **beside})
    with pytest.raises(ConfigError, match=r"^POLITENESS_GROUP=address: "):
        Config.from_settings({"POLITENESS_GROUP": "address", **beside})


@pytest.mark.parametrize(
    ("settings", "attempts"),
    [
        ({}, 4),
        ({"RETRY_TIMES": "2"}, 4),
        ({"RETRY_TIMES": "10"}, 11),
        ({"RETRY_TIMES": 10, "FRONTIER_MAX_ATTEMPTS": 3}, 3),
        ({"RETRY_TIMES": 1000}, 255),
    ],
)
def test_scrapys_retries_are_all_allowed_unless_the_attempts_are_given(
    settings: dict[str, Any], attempts: int
) -> None:
    assert Config.from_settings(settings).max_attempts == attempts


def test_a_variable_of_the_environment_counts_more_than_files_and_less_than_the_command_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CRAWL_COOKIES", "shared")
    monkeypatch.setenv("POLITENESS_DELAY", "3")
    monkeypatch.setenv("SEEN_CAPACITY", "")
    monkeypatch.setenv("CRAWL_DATE", "somebody else's")
    settings = Settings({"POLITENESS_DELAY": 0.25, "SEEN_CAPACITY": 7})
    settings.set("POLITENESS_DELAY", 1, priority="spider")
    found = Config.from_settings(settings)
    assert (found.cookies, found.delay_s, found.seen_capacity) == ("shared", 3, 7)
    assert "delay_s" not in asked_for(settings)
    settings.set("POLITENESS_DELAY", 2, priority="cmdline")
    assert Config.from_settings(settings).delay_s == 2


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("CRAWL_COOKEIS", "shared", "did you mean CRAWL_COOKIES"),
        ("FRONTIER_DELAY", "1", "did you mean POLITENESS_DELAY"),
        ("CRAWL_PAGES", "many", "CRAWL_PAGES=many: give a whole number"),
    ],
)
def test_a_variable_that_is_wrong_stops_the_start_as_a_setting_does(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=message):
        Config.from_settings(Settings())


def test_the_crawls_name_comes_from_the_command_line_the_environment_or_the_spider(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spider = Spider(name="site")
    assert crawl_name(Settings(), spider) == "site"
    monkeypatch.setenv("CRAWL_NAME", "deployed")
    assert crawl_name(Settings(), spider) == Config.from_settings(Settings()).crawl == "deployed"
    named = Settings({"CRAWL_NAME": "docs"}, priority="cmdline")
    assert crawl_name(named, spider) == Config.from_settings(named).crawl == "docs"
