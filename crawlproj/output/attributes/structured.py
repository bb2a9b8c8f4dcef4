"""What pages say for machines: JSON-LD, microdata and OpenGraph, bounded."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from crawlproj.output.attributes.facts import MAX_VALUE, Elements, Facts, one_line

MAX_SCRIPT = 262_144
"""Characters of one block of JSON-LD; a longer one is not read."""
MOST_NODES = 1000
"""Objects of JSON-LD that are looked at."""
MOST_PROPERTIES = 300
"""Of microdata."""
MOST_LEVELS = 100
"""Elements between a property of microdata and its item."""
MAX_STRUCTURED = 65_536
"""Characters of all of it as JSON; what goes beyond is left out, part by part."""

MAIN = re.compile(
    r"(?:article|blogposting|newsarticle|report|product|recipe|event|jobposting|videoobject|course|"
    r"book|movie|review|howto|faqpage|qapage|dataset|softwareapplication|webpage)$",
    re.IGNORECASE,
)
"""Types of what a page is about; others are about its site, its path or its publisher."""

_MARKED = Elements(
    "[itemprop], [itemscope]:not([itemprop])",  # an element that fits both would come twice
    b"itemprop",  # an item without properties is none
)
_JSON_LD = Elements("script[type*='ld+json' i]", b"ld+json")
_wrapping = re.compile(r"^\s*(?:<!--|//<!\[CDATA\[|<!\[CDATA\[)|(?:-->|//\]\]>|\]\]>)\s*$")

Node = dict[str, Any]


class Structured:
    """What of it one page has."""

    def __init__(self, facts: Facts) -> None:
        self.json_ld = list(_json_ld(facts))
        self.microdata = _microdata(facts)
        self.opengraph = {
            name.removeprefix("og:"): values[0]
            for name, values in facts.metas.items()
            if name.startswith("og:")
        }
        self.nodes = list(_nodes(self.json_ld))
        self.main = sorted(
            (node for node in self.nodes if any(map(MAIN.search, types_of(node)))),
            key=lambda node: any(one.lower().endswith("webpage") for one in types_of(node)),
        )
        """What the page is about, by JSON-LD: things before the page itself."""

    def value(self, *names: str) -> Any:
        """The first property of these that what the page is about has."""
        for name in names:
            for node in self.main:
                if node.get(name):
                    return node[name]
        return self._of_items(names)

    def _of_items(self, names: tuple[str, ...]) -> Any:
        for name in names:
            for item in self.microdata:
                if found := item["properties"].get(name):
                    return found[0]
        return None

    def as_json(self) -> dict[str, Any] | None:
        """All of it that fits; None if there is none."""
        parts = {
            "json_ld": self.json_ld,
            "microdata": self.microdata,
            "opengraph": self.opengraph,
        }
        kept: dict[str, Any] = {}
        left = MAX_STRUCTURED
        for name, part in parts.items():
            size = len(json.dumps(part, ensure_ascii=False))
            if part and size <= left:
                kept[name] = part
                left -= size
        return kept or None


def _json_ld(facts: Facts) -> Iterator[Any]:
    for script in facts.all(_JSON_LD, 20):
        text = _wrapping.sub("", script.text)
        if len(text) > MAX_SCRIPT:
            continue
        try:
            found = json.loads(
                text, strict=False, parse_float=_number, parse_constant=lambda _: None
            )
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict | list):
            yield found


def _number(text: str) -> float | None:
    """One that JSON can hold: `1e999` is beyond what a float can."""
    number = float(text)
    return number if math.isfinite(number) else None


def _nodes(found: Any) -> Iterator[Node]:
    """The objects of JSON-LD, outer before inner, up to a bound."""
    waiting, count = [found], 0
    while waiting and count < MOST_NODES:
        one = waiting.pop(0)
        count += 1
        if isinstance(one, dict):
            yield one
            waiting += [value for value in one.values() if isinstance(value, dict | list)]
        else:
            waiting += [value for value in one if isinstance(value, dict | list)][:MOST_NODES]


def types_of(node: Node) -> list[str]:
    """What it says it is."""
    types = node.get("@type")
    return [one for one in (types if isinstance(types, list) else [types]) if isinstance(one, str)]


def _microdata(facts: Facts) -> list[Node]:
    """Items of the top level, each with its properties; items within items are values."""
    scopes: dict[Any, Node] = {}
    order: list[Node] = []
    for element in facts.all(_MARKED, MOST_PROPERTIES):
        name = element.getattr("itemprop")
        own = _item(element) if element.hasattr("itemscope") else None
        holder = _holder(element, scopes) if name else None
        if own is not None:
            scopes[element] = own
            if holder is None:
                order.append(own)
        if name and holder is not None:
            value = own if own is not None else _value(element, facts)
            if value:
                for one in name.split()[:5]:
                    holder["properties"].setdefault(one, []).append(value)
    return [item for item in order if item["properties"]]


def _item(element: Any) -> Node:
    return {"type": (element.getattr("itemtype") or "")[:MAX_VALUE], "properties": {}}


def _holder(element: Any, scopes: dict[Any, Node]) -> Node | None:
    parent = element.parent
    for _ in range(MOST_LEVELS):
        if parent is None:
            return None
        if (found := scopes.get(parent)) is not None:
            return found
        parent = parent.parent
    return None


def _value(element: Any, facts: Facts) -> str | None:
    for name in ("content", "datetime"):
        if found := element.getattr(name):
            return one_line(found[:MAX_VALUE])
    said = one_line(element.text[:MAX_VALUE])
    linked = facts.absolute(element.getattr("href") or element.getattr("src"))
    return (said if element.tag == "a" and said else linked) or said or None


def names_in(value: Any) -> list[str]:
    """The names of a person or organisation, or of several."""
    values = value if isinstance(value, list) else [value]
    found = []
    for one in values[:10]:
        name = (one.get("name") or _own(one)) if isinstance(one, dict) else one
        name = name[0] if isinstance(name, list) and name else name
        if isinstance(name, str) and name.strip() and "://" not in name:
            found.append(one_line(name[:MAX_VALUE]))
    return list(dict.fromkeys(found))


def _own(item: Node) -> Any:
    properties = item.get("properties")
    return properties.get("name") if isinstance(properties, dict) else None
