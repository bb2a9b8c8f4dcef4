"""Numbers and names that commands are given: which are taken, and what is said of the rest."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import pytest

from crawlproj.errors import ConfigError
from crawlproj.operate.command import check_crawl
from crawlproj.operate.option_values import count, megabytes, seconds, time_limit

NO_NUMBERS = ("", "x", "nan", "inf", "-inf", "1e300", "-5")
CASES: list[tuple[Callable[[str], float], tuple[str, ...], tuple[str, ...]]] = [
    (seconds, ("0", "0.5", "86400"), (*NO_NUMBERS, "86401")),
    (time_limit, ("0.1", "1e3", "86400"), (*NO_NUMBERS, "0", "86401")),
    (megabytes, ("100", "512", "1000000"), (*NO_NUMBERS, "0", "99", "100.5", "99999999999999")),
    (count, ("1", "16"), (*NO_NUMBERS, "0", "1.5", "9" * 5000)),
]


@pytest.mark.parametrize(("read", "right", "wrong"), CASES)
def test_a_number_is_taken_or_refused_with_what_is_accepted(
    read: Callable[[str], float], right: tuple[str, ...], wrong: tuple[str, ...]
) -> None:
    assert [read(text) for text in right] == [float(text) for text in right]
    for text in wrong:
        with pytest.raises(argparse.ArgumentTypeError, match="give "):
            read(text)


@pytest.mark.parametrize("name", ["", ".", "..", "./", "site/..", "/"])
def test_what_names_no_folder_of_its_own_is_no_name_of_a_crawl(name: str) -> None:
    with pytest.raises(ConfigError, match="no name of a crawl"):
        check_crawl(name)


@pytest.mark.parametrize("name", ["site", "my shop", "..a", "a.b", "site/earlier-1"])
def test_any_other_name_may_be_one(name: str) -> None:
    check_crawl(name)
