"""The item pipelines, one after the other; only those that have to are waited for."""

from __future__ import annotations

from typing import Any

from scrapy.pipelines import ItemPipelineManager
from scrapy.utils.defer import ensure_awaitable
from scrapy.utils.python import global_object_name

from crawlproj.engine.waiting import is_ready


class ItemPipelines(ItemPipelineManager):
    """`ITEM_PROCESSOR`."""

    async def process_item_async(self, item: Any) -> Any:
        for method in self.methods["process_item"]:
            assert method is not None
            needs_spider = method in self._mw_methods_requiring_spider
            result = method(item, self._spider) if needs_spider else method(item)
            if not is_ready(result):
                result = await ensure_awaitable(result, _warn=global_object_name(method))
            item = result
        return item
