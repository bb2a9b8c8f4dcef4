"""What Redis keeps of a crawl: queues by host, leases, the seen filter, and the scripts that move
a URL from one state to the next (`lua/`, one operation a file).

Gives the other rooms `Frontier`, with a typed method for each operation. Must not know Scrapy's
engine, connections, or how links are found.
"""
