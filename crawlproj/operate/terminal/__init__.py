"""A crawl on a terminal: a live block under the log, and a screen with keys.

Whatever is here is imported late, by those who have a terminal: Rich, which draws it, is nothing
that a worker elsewhere should load. All of it shows the one `Status`. Text from the web or from
Redis comes in through `in_one_line` (plain_text.py) and as Rich's `Text`, never as markup.
"""
