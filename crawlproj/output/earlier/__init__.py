"""A crawl against the files of an earlier one (CRAWL_AGAINST): pages are asked for only if they
have changed since, and what has not is taken from there.

`lookup.py` finds a page of the earlier crawl in a file of SQLite; `build.py` is the process that
makes that file; `crawl.py` is what a worker asks.
"""
