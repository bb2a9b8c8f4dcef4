"""Words that settings can have for a value, and bounds that are defaults of settings. Pure."""

from __future__ import annotations

BY_FINGERPRINT, BY_URL = "fingerprint", "url"
"""What makes two requests one (CRAWL_IDENTITY)."""

OFF, SAME, ALIKE = "off", "same", "alike"
"""Which pages of one URL pattern count as repeated (CRAWL_PATTERNS)."""

OFFSITE, ONSITE, ALL = "offsite", "onsite", "all"
"""Which links that are not followed are asked whether they are there (CRAWL_CHECK)."""

RENDER_AUTO, RENDER_ALWAYS, RENDER_NEVER = "auto", "always", "never"
"""Which pages have their scripts run, unless a pattern says it (CRAWL_RENDER)."""

SQLITE = "sqlite"
"""A store in a file beside the crawl's other files (CRAWL_STORE)."""

OPTIMAL, UNIFORM, PROPORTIONAL = "optimal", "uniform", "proportional"
"""How revisits are shared out (CRAWL_REFRESH_POLICY)."""

LOOPBACK = "loopback"
PRIVATE = "private"
ALLOWABLE = (LOOPBACK, PRIVATE)
"""Classes that the setting may name; everything else it gives as a network."""

MAX_DEPTH = 20
"""Segments of a path, beyond which it is taken for a trap. Real sites rarely pass ten."""
MAX_REPEATS = 3
"""Times one segment may occur in a path: `/a/b/a/b/a/b/a` is what a broken relative link makes."""
MAX_PARAMS = 20
"""Parameters of a query; combinations of search filters grow without end."""
