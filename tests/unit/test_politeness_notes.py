"""What a failed request is taken to say of its host."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request
from scrapy.exceptions import DownloadCancelledError, DownloadTimeoutError
from scrapy.utils.test import get_crawler

from crawlproj.config import Config
from crawlproj.errors import BrowserFailed, NoLongerOurs
from crawlproj.frontier.messages import Lease
from crawlproj.frontier.outcomes import Attempt, Health
from crawlproj.frontier.pacing import Overrides
from crawlproj.frontier.plan import Plan
from crawlproj.politeness.middleware import PolitenessMiddleware
from crawlproj.running import announce
from crawlproj.worker.tracking import Tracking


@pytest.mark.parametrize(
    ("error", "health", "held"),
    [
        (DownloadTimeoutError(), Health.FAILED, True),
        (DownloadCancelledError(), Health.ANSWERED, False),
        (BrowserFailed("it crashed"), Health.ANSWERED, False),
        (NoLongerOurs(), Health.UNKNOWN, False),
    ],
)
def test_only_what_a_host_is_to_blame_for_is_held_against_it(
    error: Exception, health: Health, held: bool
) -> None:
    crawler, request = get_crawler(), Request("http://a/page")
    tracking, held_hosts = Tracking(lambda _: None), []
    attempt = Attempt(Lease(0, 7, "http://a", 0, b"\0\1/page"))
    tracking.begin(request, attempt)
    frontier = SimpleNamespace(plan=Plan(), overrides=Overrides(), connections=lambda _: 1)
    holds = SimpleNamespace(note=lambda *_, **__: held_hosts.append("http://a"))
    crawl: Any = SimpleNamespace(tracking=tracking, frontier=frontier, holds=holds, permission=None)
    announce(crawler, crawl)
    PolitenessMiddleware(Config(), crawler).process_exception(request, error)
    assert (attempt.health, bool(held_hosts)) == (health, held)
