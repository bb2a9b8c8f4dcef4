"""The report of a crawl, for people: one HTML file, a few lines of text, JSON for scripts.

`reading.py` asks the crawl's tables (`output/tables.py`) and makes a `Report` (`model.py`);
`page.py`, `text.py` and `as_json.py` show it. `problems.py` is the list of what is looked for,
`unfetched.py` has what only the ledger knows, `comparison.py` compares with an earlier crawl,
`charts.py` draws. Nothing here knows Redis or Scrapy, and no worker imports it: DuckDB and Jinja
are large.
"""
