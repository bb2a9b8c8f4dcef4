"""What makes two requests one: their URL where links are ours, else what the project says."""

from __future__ import annotations

import pytest
from scrapy import Request
from scrapy.settings import Settings

from crawlproj.config import Config
from crawlproj.worker.join import Identity
from crawlproj.worker.seen_filter import SeenFilter


class ByHost:
    def fingerprint(self, request: Request) -> bytes:
        return request.url.split("/")[2].encode()


OWN = {"REQUEST_FINGERPRINTER_CLASS": ByHost}
TRACKED = ("http://a/?utm_source=a", "http://a/?utm_source=b")
ORDERED = ("http://a/?x=1&y=2", "http://a/?y=2&x=1")
ELSEWHERE = ("http://a/", "http://b/")


@pytest.mark.parametrize(
    ("settings", "identity", "urls", "are_one"),
    [
        ({}, "fingerprint", TRACKED, False),
        ({}, "fingerprint", ORDERED, True),
        ({}, "url", TRACKED, True),
        ({}, "url", ORDERED, False),
        (OWN, "fingerprint", ORDERED, True),
        (OWN, "fingerprint", ELSEWHERE, False),
        (OWN, "url", TRACKED, True),
        (OWN, "url", ORDERED, True),
    ],
)
def test_two_requests_are_one_by_the_identity_of_the_crawl(
    settings: dict[str, object], identity: str, urls: tuple[str, str], are_one: bool
) -> None:
    requests = SeenFilter.of_project(Settings(settings), Identity.of(Config(identity=identity)))
    one, other = (requests.key_of(Request(url)) for url in urls)
    assert (one == other) is are_one
