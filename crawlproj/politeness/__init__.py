"""How a host wants to be treated: robots.txt, pauses, holds, and hosts that keep one pace together.

Gives the worker a verdict on each leased URL, before it is fetched, and the host's next pause,
after it. Must not know how pages are downloaded or where rows go.
"""
