"""Pages by URL in a database (CRAWL_STORE): SQLite, or PostgreSQL.

tables.py says what is kept and in which SQL, sqlite.py and postgresql.py how their server is spoken
to, writer.py gathers pages and commits them, in a thread. Nothing of it is imported by a crawl that
keeps no pages.
"""
