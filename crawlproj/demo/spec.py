"""How large the demo web is, and how much goes wrong in it.

Every field is a plain number, so that the command line can offer each one as an option.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

FRACTIONS = (
    "cross_links",
    "pseudo_links",
    "redirects",
    "not_found",
    "non_html",
    "private",
    "flaky",
    "slow",
    "robots",
)
AT_LEAST_ONE = ("hosts", "pages", "depth", "nav_links")
MOST_HOSTS = 60_000
"""127.0.x.y has room for some more; the operating system's file limit has not."""


class DemoError(Exception):
    """The demo web cannot be built or served as asked; the message says what to change."""


@dataclass(frozen=True, slots=True)
class WebSpec:
    """The same spec gives the same web. Fractions lie in 0…1 and may all be 0."""

    seed: int = 1
    hosts: int = 12
    pages: int = 300
    """Ordinary pages, all hosts together; what the fractions add comes on top."""
    depth: int = 4
    """Links from a host's root to its deepest page."""
    nav_links: int = 6
    """The same on every page of a host; the first of them leads to the root."""
    content_links: int = 8
    page_bytes: int = 4_000
    """About the size of a page; links alone may make it larger."""
    cross_links: float = 0.2
    """Links to pages of other hosts, for each page. Roots are linked in any case."""
    pseudo_links: float = 0.2
    """Pages with mailto:, tel:, javascript: and #fragment links."""
    redirects: float = 0.06
    not_found: float = 0.04
    non_html: float = 0.05
    private: float = 0.05
    """Pages below /private/, which robots.txt disallows where there is one."""
    flaky: float = 0.04
    """Pages that answer 503 once or twice before they answer 200."""
    retry_after_s: int = 0
    """Retry-After of those 503; 0 sends none."""
    slow: float = 0.02
    slow_s: float = 0.3
    latency_s: float = 0.0
    """Before every answer, those of slow pages and robots.txt included."""
    robots: float = 0.75
    """Hosts that have a robots.txt."""
    crawl_delay_s: float = 0.0
    """Crawl-delay in robots.txt; 0 names none."""

    def __post_init__(self) -> None:
        for field in fields(self):
            self._check(field.name, getattr(self, field.name))
        if self.hosts > MOST_HOSTS:
            raise DemoError(f"hosts={self.hosts}: at most {MOST_HOSTS} fit on loopback")
        if self.pages < self.hosts:
            raise DemoError(f"pages={self.pages}: each of the {self.hosts} hosts needs one page")

    @staticmethod
    def _check(name: str, value: float) -> None:
        if name in FRACTIONS and not 0 <= value <= 1:
            raise DemoError(f"{name}={value}: a fraction from 0 to 1 is needed")
        if name in AT_LEAST_ONE and value < 1:
            raise DemoError(f"{name}={value}: 1 or more is needed")
        if name != "seed" and not 0 <= value < float("inf"):
            raise DemoError(f"{name}={value}: 0 or more is needed")

    def smooth(self) -> WebSpec:
        """The same web with nothing going wrong: all fractions are 0."""
        return replace(self, **dict.fromkeys(FRACTIONS, 0.0))  # type: ignore[arg-type]

    @classmethod
    def bench(cls, pages: int = 20_000) -> WebSpec:
        """One host, 11 KB and 57 links a page, 30 of them navigation."""
        size = cls(hosts=1, pages=pages, depth=8, nav_links=30, content_links=27, page_bytes=11_000)
        return size.smooth()
