"""What pages say of themselves: `attributes-*.jsonl`.

`table.py` takes pages in the worker and has their rows on disk; `helper.py` is the process that
reads them, by `reading.py` (which attribute comes from where), `facts.py` (one parsed page),
`structured.py` (JSON-LD, microdata, OpenGraph), `dates.py` and `text.py`. Which rows are kept is
said by a rule (config/keep_rules.py).
"""
