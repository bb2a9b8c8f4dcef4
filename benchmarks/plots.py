"""Plots as plain SVG, a few kilobytes each: the same figures give the same file.

Readable on a light and on a dark page: text and axes take the colour of neither, and nothing is
drawn behind them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import ceil, floor, log10

WIDTH, LEFT, RIGHT, TOP, LINE = 720, 190, 90, 40, 24
HEIGHT = 300
COLOURS = ("#2f7ed8", "#e07b39", "#3f9c59", "#a25cc4", "#c0392b", "#7f8c8d")
GREY = "#808080"
OURS = "ours"

Points = Sequence[tuple[float, float]]


def bars(title: str, values: Mapping[str, float]) -> str:
    """A bar for each; ours stands out."""
    most = max(values.values()) or 1
    room = WIDTH - LEFT - RIGHT
    parts = [_text(10, 22, title, bold=True)]
    for number, (name, value) in enumerate(values.items()):
        top, width = TOP + number * LINE, max(1.0, room * value / most)
        colour = COLOURS[0] if len(values) == 1 or name == OURS else GREY
        parts.append(_text(LEFT - 8, top + 14, name, anchor="end"))
        parts.append(
            f'<rect x="{LEFT}" y="{top}" width="{width:.1f}" height="{LINE - 6}" fill="{colour}"/>'
        )
        parts.append(_text(LEFT + width + 6, top + 14, f"{value:,.4g}"))
    return _svg(TOP + LINE * len(values) + 10, parts)


def lines(title: str, below: str, series: Mapping[str, Points], *, is_log: bool = False) -> str:
    """A line for each series; from 0 upwards, and to the right by number or by its logarithm."""
    marks = sorted({x for points in series.values() for x, _ in points})
    heights = ticks(max(y for points in series.values() for _, y in points))
    most = heights[-1]
    place = log10 if is_log else float
    low, high = place(marks[0]), place(marks[-1])

    def at(x: float, y: float) -> tuple[float, float]:
        share = (place(x) - low) / (high - low) if high > low else 0.5
        return 70 + share * (WIDTH - 240), HEIGHT - 50 - (HEIGHT - 100) * y / most

    parts = [_text(10, 22, title, bold=True), _text(70, HEIGHT - 8, below)]
    for height in heights:
        _, y = at(marks[0], height)
        parts.append(f'<path d="M70 {y:.1f}H{WIDTH - 170}" stroke="{GREY}" stroke-opacity=".4"/>')
        parts.append(_text(62, y + 4, f"{height:,.10g}", anchor="end"))
    for mark in marks:
        x, _ = at(mark, 0)
        parts.append(_text(x, HEIGHT - 30, f"{mark:,.10g}", anchor="middle"))
    for number, (name, points) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        placed = [at(x, y) for x, y in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in placed]
        parts.append(_text(WIDTH - 160, 50 + number * 20, name, colour=colour))
    return _svg(HEIGHT, parts)


def ticks(most: float) -> list[float]:
    """Round heights from 0 to at least that, two to four above 0."""
    if most <= 0:
        return [0.0, 1.0]
    power = 10 ** floor(log10(most))
    step = next(step * power for step in (0.25, 0.5, 1, 2, 2.5, 5) if most / (step * power) <= 4)
    return [round(number * step, 10) for number in range(ceil(most / step - 1e-9) + 1)]


def _svg(height: int, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="13">'
    )
    return "\n".join([head, *parts, "</svg>", ""])


def _text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    bold: bool = False,
    colour: str = GREY,
) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}"{weight}>'
        f"{escape(text)}</text>"
    )
