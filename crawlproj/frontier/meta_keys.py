"""The keys of `request.meta` by which our modules tell each other something of a request, and those
of Scrapy's that are stored in a way of their own, or set by us. What users set as Scrapy's
documentation says (`depth`, `download_timeout`, `dont_retry`) goes by its name.

A request comes from a record in Redis, where others can write: whoever reads a value judges it.
"""

from __future__ import annotations

# Of the lease

LEASE = "frontier_lease"
"""The lease of a request in hand (worker/tracking.py); never stored."""

REQUEST = "frontier_request"
"""The identity of a leased request that is no plain GET (request_identity.py). It is stored with
those alone that are tried again, and never as a spider has it in its meta."""

# How a request came to be

REFERER = "referer"
"""The page on which a link was found; stored apart from the rest of the meta."""

PASSED = "redirects"
"""The URLs by which redirects have led to this one, so that a circle is recognised."""

FOUND = "crawl_found"
"""Marks a seed at a host that something on the web has named, and no user: it opens no address that
links may not lead to."""

VISIT = "crawl_visit"
"""Of a page that is revisited: its priority, and what its last visit has left, as visits.py packs
it; stored apart from the rest of the meta."""

# What a request is for, if not for a page

CHECK = "crawl_check"
"""Marks a link which is only asked whether it is there."""

SITEMAP = "crawl_sitemap"
"""Marks a sitemap: how many others, by index or redirect, led to it."""

ROBOTS_TXT = "robots_txt"
"""The host whose robots.txt the request looks for."""

ROBOTS_VIA, ROBOTS_HOPS = "robots_via", "hops"
"""Of a robots.txt: other hosts whose own has led there as well, and redirects that were
followed."""

# How it is downloaded, and what is noted of that

BEGINNING = "download_beginning"
"""Only so many bytes of the body are wanted; no more than one beyond them is kept, whatever
DOWNLOAD_MAXSIZE says (fetch/handler.py)."""

PACKED = "download_packed"
"""A body that nobody reads is left as it came, in whatever encoding."""

KEEP_WIRE, WIRE = "keep_wire", "wire"
"""Whether the exchange is to be kept as it went over the wire, and that, once there is an answer
(fetch/wire.py)."""

RENDER_S = "render_s"
"""How long the scripts of a page ran (fetch/rendering)."""

# Scrapy's own

PROXY = "proxy"
"""The proxy of a request."""

SENT_LOGIN, FROM_ENVIRONMENT = "_auth_proxy", "_scheme_proxy"
"""To whom a login was sent, and that the environment has chosen the proxy."""

RETRY_TIMES = "retry_times"
"""How often its middleware has tried a request again."""

REDIRECT_URLS = "redirect_urls"
"""The same as PASSED, where Scrapy's middleware follows redirects."""

STATUSES = "handle_httpstatus_list"
"""The statuses, other than of success, with which a callback is called; an attribute of spiders of
the same meaning is called so, too."""
