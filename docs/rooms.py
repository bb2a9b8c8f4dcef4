"""Who imports whom in `crawlproj/`, by room: read from the code, and drawn.

    python docs/rooms.py > docs/plots/rooms.svg

`tests/unit/test_rooms.py` fails for an import that goes up. Needs nothing but Python.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections import Counter
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).parents[1] / "crawlproj"

ROOMS = {
    "commands": "one command a file, thin",
    "demo": "the bundled web",
    "operate": "status, why, doctor, audit, fleet",
    "output": "feeds, rows, merge, summary",
    "worker": "what a worker holds and owes",
    "fetch": "connections, addresses, content",
    "discover": "links, seeds, rules, ranking",
    "politeness": "robots.txt, pauses, holds, groups",
    "frontier": "what Redis keeps, and its scripts",
    "server": "which Redis",
    "engine": "what bends Scrapy, nothing else",
}
"""From the top to the bottom: a room imports only from those below it."""

DOORS = ("addon", "scheduler", "dupefilter", "spider")
"""Modules at the top of the package: they may know every room, and no room knows them."""

LANDING = "running"
"""The module at the top that stands right above the frontier, whose types it names: rooms above
that know it, rooms below do not."""

SHARED = sorted({"config", *(path.stem for path in PACKAGE.glob("[!_]*.py"))} - {*DOORS, LANDING})
"""All others at the top, and the settings: every room may know them, and they know no room."""

_ROOMS = list(ROOMS)
_FRONTIER = _ROOMS.index("frontier")
ORDER = [*DOORS, *_ROOMS[:_FRONTIER], LANDING, *_ROOMS[_FRONTIER:], *SHARED]


class Edge(NamedTuple):
    """A module that imports another, as paths below `crawlproj/`."""

    importer: str
    imported: str

    @property
    def rooms(self) -> tuple[str, str]:
        return room_of(self.importer), room_of(self.imported)

    @property
    def goes_up(self) -> bool:
        importer, imported = self.rooms
        if importer == imported or {importer, imported} <= {*DOORS} or imported in SHARED:
            return False
        return ORDER.index(importer) > ORDER.index(imported)

    def __str__(self) -> str:
        return f"{self.importer} -> {self.imported}"


def room_of(module: str) -> str:
    return module.partition("/")[0].removesuffix(".py")


@functools.cache
def edges() -> list[Edge]:
    """Every import of one module of the package by another, once; those for types alone count."""
    found = {
        Edge(str(path.relative_to(PACKAGE)), imported)
        for path in PACKAGE.rglob("*.py")
        if path != PACKAGE / "__init__.py"
        for imported in _imports(ast.parse(path.read_text(encoding="utf-8")))
    }
    return sorted(edge for edge in found if edge.importer != edge.imported)


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield from _module(f"{node.module}.{alias.name}")
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield from _module(alias.name)


def _module(dotted: str) -> Iterator[str]:
    """The file that holds this name, if it is one of the package."""
    package, _, inner = dotted.partition(".")
    if package != PACKAGE.name or not inner:
        return
    for name in (inner, inner.rpartition(".")[0]):
        path = PACKAGE / name.replace(".", "/")
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if name and file.is_file():
                yield str(file.relative_to(PACKAGE))
                return


WIDTH, TOP, ROW, LEFT, RIGHT, FOOT = 800, 112, 38, 340, 40, 34
COLUMN = (WIDTH - LEFT - RIGHT) / len(ROOMS)
HEIGHT = TOP + ROW * len(ROOMS) + FOOT
STYLE = """
text { fill: #57606a }
.name { fill: #24292f; font-weight: 600 }
rect { fill: #2f7ed8; fill-opacity: .09; stroke: #2f7ed8; stroke-opacity: .5 }
circle { fill: #2f7ed8 }
circle.up { fill: #cf222e }
path { stroke: #808080; stroke-opacity: .25 }
@media (prefers-color-scheme: dark) { text { fill: #9aa4af } .name { fill: #e6edf3 } }
text.count { fill: #fff; font-size: 11px }
"""


def draw() -> str:
    """A row for each room, with a dot below each room that it imports from."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" font-family="sans-serif" font-size="13"><style>{STYLE}</style>'
    )
    counts = Counter(edge.rooms for edge in edges())
    shown = {rooms: count for rooms, count in counts.items() if {*rooms} <= ROOMS.keys()}
    parts = [head, *_legend()]
    for name in ROOMS:
        parts += _room(name)
    for (importer, imported), count in sorted(shown.items()):
        if importer != imported:
            parts += _dot(importer, imported, count)
    return "\n".join([*parts, "</svg>", ""])


def _legend() -> list[str]:
    doors = ", ".join(f"{name}.py" for name in DOORS if (PACKAGE / f"{name}.py").exists())
    return [
        _text(10, 30, "The rooms of crawlproj", "name"),
        _text(10, 50, "A dot: this row's room imports from that"),
        _text(10, 68, "column's, with the number of imports."),
        _text(10, 86, "Right of the diagonal is down."),
        _text(10, HEIGHT - 12, f"Above all: {doors}. For all: config, errors, items, urls, …"),
    ]


def _room(name: str) -> list[str]:
    x, y = _place(name, name)
    title = _text(0, 0, name, "name")
    return [
        _box(10, y - ROW / 2 + 3, LEFT - 20, ROW - 6),
        _text(20, y + 5, name, "name"),
        _text(108, y + 5, ROOMS[name]),
        f'<path d="M{LEFT} {y}H{WIDTH - RIGHT}M{x:.1f} {TOP}V{HEIGHT - FOOT}"/>',
        f'<g transform="translate({x + 4:.1f} {TOP - 6}) rotate(-50)">{title}</g>',
        _box(x - 9, y - 9, 18, 18),
    ]


def _dot(importer: str, imported: str, count: int) -> list[str]:
    x, y = _place(importer, imported)
    names = list(ROOMS)
    up = ' class="up"' if names.index(imported) < names.index(importer) else ""
    return [
        f'<circle{up} cx="{x:.1f}" cy="{y}" r="{7 + min(9, count**0.5 * 1.4):.1f}">'
        f"<title>{importer} imports from {imported}: {count}</title></circle>",
        _text(x, y + 4, str(count), "count", "middle"),
    ]


def _place(row: str, column: str) -> tuple[float, float]:
    names = list(ROOMS)
    return LEFT + COLUMN * (names.index(column) + 0.5), TOP + ROW * (names.index(row) + 0.5)


def _box(x: float, y: float, width: float, height: float) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width}" height="{height}" rx="5"/>'


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text{style} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


if __name__ == "__main__":
    sys.stdout.write(draw())
