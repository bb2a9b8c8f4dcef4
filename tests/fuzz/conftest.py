"""Tells each property of a long run how long it may take."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fuzz.harness import MINUTES, Share


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    properties = [item for item in items if here in item.path.parents]
    at_once = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT") or 1)
    Share.seconds = MINUTES * 60 * at_once / max(1, len(properties))
