"""The package is rooms, one above the other, and imports go down (docs/architecture.md)."""

from __future__ import annotations

import re

from docs import rooms

KNOWS = re.compile(r"<title>(\w+ imports from \w+)")

TYPES_ONLY = "it names the types of what it hands out: protocols of its own would name none"

STILL_WRONG = {
    "running.py -> discover/discovery.py": TYPES_ONLY,
    "running.py -> fetch/cookies.py": TYPES_ONLY,
    "running.py -> frontier/frontier.py": TYPES_ONLY,
    "running.py -> frontier/outcomes.py": TYPES_ONLY,
    "running.py -> politeness/holds.py": TYPES_ONLY,
    "running.py -> politeness/permission.py": TYPES_ONLY,
    "running.py -> worker/exchange.py": TYPES_ONLY,
    "running.py -> worker/tracking.py": TYPES_ONLY,
}
"""Imports that go up, and what must move so that they do not. The list only gets shorter."""


def test_imports_go_down_from_room_to_room() -> None:
    wrong = {str(edge): edge for edge in rooms.edges() if edge.goes_up}
    new = [
        f"{name}: {edge.rooms[0]} must not know {edge.rooms[1]}"
        for name, edge in wrong.items()
        if name not in STILL_WRONG
    ]
    assert not new, "\n".join(["these imports go up (the order is in docs/rooms.py):", *new])
    gone = sorted(STILL_WRONG.keys() - wrong.keys())
    assert not gone, f"mended, so take it off STILL_WRONG: {gone}"


def test_every_module_stands_in_a_room() -> None:
    found = {rooms.room_of(name) for edge in rooms.edges() for name in edge}
    assert found <= set(rooms.ORDER), found - set(rooms.ORDER)


def test_the_picture_shows_who_knows_whom() -> None:
    picture = (rooms.PACKAGE.parent / "docs/plots/rooms.svg").read_text(encoding="utf-8")
    wanted, shown = (set(KNOWS.findall(svg)) for svg in (rooms.draw(), picture))
    assert shown == wanted, "draw it again: python docs/rooms.py > docs/plots/rooms.svg"
