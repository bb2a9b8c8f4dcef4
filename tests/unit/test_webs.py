"""The webs of the benchmarks: what nginx sends of them, and to whom."""

from __future__ import annotations

import gzip
import ssl
import urllib.request
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import brotli
import pytest

from benchmarks import nginx, trees
from benchmarks.common import medians
from benchmarks.nginx import NO_CHARSET, UTF_8, Kind, Nginx
from crawlproj.discover import links
from tests.servers.tls import Authority

PAGES = {f"/{number}.html": b"<p>A page.</p>" * (number + 1) for number in range(40)}
ENCODINGS = ("gzip", "br")
UNPACKED = {None: bytes, "gzip": gzip.decompress, "br": brotli.decompress}


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Nginx, ssl.SSLContext]]:
    if not nginx.is_there():
        pytest.skip("no nginx here")
    folder: Path = tmp_path_factory.mktemp("web")
    trees.write(folder, PAGES, ENCODINGS)
    trees.repeat(folder, ["/0.html"], 2, ENCODINGS)
    authority = Authority(tmp_path_factory.mktemp("authority"))
    kinds = [Kind(*both) for both in product((UTF_8, NO_CHARSET), (("gzip",), ENCODINGS))]
    with Nginx(folder, kinds, authority) as server:
        yield server, ssl.create_default_context(cafile=str(authority.certificate))


def sent(web: tuple[Nginx, ssl.SSLContext], accepted: str) -> list[tuple[str, str | None]]:
    """Content type and encoding of every page, each of which arrives as it was."""
    server, trust = web
    found = []
    for path, body in PAGES.items():
        url = f"{server.seed}aab{path}"
        request = urllib.request.Request(url, headers={"Accept-Encoding": accepted})
        with urllib.request.urlopen(request, context=trust) as response:
            encoding = response.headers["Content-Encoding"]
            assert UNPACKED[encoding](response.read()) == body
            found.append((response.headers["Content-Type"], encoding))
    return found


def test_some_pages_come_as_gzip_and_some_as_brotli_with_a_charset_and_without(
    web: tuple[Nginx, ssl.SSLContext],
) -> None:
    assert set(sent(web, "gzip, br")) == set(product((UTF_8, NO_CHARSET), ("gzip", "br")))


def test_a_client_is_sent_what_it_accepts(web: tuple[Nginx, ssl.SSLContext]) -> None:
    assert {encoding for _, encoding in sent(web, "gzip")} == {"gzip"}
    assert {encoding for _, encoding in sent(web, "identity")} == {None}


def test_heavy_pages_have_one_size_and_lead_to_all_others() -> None:
    text = b"<p>Some words and <a href='nowhere.html'>a link</a>.</p>" * 1000
    [first], pages = trees.heavy({"/only.html": b"<html><body>%b</body></html>" % text})
    assert len(pages) == trees.HEAVY_PAGES
    targets = {path: links.extract(body, "utf-8").links for path, body in pages.items()}
    assert {len(found) for found in targets.values()} == {trees.HEAVY_LINKS}
    assert all(abs(len(body) - trees.HEAVY_BYTES) < 1000 for body in pages.values())
    reached, waiting = {first}, [first]
    while waiting:
        new = {f"/{target}" for target in targets[waiting.pop()]} - reached
        reached |= new
        waiting += new
    assert reached == set(pages)


def test_a_figure_that_some_rounds_lack_is_the_median_of_the_others() -> None:
    rows = [{"name": "a", "missed": None}, {"name": "a", "missed": 4}, {"name": "a", "missed": 2}]
    assert medians(rows, "name") == [{"name": "a", "missed": 3}]
