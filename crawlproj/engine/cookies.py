"""Scrapy's cookies middleware, with doors: which cookies are taken, those of a request, the log."""

from __future__ import annotations

from collections.abc import Iterable
from http.cookiejar import Cookie
from typing import TYPE_CHECKING

from scrapy.downloadermiddlewares import cookies as scrapys

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Response
    from scrapy.http.cookies import CookieJar


class CookiesMiddleware(scrapys.CookiesMiddleware):
    """Takes what `acceptable` says. Scrapy would ask its own list of public suffixes."""

    def acceptable(self, cookies: Iterable[Cookie], request: Request) -> Iterable[Cookie]:
        return cookies

    def take(self, cookies: Iterable[Cookie], jar: CookieJar, request: Request) -> None:
        """Put into the jar what is acceptable of these."""
        for cookie in self.acceptable(cookies, request):
            jar.set_cookie_if_ok(cookie, request)

    def take_from_request(self, jar: CookieJar, request: Request) -> None:
        """Put into the jar what a spider has given a request along (`cookies=`)."""
        self.take(self._get_request_cookies(jar, request), jar, request)

    def log_sent(self, request: Request) -> None:
        self._debug_cookie(request)

    def log_received(self, response: Response) -> None:
        self._debug_set_cookie(response)

    def _process_cookies(
        self, cookies: Iterable[Cookie], *, jar: CookieJar, request: Request
    ) -> None:
        self.take(cookies, jar, request)
