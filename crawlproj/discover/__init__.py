"""From what is found to what is queued: links, seeds and sitemaps are read, made one form, judged
by rules, ranked, and told from patterns that bring nothing new.

Gives the worker what to push. Must not know the engine, the download or the output.
"""
