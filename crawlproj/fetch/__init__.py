"""Getting a page: connections, the addresses that they may be made to, and what is read of a body.

Gives Scrapy a download handler. Must not know the frontier. The way of a request:

    handler.py      Scrapy's interface: a Request becomes a Call, an Answer a Response
    client.py       where to (endpoints.py, resolving.py, addresses.py), by which handle
    firsts.py       the first of several requests makes the connection that all of them share
    transfer.py     one easy handle of libcurl and what comes over it (exchange.py), within limits
    options.py      the headers, the proxy and the own address of a request, as libcurl wants them
    curl_loop.py    all of libcurl's transfers on the event loop, whose sockets sockets.py watches
    kept.py         what is known of connections between two requests; open_files.py: how many
    tls.py          whom to trust, who we are, sessions that are taken up again
    unpacking.py    content encodings undone
    failures.py     what went wrong, in words that frontier/failures.py knows
"""
