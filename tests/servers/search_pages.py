"""Pages of search engines for tests: of the structure that the real ones have, with other words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from crawlproj.discover.search_engines import Answer, Ask, Results

quote_all = 1
"""No engine."""


def result(href: str, kind: str = "web-result") -> str:
    href = href.replace("&", "&amp;")
    return f"""
      <div class="result results_links results_links_deep {kind} ">
        <div class="links_main links_deep result__body">
          <h2 class="result__title">
            <a rel="nofollow" class="result__a" href="{href}">A <b>title</b></a>
          </h2>
          <div class="result__extras"><div class="result__extras__url">
            <span class="result__icon"><a rel="nofollow" href="{href}"></a></span>
            <a class="result__url" href="{href}">shown</a>
          </div></div>
          <a class="result__snippet" href="{href}">Some <b>words</b></a>
        </div>
      </div>"""


def duckduckgo(
    urls: Sequence[str],
    *,
    ads: Sequence[str] = (),
    offset: int | None = None,
    back: int | None = None,
    nothing: bool = False,
) -> str:
    """A page of results; `offset` and `back` are where its buttons lead."""
    sold = "".join(
        result(
            f"//duckduckgo.com/y.js?ad_domain=x&u3={quote(url, '')}", "result--ad result--ad--small"
        )
        for url in ads
    )
    found = "".join(result(f"//duckduckgo.com/l/?uddg={quote(url, '')}&rut=5a") for url in urls)
    buttons = _button("Previous", back) + _button("Next", offset)
    none = '<div class="result result--no-result"><div class="no-results">None.</div></div>'
    return f"""<!DOCTYPE html PUBLIC "-//W3C//DTD HTML 4.01//EN">
<html><head><title>w at DuckDuckGo</title></head><body>
  <form action="/html/" method="post"><input name="q" value="w"/><input name="kl"/></form>
  <div class="serp__results"><div id="links" class="results">
    {sold}{found}<!-- results -->{none if nothing else ""}
    {buttons}
  </div></div></body></html>"""


def _button(name: str, offset: int | None) -> str:
    if offset is None:
        return ""
    fields = {"q": "w", "s": offset, "nextParams": "", "v": "l", "o": "json", "dc": offset + 1}
    hidden = "".join(
        f'<input type="hidden" name="{key}" value="{value}"/>'
        for key, value in {**fields, "api": "d.js", "vqd": "4-1"}.items()
    )
    button = f'<input type="submit" class="btn btn--alt" value="{name}"/>'
    return (
        f'<div class="nav-link"><form action="/html/" method="post">{button}{hidden}</form></div>'
    )


def searxng(urls: Sequence[str], silent: Sequence[Any] = ()) -> str:
    results = [
        {"url": url, "title": "t", "content": "c", "engine": "e", "engines": ["e"], "score": 1.0}
        for url in urls
    ]
    parts: dict[str, Any] = {"answers": [], "corrections": [], "infoboxes": [], "suggestions": []}
    return json.dumps(
        {"query": "w", "number_of_results": 0, "results": results, **parts}
        | {"unresponsive_engines": list(silent)}
    )


class Lines:
    """An engine of a user's own: a list of URLs, one a line."""

    def __init__(self, address: str) -> None:
        self._address = address

    def ask(self, words: str) -> Ask:
        return Ask(f"{self._address}{words}")

    def read(self, asked: Ask, answer: Answer) -> Results:
        return Results(answer.body.decode().split())
