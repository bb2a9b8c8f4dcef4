"""The path by which projects name our dupefilter in DUPEFILTER_CLASS."""

from crawlproj.worker.seen_filter import SeenFilter

__all__ = ["SeenFilter"]
