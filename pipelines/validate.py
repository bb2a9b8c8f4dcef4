"""Drops a row of ours that lacks a field or holds the wrong type, and says why. Yours to edit."""

from __future__ import annotations

from crawlproj.output.pipelines import validate


class ValidatePipeline(validate.ValidatePipeline):
    """Items of your own pass as they are. To check them, override `process_item`, and raise
    `scrapy.exceptions.DropItem` for one that is not to be written."""
