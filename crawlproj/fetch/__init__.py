"""Getting a page: connections, the addresses that they may be made to, and what is read of a body.

Gives Scrapy a download handler. Must not know how the frontier works. The way of a request:

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

Before and beside it:

    opening.py      the client of a worker, made of its settings
    content.py      middleware: bodies of unwanted types are not read
    cookies.py      middleware: cookies that all workers share
    wire.py         the exchange as it went over the wire, for archives
    documents.py    the same client for commands, without Scrapy
    rendering/      pages after their scripts have run, in a browser
"""
