"""docs/performance.md, its plots and the planner's figures: made from the results, and shown as
they are."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from benchmarks import page, plots


@pytest.mark.parametrize("path", page.files(), ids=lambda path: path.name)
def test_what_is_shown_was_made_from_the_results_that_are_here(path: page.Path) -> None:
    hint = "run python -m benchmarks.page"
    assert path.read_text(encoding="utf-8") == page.files()[path], hint


def test_a_plot_is_well_formed_whatever_its_names_hold() -> None:
    drawn = plots.bars("a < b & c", {"<ours>": 3.0, "others": 0.0})
    assert ElementTree.fromstring(drawn).tag.endswith("svg")
    assert "3" in [element.text for element in ElementTree.fromstring(drawn)]


@pytest.mark.parametrize(
    ("most", "heights"),
    [
        (25.1, [0, 10, 20, 30]),
        (8, [0, 2, 4, 6, 8]),
        (0.03, [0, 0.01, 0.02, 0.03]),
        (1e6, [0, 250_000, 500_000, 750_000, 1_000_000]),
        (0, [0, 1]),
    ],
)
def test_an_axis_has_round_marks(most: float, heights: list[float]) -> None:
    assert plots.ticks(most) == heights
    assert "1,000,000" in plots.lines("t", "x", {"a": [(1e5, 1), (1e6, 2)]})


def test_a_line_rises_with_its_figures() -> None:
    drawn = plots.lines("t", "x", {"a": [(1, 5), (10, 10), (100, 20)]}, is_log=True)
    [line] = [one for one in ElementTree.fromstring(drawn) if one.tag.endswith("polyline")]
    points = [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert [y for _, y in points] == sorted((y for _, y in points), reverse=True)
    gaps = [points[1][0] - points[0][0], points[2][0] - points[1][0]]
    assert gaps[0] == pytest.approx(gaps[1])
