"""Parts as workers write them, for tests that read them."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from crawlproj.items import FAILURE_COLUMNS, PAGE_COLUMNS, utc_timestamp


def page(url: str, second: int = 0, **changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(PAGE_COLUMNS, "")
    return row | {"url": url, "status": 200, "fetched_at": utc_timestamp(second)} | changes


def failure(url: str, second: int = 0, **changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(FAILURE_COLUMNS, "")
    return row | {"url": url, "reason": "timeout", "failed_at": utc_timestamp(second)} | changes


def as_csv(*rows: dict[str, Any], header: bool = True) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    if header:
        writer.writerow(rows[0])
    writer.writerows(row.values() for row in rows)
    return text.getvalue().encode()


def as_jsonl(*rows: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)
