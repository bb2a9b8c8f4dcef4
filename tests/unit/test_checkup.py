"""What `scrapy doctor` says about how pages are downloaded."""

from __future__ import annotations

import pytest
from scrapy.settings import Settings

from crawlproj.operate.doctor import check_downloads

SAFE = "crawlproj.fetch.handler.SafeDownloadHandler"
HTTP2 = "scrapy.core.downloader.handlers.http2.H2DownloadHandler"


@pytest.mark.parametrize(
    ("handlers", "warned"),
    [
        ({"http": SAFE, "https": SAFE}, []),
        ({"http": SAFE, "https": None}, []),
        ({"http": SAFE, "https": HTTP2}, ["https downloads"]),
        ({}, ["http downloads", "https downloads"]),
    ],
)
def test_a_handler_that_judges_no_addresses_is_warned_about(
    handlers: dict[str, str | None], warned: list[str]
) -> None:
    found = list(check_downloads(Settings({"DOWNLOAD_HANDLERS": handlers})))
    assert [finding.about for finding in found] == warned
    assert all(finding.level == "warn" for finding in found)
