"""Scrapy's CSV exporter, with doors: for a look at each cell, and for a row that is ready."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from scrapy.exporters import CsvItemExporter


class CsvExporter(CsvItemExporter):
    """Cells, those of the header too, are what `cell` makes of them."""

    def cell(self, value: Any) -> Any:
        return value

    @property
    def has_begun(self) -> bool:
        """False until the first row, which also brings the header."""
        return not self._headers_not_written

    def write_row(self, values: Iterable[Any]) -> None:
        """A row whose values are cells already; only with `has_begun`."""
        self.csv_writer.writerow([*values])

    def _build_row(self, values: Iterable[Any]) -> Iterable[Any]:
        return map(self.cell, super()._build_row(values))
