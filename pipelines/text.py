"""Makes text one clean line that any encoding can write. Yours to edit."""

from __future__ import annotations

from crawlproj.output.pipelines import text


class TextPipeline(text.TextPipeline):
    """Titles and reasons become one line; of items of your own only half characters are replaced,
    which no file could hold."""
