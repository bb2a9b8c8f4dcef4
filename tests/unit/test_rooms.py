"""The package is rooms, one above the other, and imports go down (docs/architecture.md)."""

from __future__ import annotations

import ast
import re
from collections import Counter

from docs import rooms

MOST_KNOWN, MOST_LINES, MOST_LINES_OF_FUNCTION, MOST_AT_THE_TOP = 15, 400, 50, 14

KEYS = "frontier/keys.py"
KNOWS = re.compile(r"<title>(\w+ imports from \w+)")


def test_imports_go_down_from_room_to_room() -> None:
    wrong = [
        f"{edge}: {edge.rooms[0]} must not know {edge.rooms[1]}"
        for edge in rooms.edges()
        if edge.goes_up
    ]
    assert not wrong, "\n".join(["these imports go up (the order is in docs/rooms.py):", *wrong])


def test_no_command_knows_another() -> None:
    assert [str(edge) for edge in rooms.edges() if edge.rooms == ("commands", "commands")] == []


def test_every_module_stands_in_a_room() -> None:
    found = {rooms.room_of(name) for edge in rooms.edges() for name in edge}
    assert found <= set(rooms.ORDER), found - set(rooms.ORDER)


def test_only_the_frontier_and_two_stores_beside_it_know_names_of_keys() -> None:
    known = {edge.importer for edge in rooms.edges() if edge.imported == KEYS}
    outside = {name for name in known if rooms.room_of(name) != "frontier"}
    assert outside == {"discover/seeds.py", "politeness/robots_store.py"}


def test_the_picture_shows_who_knows_whom() -> None:
    picture = (rooms.PACKAGE.parent / "docs/plots/rooms.svg").read_text(encoding="utf-8")
    wanted, shown = (set(KNOWS.findall(svg)) for svg in (rooms.draw(), picture))
    assert shown == wanted, "draw it again: python docs/rooms.py > docs/plots/rooms.svg"


def test_no_module_knows_more_than_fits_in_the_head() -> None:
    known = Counter(edge.importer for edge in rooms.edges())
    assert {name: count for name, count in known.items() if count > MOST_KNOWN} == {}


def test_modules_and_functions_are_short_and_few_stand_at_the_top() -> None:
    long = {}
    for path in rooms.PACKAGE.rglob("*.py"):
        text, name = path.read_text(encoding="utf-8"), str(path.relative_to(rooms.PACKAGE))
        if (lines := len(text.splitlines())) > MOST_LINES:
            long[name] = lines
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                if lines > MOST_LINES_OF_FUNCTION:
                    long[f"{name}: {node.name}"] = lines
    assert long == {}
    assert len(list(rooms.PACKAGE.glob("*.py"))) <= MOST_AT_THE_TOP
