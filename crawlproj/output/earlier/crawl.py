"""What a worker asks of an earlier crawl: by which validators a page is asked for, what a page is
that has not changed, and what has become of one that was fetched."""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from crawlproj.discover.conditional import CHANGED, NEW, UNCHANGED, ask_if_changed, date_of
from crawlproj.errors import ConfigError
from crawlproj.frontier.saved import SavedBytes
from crawlproj.items import PageItem
from crawlproj.output import folder as folders
from crawlproj.output.earlier.lookup import ASKED_STATUS, CARRIED, EarlierPage, Lookup, made_of
from crawlproj.plural import counted
from crawlproj.urls import normalise

if TYPE_CHECKING:
    from scrapy import Request

    from crawlproj.frontier.frontier import Frontier
    from crawlproj.running import CloserReading, FollowsLinks

logger = logging.getLogger(__name__)

FILE, LOCK = ".against.sqlite", ".against.lock"
COMPARED = ("content_hash", "redirect_to")


class EarlierCrawl:
    """The crawl before, for one worker of this one."""

    def __init__(
        self,
        given: Path,
        own: Path,
        frontier: Frontier,
        discovery: FollowsLinks,
        closer_reading: CloserReading | None,
        *,
        needs: str,
        statuses: Sequence[int],
        skip_nofollow: bool,
    ) -> None:
        self._given, self._own, self._frontier = given, own, frontier
        self._discovery, self._closer_reading = discovery, closer_reading
        self._needs = needs
        self._statuses = statuses
        self._skip_nofollow = skip_nofollow
        self._lookup: Lookup | None = None
        self._asks = False
        self._saved = SavedBytes(frontier)

    async def open(self) -> None:
        """Have the earlier crawl's pages at hand, and say what comes of it."""
        path = await asyncio.to_thread(self._make)
        if path is None:
            logger.info("against=%s: there is no earlier crawl yet", self._given)
            return
        self._lookup = Lookup(path)
        pages, validated, known = self._lookup.counts()
        self._asks = known > 0 and not self._needs
        if self._needs:
            logger.warning(
                "Every page is fetched as a whole, for this crawl has %s: against=%s only tells "
                "what has changed",
                self._needs,
                self._given,
            )
            return
        logger.info(
            "Of %s of %s, %d are asked for only if they have changed",
            counted(pages, "page"),
            self._given,
            known,
        )
        if known < validated:
            logger.warning(
                "The links of %s of %s are not known, and so they are fetched as a whole: for the "
                "next crawl, keep links (-a links=true) or an archive (-a archive=true)",
                counted(validated - known, "page"),
                self._given,
            )

    def _make(self) -> Path | None:
        """Make the file, unless another worker has; in a thread."""
        epoch = self._frontier.shards[0].epoch
        folders.prepare(self._own, epoch)  # files of the crawl before this one are moved aside
        source = _source(self._given, self._own)
        if source is None:
            return None
        made = self._own / FILE
        with (self._own / LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            of = _digest([_outline(source), self._skip_nofollow, CARRIED])
            if made_of(made) != of:
                _build(source, made, of, skip_nofollow=self._skip_nofollow)
        return made

    def prepare(self, request: Request) -> None:
        """Ask for a page only if it has changed, where all of it is known."""
        if not self._asks or request.method != "GET" or request.callback is not None:
            return
        page = self._find(request.url)
        if page is None or page.links is None or page.about["status"] != ASKED_STATUS:
            return
        etag, modified = page.about["etag"], page.about["last_modified"]
        if etag or modified:
            ask_if_changed(
                request, etag.encode("latin-1", "ignore"), _http_date(modified), self._statuses
            )

    def carry(self, page: PageItem) -> None:
        """Let the row of a page that has not changed be the earlier one, and follow its links."""
        found = self._find(page.url)
        assert found is not None
        assert found.links is not None
        for name, value in found.about.items():
            if not (name in ("etag", "last_modified") and getattr(page, name)):
                setattr(page, name, value)
        page.change = UNCHANGED
        page.links = self._follow(page, found.links)
        self._saved.add(page.size)

    def _follow(self, page: PageItem, links: list[dict[str, str]]) -> int:
        url = normalise(page.url)
        targets = [link["target"] for link in links if self._is_followed(link)]
        usable = self._discovery.follow(list(dict.fromkeys(targets)), url, page.depth + 1, page.url)
        if self._closer_reading is not None:
            self._closer_reading.note_again(page, links)
        return usable

    def _is_followed(self, link: dict[str, str]) -> bool:
        is_left_alone = self._skip_nofollow and "nofollow" in link.get("rel", "").lower().split()
        return not is_left_alone and "error" not in link

    def compare(self, page: PageItem) -> None:
        """Say of a page that was fetched what has become of it since. Of a body that was not read,
        such as that of a picture, and is as long as it was, nobody knows."""
        if self._lookup is None or page.change:
            return
        before = self._find(page.url)
        if before is None:
            page.change = NEW
        elif any((before.about[name] or "") != getattr(page, name) for name in COMPARED):
            page.change = CHANGED
        elif page.content_hash or not page.size:
            page.change = UNCHANGED
        elif before.about["size"] != page.size:
            page.change = CHANGED

    def _find(self, url: str) -> EarlierPage | None:
        return self._lookup.find(url) if self._lookup is not None else None

    async def tell(self, *, now: bool = False) -> None:
        """Let the crawl know of the bytes that were not transferred, every few seconds."""
        await self._saved.tell(now=now)

    def close(self) -> None:
        """Nothing more is asked."""
        if self._lookup is not None:
            self._lookup.close()
            self._lookup = None


def _source(given: Path, own: Path) -> Path | None:
    """The folder of the earlier crawl: of this crawl's own, the one that was moved aside last."""
    if given.resolve() != own.resolve():
        return given
    earlier = [path for path in own.glob("earlier-*") if path.is_dir()]
    return max(earlier, key=lambda path: path.stat().st_mtime_ns, default=None)


def _outline(folder: Path) -> list[object]:
    """By what a folder's files are known to be the same."""
    paths = [*folder.glob("*.*"), *(folder / folders.ARCHIVE).glob("*.*")]
    files = sorted(path for path in paths if path.is_file() and path.name[0] != ".")
    stats = [(str(path), path.stat()) for path in files]
    return [[name, found.st_size, found.st_mtime_ns] for name, found in stats]


def _digest(what: object) -> str:
    """Short, whatever the number of files: it is given to a process as one of its arguments."""
    return sha256(json.dumps(what).encode()).hexdigest()


def _build(source: Path, to: Path, of: str, *, skip_nofollow: bool) -> None:
    command = [sys.executable, "-m", "crawlproj.output.earlier.build", str(source), str(to), of]
    done = subprocess.run(
        [*command, str(int(skip_nofollow))], stderr=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        said = done.stderr.strip().rpartition("\n")[2]
        raise ConfigError(f"against={source} cannot be read: {said}")


def _http_date(text: str) -> bytes:
    try:
        return date_of(int(datetime.fromisoformat(text).timestamp())) if text else b""
    except ValueError:
        return b""
