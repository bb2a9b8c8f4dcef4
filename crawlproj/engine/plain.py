"""What stands in for ours with a Scrapy that they were not tested with: its own, by its public
interface alone. It is slower, and files of feeds are not begun anew when they are large."""

from __future__ import annotations

import logging
from typing import Any

from itemadapter import ItemAdapter
from scrapy import Spider
from scrapy.exporters import CsvItemExporter
from scrapy.extensions import feedexport

logger = logging.getLogger(__name__)


class FeedExporter(feedexport.FeedExporter):
    """As engine/feeds.py has it, which is made of this; nobody asks what is full or taken."""

    def item_scraped(self, item: Any, spider: Spider) -> None:
        """Export to each feed by itself: one that cannot take an item keeps it from no other."""
        slots: list[Any] = []
        for slot in self.slots:
            if _passes_by(item, slot):
                slots.append(slot)
                continue
            self.slots = [slot]
            try:
                self.slots = [self.slot_for_next_row(slot)]
                super().item_scraped(item, spider)
            except Exception:
                logger.exception("No row in %s for %s", slot.uri, item)
                self.crawler.stats.inc_value("crawl/feeds/rows_refused")
            slots += self.slots
        self.slots = slots

    def slot_for_next_row(self, slot: Any) -> Any:
        """Where the next row of a feed goes."""
        return slot

    def check_names(self, spider: Spider) -> None:
        """Scrapy says what is wrong with a URI when the spider opens."""

    def press_out(self) -> None:
        """Scrapy's own parts have no flush; see output/gzip_rows.py for what has."""


def _passes_by(item: Any, slot: Any) -> bool:
    """Whether a feed is not for such items, and nothing has to be tried to know it."""
    is_scrapys = type(slot.filter) is feedexport.ItemFilter
    return is_scrapys and not slot.filter.accepts(item)


class CsvExporter(CsvItemExporter):
    """As engine/exporters.py has it; every row goes Scrapy's way."""

    has_begun = False

    def cell(self, value: Any) -> Any:
        return value

    def export_item(self, item: Any) -> None:
        names = ItemAdapter(item).field_names()
        if any(self.cell(name) != name for name in names):
            item = {self.cell(name): value for name, value in ItemAdapter(item).items()}
        super().export_item(item)

    def serialize_field(self, field: Any, name: str, value: Any) -> Any:
        serialized = super().serialize_field(field, name, value)
        if isinstance(serialized, bytes):
            serialized = serialized.decode(self.encoding or "utf-8")
        return self.cell(serialized)
