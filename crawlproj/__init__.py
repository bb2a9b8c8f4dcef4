"""A shared frontier in Redis for Scrapy.

The life of a URL, and who moves it
-----------------------------------

    seed or link ──► normalise, scope, score ──► seen? ──► QUEUED at its host
                                                              │ host due, best first
                  ┌────────── retry, after a delay ───────────┤
                  │                                           ▼
               DELAYED ◄── transient failure ──────────── LEASED by one worker
                                                              │ fetch, parse, export
                       ┌──────────────┬───────────────────────┤
                       ▼              ▼                        ▼
                 DEAD (reason)   FILTERED (reason)           DONE ──► resting, when due QUEUED again

1. A page's links are read by `discover/links.py`, made one form by `urls.py`, judged by `rules.py`,
   ranked by `ranking.py` and collected by `discovery.py`. Seeds come through `seeds.py`, the pages
   of sitemaps through `sitemap_reading.py`, and ordinary Requests through `worker/requests.py` and
   `frontier/records.py`; all meet in `worker/exchange.py`. What belongs to a URL pattern that
   brings nothing new is set aside by `quarantine.py`, as FILTERED (pattern), until a user releases
   it.
2. `worker/delivery.py` pushes what was collected (`outbox.py`). In Redis, `frontier/lua/push.lua`
   asks the seen filter, puts what is new into its host's queue, and then marks it seen: QUEUED.
   A lease brings what others have pushed (`frontier/seen_updates.py`), so that known links cost no
   question.
3. `frontier/lua/lease.lua` gives the best URLs of hosts that are due to one worker: LEASED. The
   host is checked out until the request has ended and its pause has passed. Hosts of a domain or an
   address (`politeness/groups.py`) can stand in line as one, and then that is checked out. Leases
   are taken ahead into a buffer, from which Scrapy's engine is served without waiting; what is in
   it when its host asks for rest goes back (`politeness/holds.py`).
4. Before a page is fetched (`worker/admission.py`), `politeness/permission.py` must know its host's
   robots.txt, which is itself a URL in the host's queue, in front of all others.
5. Scrapy downloads (`fetch/`), the spider parses, items pass `pipelines/` into the feeds.
   `worker/tracking.py` writes down what happens; `engine/watch.py` tells when it is over;
   `worker/outcome.py` says what becomes of it (the cases are in `frontier/outcomes.py`).
6. `delivery.py` pushes the page's links, has its rows on disk (`output/row_file.py`), and then
   settles it (a Redis without room for links, see `server/memory.py`, makes the page wait, not its
   host): `frontier/lua/settle.lua` makes it DONE, DEAD, FILTERED or DELAYED, and starts the host's
   pause.
7. Every worker process has a mark of its own (`frontier/worker_names.py`) and lives by its
   heartbeat (`renew.lua`). When one falls silent, `reclaim.lua` queues again what it held; should
   it come back, its late verdicts find nothing to settle. Cut off from Redis for as long, it breaks
   off by itself what is under way.
8. Where pages are revisited (`discover/refreshing.py`), one that is done rests: `settle.lua` notes
   when it is due, and `wake_resting.lua` queues it again then, as the budget allows. It is DONE
   while it rests and no longer when it is queued, so that what is counted adds up all the time.
9. When nothing is queued, delayed or leased anywhere, and nothing rests, `worker/finish.py` ends
   the crawl for all. The next one begins with its first seed; until then workers wait in
   `worker/next_crawl.py`. What of a crawl's plan can be changed while it goes on is in
   `worker/replan.py`.

Every script counts what it moves, so at any moment
discovered = queued + delayed + leased + done + dead + filtered.

What a restart loses: nothing that Redis has kept. A worker's buffers are repeated by others; what a
Redis loses with its last unsaved second is found again, because a page is settled only after its
links were pushed, and a worker that brought a seed pushes it again (`worker/fresh_seeds.py`). Out
of scope: exactly-once fetching (a page whose worker died while fetching it is fetched again).
"""

__version__ = "0.7.1"
