"""A link check beside an earlier one: what broke since, what was mended, what only one looked at.

Two checks may begin at other pages, read to another depth, ask other links, or be interrupted.
Nothing is called new that the earlier check did not look at, nothing mended that this one did not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from crawlproj.discover.link_records import checksum, read_checksums
from crawlproj.errors import ConfigError
from crawlproj.output.broken_links import ANCHOR, Broken, Findings
from crawlproj.output.folder import LINK_CHECK
from crawlproj.urls import UrlError, normalise

MOST_STARTS_SHOWN = 3


class Options(NamedTuple):
    """What of the command line decides which links are looked at."""

    depth: int | None = None
    offsite: bool = False
    anchors: bool = False
    media: bool = False

    def __str__(self) -> str:
        depth = [] if self.depth is None else [f"--depth {self.depth}"]
        named = {"--offsite": self.offsite, "--anchors": self.anchors, "--media": self.media}
        return " ".join([*depth, *(name for name, is_on in named.items() if is_on)])


@dataclass(frozen=True)
class Extent:
    """How far a check went."""

    urls: list[str]
    options: Options
    is_complete: bool

    @cached_property
    def _sites(self) -> set[str]:
        return {site for url in self.urls if (site := _authority(url))}

    def asks(self, url: str) -> bool:
        """Whether a link to it on a page that is read is asked, as far as that is sure."""
        if self.options.offsite:
            return True
        return _authority(url) in self._sites

    def __str__(self) -> str:
        starts = ", ".join(self.urls[:MOST_STARTS_SHOWN])
        more = ", …" if len(self.urls) > MOST_STARTS_SHOWN else ""
        return f"{starts}{more} {self.options}".strip()


def _authority(url: str) -> str:
    """Its host and port; '' of what is no URL."""
    try:
        return normalise(url).authority
    except UrlError:
        return ""


class WasBroken(NamedTuple):
    """A broken link of the earlier check."""

    kind: str
    sources: frozenset[str]
    targets: frozenset[str]
    """What was linked to: other URLs, if redirects led on."""


@dataclass(frozen=True)
class Earlier:
    """What another check found."""

    checked_at: str
    extent: Extent
    broken: dict[str, WasBroken]
    unchecked: Mapping[str, int]
    read: frozenset[int]
    """Checksums of the pages that it read."""

    @property
    def wanted(self) -> frozenset[str]:
        """What it must be known of whether pages still link to it."""
        return frozenset(self.broken).union(*(one.targets for one in self.broken.values()))


@dataclass(frozen=True)
class Comparison:
    """What differs. Of what is left out nothing is known."""

    earlier: str = ""
    """When that was checked; '' if there is none."""
    extent: str = ""
    """How far it went, if not as far as this one."""
    new: list[str] = field(default_factory=list)
    mended: list[str] = field(default_factory=list)
    not_looked_at: list[str] = field(default_factory=list)
    """What was broken, and was not looked at this time."""


def compare(found: Findings, now: Extent, earlier: Earlier) -> Comparison:
    """What this check has found, beside the earlier one."""
    before, broken = earlier.extent, {one.url for one in found.broken}
    is_alike = before.is_complete and (set(before.urls), before.options) == (
        set(now.urls),
        now.options,
    )
    new = [
        one.url
        for one in found.broken
        if one.url not in earlier.broken and (is_alike or _was_looked_at(one, now, earlier))
    ]
    gone = set(earlier.broken) - broken
    mended = {url for url in gone if _is_mended(url, found, broken, now, earlier)}
    return Comparison(
        earlier=earlier.checked_at,
        extent="" if is_alike else str(before),
        new=sorted(new),
        mended=sorted(mended),
        not_looked_at=sorted(gone - mended),
    )


def _was_looked_at(one: Broken, now: Extent, earlier: Earlier) -> bool:
    """Whether the earlier check would have named it, had it been broken, or linked to, then."""
    before = earlier.extent
    if checksum(one.url) in earlier.read:
        return True
    if one.kind == ANCHOR and not before.options.anchors:
        return False
    if not before.is_complete or (now.options.media and not before.options.media):
        return False
    return before.asks(one.url) and any(checksum(page) in earlier.read for page in one.sources)


def _is_mended(url: str, found: Findings, broken: set[str], now: Extent, earlier: Earlier) -> bool:
    """Whether something that is not broken now was looked at."""
    was, before = earlier.broken[url], earlier.extent
    if was.kind == ANCHOR:
        if not now.options.anchors:
            return False
        if url in found.linked:
            return url.partition("#")[0] in found.read
    elif url in found.read:
        return True
    elif ways := ({url} | was.targets) & found.linked:
        return all(way in found.read or _is_answered(way, found, now, earlier) for way in ways)
    if before.options.media and not now.options.media:
        return False
    return bool(was.sources) and all(page in found.read or page in broken for page in was.sources)


def _is_answered(url: str, found: Findings, now: Extent, earlier: Earlier) -> bool:
    """Whether a link that a page has was asked: of one that is there no file tells."""
    left_out_more = any(
        count > earlier.unchecked.get(reason, 0) for reason, count in found.unchecked.items()
    )
    return now.is_complete and now.asks(url) and not left_out_more


def read_earlier(path: Path) -> Earlier:
    """The result of a check: its file, or the folder that it is in; ConfigError if it is none."""
    file = path / LINK_CHECK if path.is_dir() else path
    try:
        return _earlier(json.loads(file.read_bytes()))
    except OSError as error:
        raise ConfigError(f"--against {path}: cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise ConfigError(
            f"--against {path}: no result of a link check; give a {LINK_CHECK}, or a folder with "
            "one"
        ) from None


def _earlier(told: dict[str, Any]) -> Earlier:
    known = {name: told.get("options", {}).get(name) for name in Options._fields}
    options = Options(known.pop("depth"), *map(bool, known.values()))
    return Earlier(
        checked_at=str(told["checked_at"]),
        extent=Extent(_texts(told["urls"]), options, bool(told["complete"])),
        broken={str(one["url"]): _was(one) for one in told["broken"]},
        unchecked={str(name): int(count) for name, count in told["unchecked"].items()},
        read=read_checksums(told.get("read", "")),
    )


def _was(one: dict[str, Any]) -> WasBroken:
    targets = _texts(link["target"] for link in one["links"])
    return WasBroken(str(one["kind"]), frozenset(_texts(one["sources"])), frozenset(targets))


def _texts(found: Iterable[Any]) -> list[str]:
    return [str(one) for one in found]
