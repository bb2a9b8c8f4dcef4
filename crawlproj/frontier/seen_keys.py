"""The keys by which the seen filter knows what a crawl has met, for all rooms. Pure.

    URL                 a page: the URL of a plain GET, in the crawl's normal form
    FINGERPRINT         any other request, or each where a fingerprinter decides: hexadecimal digits
    robots HOST         the robots.txt of a host, wherever a redirect has led
    crawl_sitemap URL   a sitemap
    crawl_check URL     a link that is only asked for
    REASON URL          a link that was found and not followed, once for each reason
    REASON TEXT         what can be no URL of the crawl, as it was written, cut short

No URL begins with a word and a space. So whatever is known of a URL beside its page does not keep
the page from being fetched, once it comes within the rules. Crawls are resumed by later versions:
what a key looks like must not change.
"""

from __future__ import annotations

from crawlproj.urls import MAX_SHOWN, Url


def page(url: Url) -> str:
    return str(url)


def fingerprint(digest: bytes) -> str:
    return digest.hex()


def robots_txt(host: str) -> str:
    return f"robots {host}"


def sitemap(url: Url) -> str:
    return f"crawl_sitemap {url}"


def check(url: Url) -> str:
    return f"crawl_check {url}"


def left_out(reason: str, url: Url | str) -> str:
    """Of a link in its normal form."""
    return f"{reason} {url}"


def unusable(reason: str, text: str) -> str:
    """Of a text that has no normal form, or of a request that cannot be stored."""
    return f"{reason} {text[:MAX_SHOWN]}"
