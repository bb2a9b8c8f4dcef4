"""The alert rules and the Grafana dashboard: they are valid, and use metrics that there are."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from tests.servers.debian import needed

PROJECT = Path(__file__).parents[2]
FOLDER = PROJECT / "docs/monitoring"
NAME = re.compile(r"\bcrawl_[a-z_]+\b")


def documented() -> set[str]:
    page = (PROJECT / "docs/monitoring.md").read_text(encoding="utf-8")
    return set(re.findall(r"^\| `(crawl_\w+)`", page, re.MULTILINE))


def used(text: str) -> set[str]:
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in NAME.findall(text)}


def test_rules_and_panels_use_metrics_that_are_documented() -> None:
    for name in ("alerts.yml", "grafana.json"):
        found = used((FOLDER / name).read_text(encoding="utf-8"))
        assert found and found <= documented(), name


def test_every_alert_is_described_and_tested() -> None:
    alerts = re.findall(r"- alert: (\w+)", (FOLDER / "alerts.yml").read_text(encoding="utf-8"))
    tests = (FOLDER / "alerts_test.yml").read_text(encoding="utf-8")
    page = (PROJECT / "docs/monitoring.md").read_text(encoding="utf-8")
    assert alerts and all(f"`{name}`" in page for name in alerts)
    assert all(tests.count(f"alertname: {name}") >= 2 for name in alerts)


def test_promtool_accepts_the_rules_and_their_tests() -> None:
    promtool = needed("promtool")
    for words in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]):
        command = [promtool, *words]
        done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_grafana_dashboard_asks_a_source_that_the_user_chooses() -> None:
    board = json.loads((FOLDER / "grafana.json").read_text(encoding="utf-8"))
    assert {one["datasource"]["uid"] for one in board["panels"]} == {"${source}"}
    assert [one["name"] for one in board["templating"]["list"]] == ["source", "crawl"]
