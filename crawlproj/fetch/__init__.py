"""Getting a page: connections, the addresses that they may be made to, and what is read of a body.

Gives Scrapy a download handler. Must not know the frontier.
"""
