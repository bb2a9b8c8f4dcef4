"""The log of a worker: as text or as JSON, and in files of bounded size.

A line of JSON is one event: at, level, logger, message, worker, crawl, and error (a traceback)
where there is one. Scrapy's own handler does neither, so where one of them is wanted ours is
installed in its place.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crawlproj.config import Config
from crawlproj.engine.addons import apply_addons
from crawlproj.items import utc_timestamp
from crawlproj.running import is_in_use
from crawlproj.worker.identity import name_worker

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

JSON = "json"


def install(settings: BaseSettings, crawl: str) -> None:
    """Have the log of this process written as the settings say, before Scrapy begins one. Raises
    ConfigError for settings that cannot be."""
    applied = settings.copy()
    apply_addons(applied)
    if not is_in_use(applied):
        return  # another project, of an environment that the package is installed in
    config = Config.from_settings(applied)
    file = settings.get("LOG_FILE")
    is_json = config.log_format == JSON
    if not settings.getbool("LOG_ENABLED") or not (is_json or file):
        return
    handler = _rotating(settings, config, file) if file else logging.StreamHandler()
    if is_json:
        name_worker(settings)
        handler.setFormatter(JsonFormatter({"worker": _worker(settings), "crawl": crawl}))
    else:
        dates = settings.get("LOG_DATEFORMAT")
        handler.setFormatter(logging.Formatter(settings.get("LOG_FORMAT"), dates))
    handler.setLevel(settings.get("LOG_LEVEL"))
    logging.root.setLevel(logging.NOTSET)
    logging.root.addHandler(handler)
    settings.set("LOG_INSTALL_ROOT_HANDLER", False, priority="cmdline")


def _rotating(settings: BaseSettings, config: Config, file: str) -> logging.Handler:
    """A file, and when that is full, the next: there are never more than so many."""
    if not settings.getbool("LOG_FILE_APPEND"):
        Path(file).unlink(missing_ok=True)
    return RotatingFileHandler(
        file,
        maxBytes=config.log_max_bytes,
        backupCount=config.log_files,
        encoding=settings.get("LOG_ENCODING"),
        errors="backslashreplace",
    )


def _worker(settings: BaseSettings) -> str:
    return str(Config.from_settings(settings).worker_id)


class JsonFormatter(logging.Formatter):
    """One line an event, with what is the same in all of them."""

    def __init__(self, always: Mapping[str, Any]) -> None:
        super().__init__()
        self._always = dict(always)

    def format(self, record: logging.LogRecord) -> str:
        event = {
            "at": utc_timestamp(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **self._always,
        }
        if record.exc_info:
            event["error"] = self.formatException(record.exc_info)
        return json.dumps(event, ensure_ascii=False, default=str)


def forget_oldest(folder: Path, pattern: str, kept: int) -> None:
    """Delete the oldest logs of earlier fleets, but for so many."""
    found = sorted(folder.glob(pattern), key=lambda path: path.stat().st_mtime)
    for path in found[: max(0, len(found) - kept)]:
        path.unlink(missing_ok=True)
