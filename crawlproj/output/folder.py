"""The folder of a crawl's files on this machine: one crawl's at a time.

When a new crawl begins, the files of the one before are moved aside, so that merging never mixes
two. Workers that start together agree by a lock on the folder.
"""

from __future__ import annotations

import asyncio
import fcntl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from crawlproj.config.misspelt import hint
from crawlproj.errors import ConfigError, CrawlError
from crawlproj.output.kinds import ITEMS, KINDS
from crawlproj.output.whole_file import write_whole

_MARK, _LOCK = ".epoch", ".lock"

ARCHIVE = "archive"
"""The folder in it that WARC files are in."""

LINK_CHECK = "linkcheck.json"
"""The last result of a link check, which stays until there is another."""


class FolderError(CrawlError):
    """Folders that do not belong together."""


class NothingThere(CrawlError):
    """No crawl of that name has written here."""


def crawl_folders(output: Path, crawl: str, others: Iterable[str] = ()) -> list[Path]:
    """The folders of a crawl that has files here or in others; raises NothingThere, which names the
    crawls that have, if there is none."""
    found = sources_of(output / crawl, others)
    if any(map(Path.is_dir, found)):
        return found
    there = sorted(path.parent.name for path in output.glob(f"*/{_MARK}"))
    if not there:
        raise NothingThere(f"Nothing in {output / crawl}: run the crawl first")
    raise NothingThere(f"{crawl}: no crawl of that name has files in {output}{hint(crawl, there)}")


def sources_of(own: Path, others: Iterable[str]) -> list[Path]:
    """The folders of one crawl: this machine's, if it has one, and those of others, which may be
    given as the `output` that holds them. Raises if one is not there or is of another crawl."""
    found = [own] if own.is_dir() else []
    for given in map(Path, others):
        if not given.is_dir():
            raise ConfigError(f"{given}: no such folder; give one that holds parts of the crawl")
        inner = given / own.name
        folder = inner if inner.is_dir() and not _has_rows(given) else given
        if not (_has_rows(folder) or epoch_of(folder)):
            raise ConfigError(f"{given}: nothing of a crawl; give a folder that holds its parts")
        found.append(folder)
    epochs = {epoch: folder for folder in found if (epoch := epoch_of(folder))}
    if len(epochs) > 1:
        one, other, *_ = epochs.values()
        raise FolderError(
            f"{one} and {other} are of two crawls: merge each alone, or move the one that is not "
            "wanted away"
        )
    return found or [own]


def _has_rows(folder: Path) -> bool:
    """Whether there are parts or merged files in it. Folders do not count: `output` may have one
    for each crawl, of any name."""
    kinds = (*(kind.name for kind in KINDS), ITEMS)
    names = tuple(f"{kind}{end}" for kind in kinds for end in "-.")
    return any(path.name.startswith(names) and path.is_file() for path in folder.iterdir())


def epoch_of(folder: Path) -> str:
    """Which crawl's files are in a folder; empty if that is not known."""
    with suppress(OSError, ValueError):
        return (folder / _MARK).read_text().strip()
    return ""


def prepare(folder: Path, epoch: str) -> None:
    """Make the folder ready for this epoch; earlier files go to `earlier-<epoch>/` in it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        mark = folder / _MARK
        before = mark.read_text().strip() if mark.exists() else ""
        if before == epoch:
            return
        if before:
            _move_earlier_files(folder, folder / f"earlier-{before}")
        # By a mark that is empty, two crawls would be taken for one.
        write_whole(mark, epoch, sync=True)


@asynccontextmanager
async def turn(folder: Path) -> AsyncIterator[None]:
    """One worker at a time: what it reads inside is no older than what the one before has read."""
    with (folder / _LOCK).open("w") as lock:
        await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)
        yield


def _stays(path: Path) -> bool:
    # Logs of the crawl that begins are being written already.
    return path.suffix == ".log" or path.name == LINK_CHECK


def _move_earlier_files(folder: Path, to: Path) -> None:
    files = [
        path
        for path in folder.iterdir()
        if (path.is_file() and not path.name.startswith(".") and not _stays(path))
        or path.name == ARCHIVE
    ]
    if files:
        to.mkdir(exist_ok=True)
    for path in files:
        path.rename(to / path.name)
