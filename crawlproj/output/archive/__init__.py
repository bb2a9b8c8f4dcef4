"""Pages as they came over the wire, in WARC 1.1: workers write it, `scrapy archive` reads it.

records.py says what a record is, files.py how they get to disk, recorder.py where they come from.
reading.py reads them again, for verifying.py, index.py, lookup.py and wacz.py.
"""
