"""Links that a worker has met often enough to know them by their text."""

from __future__ import annotations

from collections.abc import Collection

MOST = 100_000
LONGEST = 300
"""Characters of a link that is worth remembering: longer ones are rarely met again."""
HOST_LINKS = 4
"""A host among them takes as much memory as so many links."""

_ROOTS = ("/", "http://", "https://")
_Links = dict[str, set[str]]
_NONE: frozenset[str] = frozenset()


class KnownLinks:
    """The links of each host's pages, as written there, and of each folder's, for those that mean
    something else elsewhere: a folder is a host too, by its URL. Bounded: the older half is
    forgotten. They are known because a server has seen them, or because they are against the
    rules, so they are cleared when either may have changed."""

    def __init__(self) -> None:
        self._young: _Links = {}
        self._old: _Links = {}
        self._young_size = 0

    def __contains__(self, link: tuple[str, str]) -> bool:
        host, text = link
        return text in self._young.get(host, _NONE) or text in self._old.get(host, _NONE)

    def __len__(self) -> int:
        return sum(len(links) for half in (self._young, self._old) for links in half.values())

    def unknown(self, host: str, texts: Collection[str]) -> Collection[str]:
        """Those of the links on a page of this host that are not remembered."""
        young, old = self._young.get(host, _NONE), self._old.get(host, _NONE)
        if not young and not old:
            return texts
        new = set(texts).difference(young, old)
        return [text for text in texts if text in new] if new else ()

    def add(self, host: str, text: str) -> None:
        """Remember a link of a host's pages; when there are too many, the older half is
        forgotten."""
        if len(text) > LONGEST:
            return
        links = self._young.get(host)
        if links is None:
            links = self._young[host] = set()
            self._young_size += HOST_LINKS
        if text not in links:
            links.add(text)
            self._young_size += 1
        if self._young_size >= MOST // 2:
            self._young, self._old, self._young_size = {}, self._young, 0

    def clear(self) -> None:
        """Forget everything."""
        self._young, self._old, self._young_size = {}, {}, 0


def is_the_same_everywhere(href: str) -> bool:
    """Whether a link means the same on all pages of a host. A path that begins with two slashes
    does not: as a link, that text names a host."""
    return href.isascii() and href.startswith(_ROOTS) and not href.startswith("//")


def is_the_same_in_folder(href: str) -> bool:
    """Whether a link means the same on all pages of a folder. What only has a query is relative to
    its page, and so may be what looks as if it had a scheme (`http:?a`)."""
    return href.isascii() and (href[0].isalnum() or href[0] == ".") and ":" not in href
