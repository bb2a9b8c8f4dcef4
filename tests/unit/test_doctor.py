"""What `scrapy doctor` says about how pages are downloaded."""

from __future__ import annotations

import pytest
from scrapy.settings import Settings

from crawlproj.operate.doctor import check_downloads, check_proxies

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


@pytest.mark.parametrize(
    ("environment", "settings", "named"),
    [
        ({}, {}, ""),
        ({"http_proxy": "http://p:1"}, {}, "http_proxy: "),
        ({"HTTPS_PROXY": "http://p:1"}, {}, "https_proxy: "),
        ({"http_proxy": "http://p:1"}, {"HTTPPROXY_ENABLED": False}, ""),
        ({}, {"CRAWL_PROXIES": "http://p:1"}, "CRAWL_PROXIES: "),
    ],
)
def test_a_proxy_behind_which_no_name_is_judged_is_warned_about(
    environment: dict[str, str],
    settings: dict[str, object],
    named: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = list(check_proxies(Settings(settings)))
    assert [finding.level for finding in found] == ["warn"] * bool(named)
    assert all(finding.text.startswith(named) for finding in found)
