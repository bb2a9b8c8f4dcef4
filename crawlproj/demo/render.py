"""Demo pages as HTML, in parts that pages share: memory holds each part once.

A page is (its head, the host's navigation, its own links, filler text, the host's footer). Only
two of them are the page's own, a quarter of its bytes.
"""

from __future__ import annotations

from html import escape
from random import Random

from crawlproj.demo import words
from crawlproj.demo.model import Page, Ref
from crawlproj.demo.web import DemoWeb

FILLER_STEP_BYTES = 256
FILLER_VARIANTS = 4

HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
</head>
<body>
"""
NAV = "<header><p>{site}</p></header>\n<nav>\n<ul>\n{items}</ul>\n</nav>\n"
MAIN = '<main id="main">\n<h1>{title}</h1>\n<ul class="related">\n{items}</ul>\n'
FOOT = "</main>\n<footer><p>© {site}. All words are random.</p></footer>\n</body>\n</html>\n"


class Renderer:
    def __init__(self, web: DemoWeb) -> None:
        self._web = web
        self._labels: dict[Ref, tuple[str, str]] = {}
        self._frames: dict[int, tuple[bytes, bytes]] = {}
        self._fillers: dict[tuple[int, int], bytes] = {}

    def page(self, ref: Ref, page: Page) -> tuple[bytes, ...]:
        title = escape(self._web.title(ref, page))
        items = [self._item(ref, number, link) for number, link in enumerate(page.links)]
        items += [f'<li><a href="{link}">Contact</a></li>\n' for link in page.pseudo_links]
        head = HEAD.format(title=title).encode()
        main = MAIN.format(title=escape(page.title), items="".join(items)).encode()
        nav, foot = self._frame(ref, page.nav)
        size = self._web.spec.page_bytes - len(head) - len(nav) - len(main) - len(foot)
        return head, nav, main, self._filler(size, len(ref.path)), foot

    def _frame(self, ref: Ref, links: tuple[Ref, ...]) -> tuple[bytes, bytes]:
        """What stands above and below the content of every page of the host."""
        if ref.host not in self._frames:
            items = "".join(self._item(ref, 0, link) for link in links)
            site = self._web.hosts[ref.host].name
            nav = NAV.format(site=site, items=items).encode()
            self._frames[ref.host] = nav, FOOT.format(site=site).encode()
        return self._frames[ref.host]

    def _item(self, source: Ref, number: int, link: Ref) -> str:
        """Some links carry a fragment, some the whole URL, as on real pages."""
        path, label = self._label(link)
        if link.host != source.host or number % 5 == 3:
            path = self._web.bases[link.host] + path
        fragment = "#details" if number % 5 == 1 else ""
        return f'<li><a href="{path}{fragment}">{label}</a></li>\n'

    def _label(self, ref: Ref) -> tuple[str, str]:
        if ref not in self._labels:
            target = self._web.resources.get(ref)
            text = target.title if isinstance(target, Page) else ref.path.rpartition("/")[2]
            self._labels[ref] = escape(ref.path), escape(text)
        return self._labels[ref]

    def _filler(self, size: int, variant: int) -> bytes:
        key = max(0, size) // FILLER_STEP_BYTES, variant % FILLER_VARIANTS
        if key not in self._fillers:
            rng = Random(f"{self._web.spec.seed}/filler/{key[1]}")
            self._fillers[key] = words.paragraphs(rng, key[0] * FILLER_STEP_BYTES).encode()
        return self._fillers[key]
