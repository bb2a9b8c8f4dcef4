"""Metrics as Prometheus reads them (text format 0.0.4). Pure: knows no crawl and no server.

Written here in a few lines: prometheus_client keeps its numbers in globals of the process, while
ours are read from a crawl whenever they are asked for, and workers need nothing more installed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]


@dataclass
class Family:
    """A metric and its samples, one for each set of labels."""

    name: str
    kind: str
    """gauge, counter or histogram."""
    help: str
    samples: list[tuple[str, Labels, float]] = field(default_factory=list)

    def add(self, value: float | None, **labels: str) -> None:
        """A sample; None is none."""
        if value is not None:
            self.samples.append(("", labels, value))

    def add_histogram(self, histogram: Histogram, **labels: str) -> None:
        """All that Prometheus wants of one."""
        for bound, count in histogram.cumulative():
            self.samples.append(("_bucket", {**labels, "le": bound}, count))
        self.samples.append(("_sum", labels, histogram.sum))
        self.samples.append(("_count", labels, histogram.count))

    def lines(self) -> Iterable[str]:
        """As it is sent; nothing if it has no sample."""
        if self.samples:
            yield f"# HELP {self.name} {_escaped(self.help)}"
            yield f"# TYPE {self.name} {self.kind}"
        for suffix, labels, value in self.samples:
            yield f"{self.name}{suffix}{_labels(labels)} {value:.16g}"


class Histogram:
    """Counts by size: what was observed falls into the first bound that it does not exceed."""

    def __init__(self, bounds: Iterable[float]) -> None:
        self._bounds = sorted(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self.sum = 0.0

    @property
    def count(self) -> int:
        """How often something was observed."""
        return sum(self._counts)

    def observe(self, value: float) -> None:
        """Count it."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    def cumulative(self) -> Iterable[tuple[str, int]]:
        """Each bound, and how many do not exceed it."""
        so_far = 0
        for bound, count in zip([*map(str, self._bounds), "+Inf"], self._counts, strict=True):
            so_far += count
            yield bound, so_far


def text(families: Iterable[Family]) -> str:
    """All of them."""
    return "".join(f"{line}\n" for family in families for line in family.lines())


def _labels(labels: Labels) -> str:
    inner = ",".join(f'{name}="{_quoted(value)}"' for name, value in labels.items())
    return f"{{{inner}}}" if inner else ""


def _quoted(value: str) -> str:
    return _escaped(value).replace('"', '\\"')


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")
