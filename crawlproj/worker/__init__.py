"""What a worker holds and owes: leases taken ahead, links to be pushed, pages to be settled, the
heartbeat by which it lives, and the end of the crawl.

Gives the scheduler `Membership` and, once there is a crawl to work at, the `Admission` that it asks
for requests. Must not know Scrapy's private parts or the files.
"""
