"""For those who run a crawl: how it stands, why a URL is missing, dead letters, capacity, fleets.

Gives the commands what they show and do, and what they are made from (`command.py`); a command
itself only reads its options and prints.
"""
