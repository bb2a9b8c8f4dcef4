"""A web of our own to crawl: many hosts on loopback, generated from a seed number.

Tests, the `make crawl` demo and the benchmarks share it. Read it in this order:

    spec.py      how large the web is and how much goes wrong in it
    words.py     seeded words, titles and paragraphs
    model.py     what a path of a host can be: page, redirect, asset
    tree.py      the ordinary pages of one host, level by level
    build.py     the whole web: the trees, joined, with everything that goes wrong
    robots.py    the robots.txt that hosts serve, and what it means
    web.py       the web at its addresses, and the ground truth that a crawl is compared with
    render.py    pages as HTML
    site.py      what one host answers
    protocol.py  HTTP/1.1 on one connection
    log.py       who asked for what, from when to when
    serve.py     the server process
    server.py    the server process, seen from the test that started it

It knows nothing of Scrapy, Redis or the frontier: the crawler is judged by it.
"""

from crawlproj.demo.server import DemoServer
from crawlproj.demo.spec import DemoError, WebSpec
from crawlproj.demo.web import DemoWeb, Expected

__all__ = ["DemoError", "DemoServer", "DemoWeb", "Expected", "WebSpec"]
