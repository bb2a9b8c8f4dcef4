"""For who runs a crawl: how it stands, why a URL is missing, dead letters, capacity, fleets.

Gives the commands what they show and do; a command itself only reads its options and prints.
"""
