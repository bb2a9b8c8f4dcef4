"""Numbers over time as bars of block characters, and a part of a whole as one bar. Pure."""

from __future__ import annotations

from collections.abc import Sequence

EIGHTHS = " ▁▂▃▄▅▆▇█"
PARTS = " ▏▎▍▌▋▊▉█"


def plot(values: Sequence[float], width: int, height: int) -> list[str]:
    """Rows from the top, as wide as that: the first value stands at the left, the last at the
    right, whatever their number."""
    columns = resample(values, width)
    most = max(columns, default=0.0)
    units = [round(8 * height * value / most) if most > 0 else 0 for value in columns]
    return [
        "".join(EIGHTHS[min(8, max(0, unit - 8 * row))] for unit in units).ljust(width)
        for row in reversed(range(height))
    ]


def resample(values: Sequence[float], width: int) -> list[float]:
    """So many values, each the mean of those it stands for; of few, each as often as is needed."""
    count = len(values)
    if not count:
        return []
    starts = [count * n // width for n in range(width)]
    ends = [max(start + 1, count * (n + 1) // width) for n, start in enumerate(starts)]
    return [sum(values[start:end]) / (end - start) for start, end in zip(starts, ends, strict=True)]


def bar(share: float, width: int) -> str:
    """A share from 0 to 1 as a bar of that many cells; never empty for more than nothing."""
    eighths = round(8 * width * min(1.0, max(0.0, share)))
    if share > 0:
        eighths = max(1, eighths)
    full, rest = divmod(eighths, 8)
    return "█" * full + (PARTS[rest] if rest else "")
