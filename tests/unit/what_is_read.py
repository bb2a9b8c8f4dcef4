"""What this Python reads in each of some texts: as a page, a sitemap, a feed and a URL.

python -m tests.unit.what_is_read < texts.json > read.json
"""

from __future__ import annotations

import json
import sys
from typing import Any

from crawlproj.discover import links, sitemaps, web_feeds
from crawlproj.discover.markup import start_tags
from crawlproj.urls import Url, UrlError, normalise

BASE = Url("http://example.com", "/folder/page?query")


def read(text: str) -> list[Any]:
    body = text.encode()
    seen = [normal(text), normal(text[:60])]
    seen += [links.extract(body), links.extract(body, images=True)]
    seen += [sitemaps.read(body), feed(body), list(start_tags(text)), links.candidates(text)]
    return seen


def normal(text: str) -> str:
    try:
        return str(normalise(text, BASE))
    except UrlError as error:
        return error.reason


def feed(body: bytes) -> Any:
    try:
        return web_feeds.read(body, str(BASE))
    except web_feeds.NoFeed as error:
        return str(error)


if __name__ == "__main__":
    json.dump([read(text) for text in json.load(sys.stdin)], sys.stdout)
