"""Near-duplicates: how many of those that are there are found, how many of the found are there, and
what a fingerprint costs.

    python -m benchmarks.near

Pages of two webs come in random order. `versions` are documentation packages of Debian, each in two
neighbouring versions; `mutations` are pages of one package beside copies that were made of them:
print views, session copies, mirrors, small and large edits. What is a near-copy of what is known of
mutations; of versions it is computed from a tree of each page: the resemblance (Jaccard) of all
triples of its words, navigation and the like left out, is at least 0.8. A mark is right if the page
that it names is a near-copy; a near-copy is found if the page that came later has a right mark.
Pages of fewer than 50 words do not count.

`ours` is asked of a real Redis, as a worker asks; SimHash is compared with every page before.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any, NamedTuple
from zlib import crc32

import redis
from selectolax.lexbor import LexborHTMLParser

from benchmarks import environments, rounds
from benchmarks.common import Row, empty, memory_bytes, numbers, redis_cpu_s
from benchmarks.static import Pages, read
from crawlproj.discover.fingerprint import PLACES, bands, fingerprint, own_words
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.near_index import ASKED_AT_ONCE, Fingerprinted, first_near
from crawlproj.frontier.plan import Plan
from crawlproj.server import connection
from tests.servers.redis import RedisServer

NEAR = 0.8
LEAST_WORDS = 50
NEIGHBOURS = (("llvm-15-doc", "llvm-16-doc"), ("clang-15-doc", "clang-16-doc"))
MUTATED = "git-doc"
MUTATED_PAGES = 150
AROUND = (
    "nav,header,footer,aside,script,style,head,[role=navigation],.sphinxsidebar,.related,.footer,"
    ".nav,#nav,#header,#footer"
)
MOST_WITH_A_TRIPLE = 400
"""Pages with a triple of words that is looked at: what more pages have is on every page."""
SIMHASH_BITS = 64
PASSES = 5
"""Over all pages, of which the quickest says what a fingerprint costs."""
URL = "http://docs.example/catalogue/section-0042/item-{:08}.html"

Marks = dict[str, str]
"""URL → the page that it is said to be a near-copy of."""


class Case(NamedTuple):
    """Pages in the order they come in, and of each the near-copies."""

    name: str
    pages: Pages
    near: dict[str, set[str]]

    def __str__(self) -> str:
        return f"{self.name}, {len(self.pages):,} pages"


# What is true


def _triples(body: bytes) -> set[int]:
    tree = LexborHTMLParser(body)
    for around in tree.css(AROUND):
        around.decompose()
    text = tree.body.text(separator=" ") if tree.body else ""
    words = text.lower().split()
    if len(words) < LEAST_WORDS:
        return set()
    return {crc32(" ".join(words[at : at + 3]).encode()) for at in range(len(words) - 2)}


def near_copies(pages: Pages) -> dict[str, set[str]]:
    """Of each page that counts the others that resemble it."""
    triples = {url: found for url, body in pages.items() if (found := _triples(body))}
    having: defaultdict[int, list[str]] = defaultdict(list)
    for url, found in triples.items():
        for one in found:
            if one % 4 == 0:
                having[one].append(url)
    near: dict[str, set[str]] = {url: set() for url in triples}
    pairs = {
        pair
        for urls in having.values()
        if len(urls) <= MOST_WITH_A_TRIPLE
        for pair in itertools.combinations(urls, 2)
    }
    for one, other in pairs:
        both = len(triples[one] & triples[other])
        if both >= NEAR * (len(triples[one]) + len(triples[other]) - both):
            near[one].add(other)
            near[other].add(one)
    return near


# The webs


def versions() -> Case:
    pages: Pages = {}
    for name in itertools.chain.from_iterable(NEIGHBOURS):
        folder = environments.package(name)
        if folder is not None:
            pages |= {
                f"http://docs.example/{name}{path}": body for path, body in read(folder).items()
            }
    return Case("versions", _shuffled(pages), near_copies(pages))


def mutations() -> Case:
    """Copies are near to their original, and to whatever that is near to, by the way they were
    made; those with 30 percent of the words changed are near to nothing."""
    folder = environments.package(MUTATED)
    originals = dict(list(read(folder).items())[:MUTATED_PAGES]) if folder else {}
    near = near_copies(originals)
    copies = {path: {path} for path in near}
    pages: Pages = dict(originals)
    for number, (path, body) in enumerate(originals.items()):
        for name, (mutate, is_near) in MUTATIONS.items():
            pages[f"/{name}{path}"] = mutate(body, random.Random(number))
            if path in near and is_near:
                copies[path].add(f"/{name}{path}")
    groups = {path: copies[path].union(*(copies[other] for other in near[path])) for path in near}
    found = {copy: groups[path] - {copy} for path in near for copy in copies[path]}
    others = {path: set[str]() for path in pages if path.startswith(f"/{LARGE_EDIT}")}
    return Case("mutations", _shuffled(pages), found | others)


def _shuffled(pages: Pages) -> Pages:
    urls = sorted(pages)
    random.Random(1).shuffle(urls)
    return {url: pages[url] for url in urls}


def _inside(body: bytes) -> bytes:
    return re.sub(rb"(?is)^.*?<body[^>]*>|</body\s*>.*$", b"", body)


def _print_view(body: bytes, _: random.Random) -> bytes:
    return b"<html><body><p>Print this page</p>" + _inside(body) + b"</body></html>"


def _session_copy(body: bytes, dice: random.Random) -> bytes:
    session = b"%032x" % dice.getrandbits(128)
    body = re.sub(rb'(href="[^"#]*)', rb"\1?sid=" + session, body)
    return body.replace(
        b"</body>", b"<p>Session %b, page %d</p></body>" % (session, dice.randrange(9999))
    )


def _mirror(body: bytes, _: random.Random) -> bytes:
    menu = b"".join(
        b'<li><a href="/%d">A section of this mirror, number %d</a></li>' % (n, n)
        for n in range(40)
    )
    top = (
        b'<div class="header"><h1>The mirror</h1></div><div class="sidebar"><ul>'
        + menu
        + b"</ul></div>"
    )
    end = b"<footer>Mirrored every night. All rights are those of their holders.</footer>"
    return b"<html><body>" + top + b"<main>" + _inside(body) + b"</main>" + end + b"</body></html>"


def _edited(share: float) -> Callable[[bytes, random.Random], bytes]:
    def edit(body: bytes, dice: random.Random) -> bytes:
        def word(found: re.Match[bytes]) -> bytes:
            return b"changed%d" % dice.randrange(10_000) if dice.random() < share else found[0]

        def text(found: re.Match[bytes]) -> bytes:
            return b">" + re.sub(rb"[A-Za-z]{3,}", word, found[1]) + b"<"

        return re.sub(rb">([^<>]+)<", text, body)

    return edit


LARGE_EDIT = "edited-30-percent"
MUTATIONS: dict[str, tuple[Callable[[bytes, random.Random], bytes], bool]] = {
    "print": (_print_view, True),
    "session": (_session_copy, True),
    "mirror": (_mirror, True),
    "edited-2-percent": (_edited(0.02), True),
    LARGE_EDIT: (_edited(0.3), False),
}
"""How a copy is made, and whether it is a near-copy."""


# Who finds them


async def ours(server: RedisServer, client: redis.Redis, pages: Pages) -> tuple[Marks, Row]:
    """By the fingerprints of the crawler, with what they cost."""
    took_s = []
    for _ in range(PASSES):
        began_s = time.thread_time()
        asked = [
            Fingerprinted(url, found, bands(found))
            for url, body in pages.items()
            if (found := fingerprint(body, "utf-8"))
        ]
        took_s.append(time.thread_time() - began_s)
    empty(client)
    frontier = Frontier(await connection.connect(server.url), "bench", "worker")
    await frontier.open(Plan(), "bench")
    cpu_s = redis_cpu_s(client)
    marks: Marks = {}
    for start in range(0, len(asked), ASKED_AT_ONCE):
        batch = asked[start : start + ASKED_AT_ONCE]
        for page, near in zip(batch, await first_near(frontier.shards, batch), strict=True):
            marks[page.url] = near
    await frontier.client.aclose()
    return marks, {
        "ms_a_page": 1000 * min(took_s) / len(pages),
        "redis_us_a_page": 1e6 * (redis_cpu_s(client) - cpu_s) / len(asked),
    }


async def fill(server: RedisServer, client: redis.Redis, pages: int) -> Row:
    """What the fingerprints of many pages take that are near-copies of none."""
    empty(client)
    frontier = Frontier(await connection.connect(server.url), "bench", "worker")
    await frontier.open(Plan(), "bench")
    before, cpu_s = memory_bytes(client), redis_cpu_s(client)
    dice = random.Random(1)
    for start in range(0, pages, ASKED_AT_ONCE):
        batch = [
            Fingerprinted(URL.format(number), found := dice.randbytes(PLACES), bands(found))
            for number in range(start, min(pages, start + ASKED_AT_ONCE))
        ]
        await first_near(frontier.shards, batch)
    await frontier.client.aclose()
    return {
        "redis_us_a_page": 1e6 * (redis_cpu_s(client) - cpu_s) / pages,
        "redis_bytes_a_page": (memory_bytes(client) - before) / pages,
    }


def by_simhash(pages: Pages, most_bits: int) -> Marks:
    """By the SimHash of the same words, compared with every page before: nothing is missed for
    want of a band."""
    kept: list[tuple[str, int]] = []
    marks: Marks = {}
    for url, body in pages.items():
        words = own_words(body, "utf-8")
        if len(words) < LEAST_WORDS:
            continue
        own = _simhash(words)
        near = (other for other, hashed in kept if (own ^ hashed).bit_count() <= most_bits)
        marks[url] = next(near, "")
        if not marks[url]:
            kept.append((url, own))
    return marks


def _simhash(words: list[bytes]) -> int:
    weights = [0] * SIMHASH_BITS
    for two in set(itertools.pairwise(words)):
        hashed = int.from_bytes(blake2b(b" ".join(two), digest_size=8).digest(), "big")
        for bit in range(SIMHASH_BITS):
            weights[bit] += 1 if hashed >> bit & 1 else -1
    return sum(1 << bit for bit, weight in enumerate(weights) if weight > 0)


# How well


def judged(case: Case, marks: Marks) -> Row:
    before: set[str] = set()
    right = marked = there = found = 0
    for url in (url for url in case.pages if url in case.near):
        is_right = marks.get(url, "") in case.near[url]
        marked += bool(marks.get(url))
        right += is_right
        if case.near[url] & before:
            there += 1
            found += is_right
        before.add(url)
    return {
        "pages": len(case.near),
        "near_copies": there,
        "marked": marked,
        "precision": right / max(1, marked),
        "recall": found / max(1, there),
    }


def measure(server: RedisServer, client: redis.Redis, case: Case | int) -> Iterator[Row]:
    if isinstance(case, int):
        yield {"web": f"{case:,} random pages", "by": "ours"} | asyncio.run(
            fill(server, client, case)
        )
        return
    kb = sum(map(len, case.pages.values())) / len(case.pages) / 1000
    marks, cost = asyncio.run(ours(server, client, case.pages))
    yield {"web": case.name, "by": "ours", **judged(case, marks), "page_kb": kb, **cost}
    for bits in (3, 6):
        found = judged(case, by_simhash(case.pages, bits))
        yield {"web": case.name, "by": f"SimHash, {bits} bits apart", **found, "page_kb": kb}


def main() -> None:
    parser = rounds.parser("near", __doc__)
    sizes = [10_000, 100_000]
    parser.add_argument("--random", type=numbers, default=sizes, help="up to 1e6 [1e4,1e5]")
    options = parser.parse_args()
    cases: list[Any] = [case for case in (versions(), mutations()) if case.pages]
    cases += options.random
    rounds.run("near", options, cases, measure, by=["web", "by"], on_crawlers_core=True)


if __name__ == "__main__":
    main()
