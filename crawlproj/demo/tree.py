"""The ordinary pages of one host: a tree by levels, with navigation and cross references.

A page links to its children, and to others no deeper than they are. Its level therefore *is* its
distance from the root, and every page is reachable without leaving the host.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from crawlproj.demo import words
from crawlproj.demo.model import Ref
from crawlproj.demo.spec import DemoError, WebSpec


@dataclass(slots=True)
class PageDraft:
    """A page that the builder still adds links and misfortunes to."""

    ref: Ref
    title: str
    level: int
    parent: PageDraft | None = None
    links: list[Ref] = field(default_factory=list)
    pseudo_links: tuple[str, ...] = ()
    failures: int = 0
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class HostDraft:
    name: str
    nav: tuple[Ref, ...]
    pages: list[PageDraft]
    """Level by level, the root first."""


def grow(spec: WebSpec, host: int, page_count: int) -> HostDraft:
    rng = Random(f"{spec.seed}/host/{host}")
    sizes = level_sizes(spec, page_count)
    name = words.site_name(rng)
    pages = _draft_pages(rng, host, sizes, spec.nav_links)
    nav = tuple(page.ref for page in pages[: spec.nav_links])
    _link_children(pages, sizes, len(nav))
    _link_across(rng, pages, sizes, len(nav), spec.content_links)
    return HostDraft(name, nav, pages)


def level_sizes(spec: WebSpec, page_count: int) -> list[int]:
    """Even levels, as far as their parents have room for links to them."""
    sizes = [1]
    nav_pages = spec.nav_links - 1
    room, left = nav_pages + spec.content_links, page_count - 1
    for level in range(1, spec.depth + 1):
        share = -(-left // (spec.depth - level + 1))
        size = min(left, room, max(share, nav_pages) if level == 1 else share)
        sizes.append(size)
        room, left = size * spec.content_links, left - size
    if left:
        raise DemoError(
            f"{page_count} pages do not fit on a host with depth={spec.depth} and "
            f"content_links={spec.content_links}: raise one of the two, or hosts"
        )
    return sizes


def _draft_pages(rng: Random, host: int, sizes: list[int], nav_links: int) -> list[PageDraft]:
    pages: list[PageDraft] = []
    for level, size in enumerate(sizes):
        for number in range(len(pages), len(pages) + size):
            path = _path(rng, number, is_nav=number < nav_links)
            pages.append(PageDraft(Ref(host, path), words.title(rng, number), level))
    return pages


def _path(rng: Random, number: int, *, is_nav: bool) -> str:
    if number == 0:
        return "/"
    section = words.SECTIONS[number % len(words.SECTIONS)]
    if is_nav:
        return f"/{section}/" if number <= len(words.SECTIONS) else f"/{section}/topic-{number}/"
    if number % 9 == 0:
        return f"/{section}/item?id={number}&lang=en"
    return f"/{section}/{words.slug(rng)}-{number}.html"


def _link_children(pages: list[PageDraft], sizes: list[int], nav_count: int) -> None:
    """Deals each level out to the one above; navigation pages need no parent."""
    parents, first = pages[:1], 1
    for size in sizes[1:]:
        end = first + size
        for number, child in enumerate(pages[max(first, nav_count) : end]):
            child.parent = parents[number % len(parents)]
            child.parent.links.append(child.ref)
        parents, first = pages[first:end], end


def _link_across(
    rng: Random, pages: list[PageDraft], sizes: list[int], nav_count: int, content_links: int
) -> None:
    """Fills each page up to its number of content links."""
    ends = [sum(sizes[: level + 2]) for level in range(len(sizes))]
    for page in pages:
        last = ends[page.level]
        wanted = min(content_links, last - nav_count - 1)
        chosen = dict.fromkeys(page.links)
        while len(chosen) < wanted:
            other = pages[nav_count + int(rng.random() * (last - nav_count))].ref
            if other != page.ref:
                chosen[other] = None
        page.links[:] = chosen
