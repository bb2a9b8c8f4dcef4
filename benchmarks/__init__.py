"""What the project costs and what it gains, each benchmark one command.

    python -m benchmarks.peers      one worker beside seven other crawlers, on six webs
    python -m benchmarks.frontier   push, lease and settle, bytes a URL, beside scrapy-redis's queue
    python -m benchmarks.seen       the seen filter beside a Redis set
    python -m benchmarks.polite     the share of the possible rate at one pause a host
    python -m benchmarks.scaling    1 … 20 workers, three modes, busy cores
    python -m benchmarks.memory     a worker's memory with a million URLs seen
    python -m benchmarks.soak       a fleet at full speed for as long as asked
    python -m benchmarks.watch      status, dashboard and metrics of a very large crawl
    python -m benchmarks.watched    what a worker takes more while it is watched
    python -m benchmarks.drop       deleting millions of queued URLs
    python -m benchmarks.page       docs/performance.md from the results of all of them

Each prints a table and writes `results/NAME.json`. Contestants take turns in short rounds (A B C
A B C …), so that whatever else the machine does meets all of them; medians are shown, and ratios
within the run. CPU a page is shown beside pages a second because it moves less.
"""
