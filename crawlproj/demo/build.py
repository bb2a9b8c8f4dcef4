"""The whole web from its spec: host trees, joined, with everything that goes wrong in them.

Each kind of misfortune draws from a random generator of its own, so that leaving one out does not
change the others. Nothing here depends on addresses or ports.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random

from crawlproj.demo import robots, words
from crawlproj.demo.model import Asset, Page, Redirect, Ref, Resource
from crawlproj.demo.spec import WebSpec
from crawlproj.demo.tree import HostDraft, PageDraft, grow

PSEUDO_LINKS = ("mailto:editor@example.com", "javascript:void(0)", "tel:+15550100", "#main")
REDIRECT_STATUSES = (301, 302, 307, 308)
ASSETS = (
    ("/files/{}.pdf", "application/pdf", b"%PDF-1.4\n%%EOF\n"),
    ("/data/{}.csv", "text/csv", b"city,people\nDelft,106086\n"),
    ("/static/{}.css", "text/css", b"body { margin: 2em }\n"),
    ("/api/{}", "application/json", b'{"links": ["/not-a-link"]}\n'),
)


def build(spec: WebSpec) -> tuple[list[HostDraft], dict[Ref, Resource]]:
    """The hosts, and what every path of theirs is. A link to anything else is a missing page."""
    builder = _Builder(spec)
    builder.join_hosts()
    builder.add_cross_links()
    builder.add_redirects()
    builder.add_missing()
    builder.add_assets()
    builder.add_private_pages()
    builder.add_misfortunes()
    return builder.hosts, builder.finish()


class _Builder:
    def __init__(self, spec: WebSpec) -> None:
        self.spec = spec
        self.hosts = [grow(spec, host, pages) for host, pages in enumerate(_shares(spec))]
        self._pages = [page for host in self.hosts for page in host.pages]
        self._extras: dict[Ref, Resource] = {}

    def join_hosts(self) -> None:
        """One link to each root, so that all hosts are reachable from the first."""
        rng = self._rng("join")
        for number in range(1, self.spec.hosts):
            source = rng.choice(self.hosts[rng.randrange(number)].pages)
            source.links.append(self.hosts[number].pages[0].ref)

    def add_cross_links(self) -> None:
        rng = self._rng("cross_links")
        for _ in range(self._count(self.spec.cross_links)):
            source = rng.choice(self._pages)
            target = self._page_elsewhere(rng, source.ref.host)
            if target.ref not in source.links:
                source.links.append(target.ref)

    def add_redirects(self) -> None:
        """In turn: a page that moved, two that chain to it, and one that leaves the host."""
        rng = self._rng("redirects")
        previous = self.hosts[0].pages[0].ref
        for number in range(self._count(self.spec.redirects)):
            kind = number % 4
            if kind == 0:
                ref, target = self._move(rng, number)
            else:
                host = previous.host if kind < 3 else rng.randrange(self.spec.hosts)
                ref = Ref(host, f"/go/{words.slug(rng)}-{number}")
                target = previous if kind < 3 else self._page_elsewhere(rng, host).ref
                self._link(rng, ref)
            self._extras[ref] = Redirect(target, REDIRECT_STATUSES[number // 4 % 4])
            previous = ref

    def _move(self, rng: Random, number: int) -> tuple[Ref, Ref]:
        """Its parent now leads to the page by way of a redirect."""
        page = rng.choice(self._pages)
        ref = Ref(page.ref.host, f"/old/{words.slug(rng)}-{number}.html")
        if page.parent is None or page.ref not in page.parent.links:
            self._link(rng, ref)
        else:
            page.parent.links[page.parent.links.index(page.ref)] = ref
        return ref, page.ref

    def add_missing(self) -> None:
        rng = self._rng("not_found")
        for number in range(self._count(self.spec.not_found)):
            host = rng.randrange(self.spec.hosts)
            self._link(rng, Ref(host, f"/gone/{words.slug(rng)}-{number}.html"))

    def add_assets(self) -> None:
        rng = self._rng("non_html")
        for number in range(self._count(self.spec.non_html)):
            path, content_type, body = ASSETS[number % len(ASSETS)]
            name = f"{words.slug(rng)}-{number}"
            ref = Ref(rng.randrange(self.spec.hosts), path.format(name))
            self._link(rng, ref)
            self._extras[ref] = Asset(content_type, body)

    def add_private_pages(self) -> None:
        """Every third lies where robots.txt makes an exception."""
        rng = self._rng("private")
        for number in range(self._count(self.spec.private)):
            folder = robots.PRESS if number % 3 == 2 else robots.PRIVATE
            host = rng.randrange(self.spec.hosts)
            ref = Ref(host, f"{folder}{words.slug(rng)}-{number}.html")
            self._link(rng, ref)
            self._extras[ref] = Page(words.title(rng, number), nav=self.hosts[host].nav)

    def add_misfortunes(self) -> None:
        """Roots are spared: a crawl that starts there starts well."""
        inner = [page for page in self._pages if page.level]
        for page in self._sample("flaky", inner, self.spec.flaky):
            page.failures = 1 + page.level % 2
        for page in self._sample("slow", inner, self.spec.slow):
            page.delay_s = self.spec.slow_s
        for page in self._sample("pseudo_links", self._pages, self.spec.pseudo_links):
            page.pseudo_links = PSEUDO_LINKS

    def finish(self) -> dict[Ref, Resource]:
        pages = {page.ref: self._finish_page(page) for page in self._pages}
        return {**pages, **self._extras}

    def _finish_page(self, draft: PageDraft) -> Page:
        return Page(
            draft.title,
            self.hosts[draft.ref.host].nav,
            tuple(draft.links),
            draft.pseudo_links,
            draft.failures,
            draft.delay_s,
        )

    def _rng(self, purpose: str) -> Random:
        return Random(f"{self.spec.seed}/{purpose}")

    def _count(self, fraction: float) -> int:
        return round(fraction * self.spec.pages)

    def _sample(self, purpose: str, pages: list[PageDraft], fraction: float) -> list[PageDraft]:
        return self._rng(purpose).sample(pages, min(len(pages), self._count(fraction)))

    def _link(self, rng: Random, ref: Ref) -> None:
        rng.choice(self.hosts[ref.host].pages).links.append(ref)

    def _page_elsewhere(self, rng: Random, host: int) -> PageDraft:
        """Any page of any other host; of the only one, if there is no other."""
        other = (host + rng.randrange(1, max(2, self.spec.hosts))) % self.spec.hosts
        return rng.choice(self.hosts[other].pages)


def _shares(spec: WebSpec) -> list[int]:
    ends = [spec.pages * number // spec.hosts for number in range(spec.hosts + 1)]
    return [end - start for start, end in pairwise(ends)]
