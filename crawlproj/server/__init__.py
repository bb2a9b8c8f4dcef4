"""Which Redis: how to reach it, a private one where none is named, and what is wrong with it.

Gives the other rooms a connected client (`connection.py`). Knows nothing of crawls: no key, no
script and no URL to crawl stands here.
"""
