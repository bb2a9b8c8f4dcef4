"""What the bodies of many pages begin with, read once.

Pages of one site mostly begin alike: a header, a logo, the navigation. Where two bodies begin with
the same text, as far as that holds nothing but links, the links of that text are remembered, and a
page that begins so is read from there on. What is found is the same with and without. Pure.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field

MOST = 128
"""Beginnings that are remembered; the oldest is forgotten."""
LONGEST = 16_384
"""Characters of a beginning."""
TOLD_BY = 64
"""Characters by which it is known which one to try."""
FEWEST_LINKS = 4
"""With fewer, a beginning saves too little."""

Read = Callable[[str], tuple[int, dict[str, None]]]
"""Reads a text as far as it holds nothing but links; returns how far that is, and the links."""


@dataclass(slots=True)
class Beginning:
    """What some bodies have begun with."""

    last: str
    """The beginning of the last one that it was learnt from."""
    text: str = ""
    """What they have in common."""
    links: dict[str, None] = field(default_factory=dict)
    misses: int = 0

    def learn(self, body: str, read: Read) -> None:
        """Take another body into account that does not begin with `text`."""
        alike = body[: _length_alike(self.last, body)]
        end, links = read(alike)
        self.last = body
        self.text, self.links = (alike[:end], links) if len(links) >= FEWEST_LINKS else ("", {})


class Beginnings:
    """Those of the bodies that came last."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, object], Beginning] = {}

    def find(self, page: str, at: int, how: object, read: Read) -> Beginning | None:
        """The beginning of the body that begins there in a page, if it is known. `how` tells apart
        what `read` makes of a text."""
        name = (page[at : at + TOLD_BY], how)
        known = self.known.get(name)
        if known is None:
            self.known[name] = Beginning(page[at : at + LONGEST])
            if len(self.known) > MOST:
                del self.known[next(iter(self.known))]
            return None
        if known.text and page.startswith(known.text, at):
            return known
        known.misses += 1
        if known.misses.bit_count() == 1:  # ever more rarely, where no two begin alike
            known.learn(page[at : at + LONGEST], read)
        return None


def _length_alike(one: str, other: str) -> int:
    """How many characters two texts have in common at their beginnings."""
    most = min(len(one), len(other))
    return bisect_left(range(1, most + 1), True, key=lambda end: one[:end] != other[:end])
