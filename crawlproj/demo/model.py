"""What a path of a demo host can be. Addresses and HTML are no concern of this module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias


class Ref(NamedTuple):
    """A place in the web: the number of a host, and a path with its query."""

    host: int
    path: str


@dataclass(frozen=True, slots=True)
class Page:
    """An HTML page, answered with 503 to the first `failures` requests."""

    title: str
    nav: tuple[Ref, ...] = ()
    links: tuple[Ref, ...] = ()
    pseudo_links: tuple[str, ...] = ()
    failures: int = 0
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Redirect:
    target: Ref
    status: int = 301


@dataclass(frozen=True, slots=True)
class Asset:
    """Something that is no HTML."""

    content_type: str
    body: bytes


Resource: TypeAlias = Page | Redirect | Asset
