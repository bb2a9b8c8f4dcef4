"""What a crawl leaves behind: feeds whose rows are on disk before their page is settled, the folder
they lie in, one clean file of each kind, and the summary.

Gives the scheduler `WorkerOutput` and settings their feeds. Must not know Redis.
"""
