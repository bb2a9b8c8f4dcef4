"""`scrapy dashboard`: a live web page of all crawls on a Redis, and their metrics.

`app.py` has the addresses that it answers, `guard.py` who may ask; `polling.py` asks Redis for all
who look, as often as for one, and not at all while nobody does. `static/` is the page: plain HTML,
CSS and JavaScript as they are sent. Workers do nothing for it: it reads what the frontier keeps.

Starlette and uvicorn serve it (the extra `dashboard`): small, well kept, asyncio like the client of
Redis, and streams that end when a viewer leaves. They are imported by this command alone.
"""
