"""Makes cells harmless for spreadsheets: no text begins the way a formula does.

A page chooses its own title, and `=HYPERLINK(…)` in a CSV is run by whoever opens it. A leading
apostrophe makes it text in every spreadsheet (OWASP, "CSV Injection"). Numbers are never touched,
and URLs never begin so.
"""

from __future__ import annotations

from typing import Any

from crawlproj.items import fields_of

# With the full-width forms, which some locales of spreadsheets take for the plain ones.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def harmless(value: Any) -> Any:
    """The value, such that its cell is no formula. Of a list, the first text begins the cell."""
    if isinstance(value, str):
        return "'" + value if value.startswith(FORMULA_STARTS) else value
    if type(value) in (list, tuple) and value and isinstance(value[0], str):
        first = harmless(value[0])
        return value if first is value[0] else type(value)((first, *value[1:]))
    return value


class FormulasPipeline:
    def process_item(self, item: Any) -> Any:
        values = fields_of(item)
        for name, value in list(values.items()):
            safe = harmless(value)
            if safe is not value:
                values[name] = safe
        return item
