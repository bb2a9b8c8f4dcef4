"""`sitemap.xml` of a crawl, as sitemaps.org has it: the pages of one host that answered well.

A file holds 50,000 URLs and 50 MB at most. What does not fit into one is in numbered files, packed,
and `sitemap.xml` is their index. It is written last: whoever sees it sees the others too.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from crawlproj.errors import ConfigError, CrawlError
from crawlproj.output.tables import Tables
from crawlproj.output.whole_file import written_whole

MOST_URLS = 50_000
MOST_BYTES = 50_000_000
FILE = "sitemap.xml"
_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
_SPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
_HOST = "regexp_extract(url, '^[a-z]+://[^/?#]+')"
_GOOD = "status = 200 AND content_type IN ('text/html', 'application/xhtml+xml', '')"


class NoPages(CrawlError):
    """A crawl without a page that a sitemap could have."""


def host_of(tables: Tables, wanted: str) -> str:
    """Scheme and host whose pages are meant: the only one there is, or the one that was asked for,
    with or without its scheme."""
    found = tables.ask(
        f"SELECT {_HOST} AS host, count(*) FROM pages WHERE {_GOOD} GROUP BY host "
        "ORDER BY count(*) DESC, host LIMIT 5"
    )
    hosts = [host for host, _ in found]
    if not hosts:
        raise NoPages("No sitemap: the crawl has no page that answered well")
    if wanted:
        named = [wanted, f"http://{wanted}", f"https://{wanted}"]
        sql = f"SELECT DISTINCT {_HOST} FROM pages WHERE {_GOOD} AND {_HOST} IN (?, ?, ?)"
        hosts = [host for (host,) in tables.ask(sql, named)]
    if len(hosts) != 1:
        some = ", ".join(host for host, _ in found)
        raise ConfigError(f"--host {wanted}: give one of the hosts of this crawl, as {some}")
    return str(hosts[0])


def write_sitemap(tables: Tables, host: str, folder: Path) -> tuple[int, list[str]]:
    """Write the sitemap of a host; returns how many URLs it has, and its files."""
    sql = f"SELECT url FROM pages WHERE {_GOOD} AND {_HOST} = ? ORDER BY url"
    entries = (f"<url><loc>{escape(url)}</loc></url>\n" for (url,) in tables.each(sql, [host]))
    folder.mkdir(parents=True, exist_ok=True)
    files: list[str] = []
    urls = 0
    chunks = _chunks(entries)
    first, second = next(chunks, []), next(chunks, None)
    if second is None:
        _put(folder / FILE, "urlset", first)
        return len(first), [FILE]
    for number, chunk in enumerate(_again(first, second, chunks), 1):
        urls += len(chunk)
        files.append(f"sitemap-{number}.xml.gz")
        _put(folder / files[-1], "urlset", chunk)
    places = (f"<sitemap><loc>{escape(f'{host}/{name}')}</loc></sitemap>\n" for name in files)
    _put(folder / FILE, "sitemapindex", list(places))
    return urls, [FILE, *files]


def _again(first: list[str], second: list[str], rest: Iterator[list[str]]) -> Iterator[list[str]]:
    yield first
    yield second
    yield from rest


def _chunks(entries: Iterable[str]) -> Iterator[list[str]]:
    """As many as a file may hold."""
    chunk: list[str] = []
    size = 0
    for entry in entries:
        if len(chunk) == MOST_URLS or size + len(entry.encode()) > MOST_BYTES - 1000:
            yield chunk
            chunk, size = [], 0
        chunk.append(entry)
        size += len(entry.encode())
    if chunk:
        yield chunk


def _put(path: Path, element: str, entries: Sequence[str]) -> None:
    text = f"{_HEAD}<{element} {_SPACE}>\n{''.join(entries)}</{element}>\n".encode()
    with written_whole(path) as unfinished:
        # Without the time: the same pages give the same bytes.
        unfinished.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
