"""What a worker holds and owes: leases taken ahead, links to be pushed, pages to be settled, the
heartbeat by which it lives, and the end of the crawl.

Gives the scheduler `take`, `push` and `end`. Must not know Scrapy's private parts or the files.
"""
