"""How tests are written: helpers have modules of their own, and what is private stays it."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

TESTS = Path(__file__).parents[1]
NAMED_TUPLES = {"_replace", "_asdict", "_fields"}
"""Public, whatever their names say."""

ALLOWED = {
    ("servers/scrapy_process.py", "_exit"),  # of os
    ("servers/scrapy_process.py", "_shutdown"),  # of threading: what Python itself does at the end
    ("servers/scrapy_process.py", "_run_exitfuncs"),
    ("unit/test_pages.py", "_action_groups"),  # argparse has no public list of options
    ("unit/test_pages.py", "_group_actions"),
    ("contract/test_lean.py", "_InvalidOutput"),  # what Scrapy raises, and ours must, too
    ("contract/engine_probe.py", "_start_scheduled_request"),  # Scrapy's, told of by the engine
    ("contract/engine_probe.py", "_parallel_asyncio"),
    ("contract/planted.py", "_FOLDER"),  # bugs are planted where users cannot reach
    ("contract/planted.py", "_judge_ended"),
    ("contract/planted.py", "_write_rows"),
    ("contract/planted.py", "_settle_ended"),
}


@functools.cache
def nodes() -> list[tuple[str, ast.AST]]:
    """(file, node) of all the imports and attributes in tests."""
    return [
        (path.relative_to(TESTS).as_posix(), node)
        for path in sorted(TESTS.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.ImportFrom | ast.Attribute)
    ]


def is_test(module: str) -> bool:
    return module.startswith("tests.") and module.rpartition(".")[2].startswith("test_")


def private_names(node: ast.AST) -> list[str]:
    """Those that a node takes from another object or module."""
    if isinstance(node, ast.ImportFrom):
        return [alias.name for alias in node.names if alias.name.startswith("_")]
    if not isinstance(node, ast.Attribute) or node.attr.startswith("__"):
        return []
    is_own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
    return [node.attr] if node.attr.startswith("_") and not is_own else []


def test_no_test_is_imported() -> None:
    found = [
        (file, module)
        for file, node in nodes()
        if isinstance(node, ast.ImportFrom)
        for module in (node.module or "", *(f"{node.module}.{one.name}" for one in node.names))
        if is_test(module)
    ]
    assert found == []


def test_async_tests_are_async_functions() -> None:
    runs = ("asyncio.run", "asyncio.Runner", "asyncio.new_event_loop")
    fetches_by_itself = "crawl/test_addresses.py"  # one helper, for tests that are sync
    found = [
        (file, node.lineno)
        for file, node in nodes()
        if isinstance(node, ast.Attribute) and ast.unparse(node) in runs
        if Path(file).name.startswith("test_") and file != fetches_by_itself
    ]
    assert found == []


def test_nothing_private_is_touched_by_tests() -> None:
    found = {(file, name) for file, node in nodes() for name in private_names(node)}
    assert {(file, name) for file, name in found - ALLOWED if name not in NAMED_TUPLES} == set()
    assert found >= ALLOWED, "no longer needed"
