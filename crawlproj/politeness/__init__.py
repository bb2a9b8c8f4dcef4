"""How a host wants to be treated: robots.txt, pauses, holds, and hosts that keep one pace together.

Gives the worker an outcome for each leased URL that may not be fetched now, and the host's pause
after each that was. Must not know how pages are downloaded or where rows go.
"""
