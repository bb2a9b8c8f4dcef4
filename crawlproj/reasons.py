"""Why a URL was filtered or ended dead: every reason that is counted, its meaning, and what to do
about it. `docs/reasons.md` shows this table, and a test keeps the two alike. Pure.
"""

# ruff: noqa: E501 - a row of a table is a line

from __future__ import annotations

from typing import NamedTuple

CALLBACK = "callback_"
"""How the reason of a page begins that is there, and at which the project's own code failed."""


class Reason(NamedTuple):
    """A reason as the ledger counts it, for people."""

    name: str
    meaning: str
    remedy: str


FILTERED = (
    Reason("depth", "further from a seed than `depth` allows", "raise `depth`"),
    Reason(
        "offsite",
        "outside the scope that the seeds brought",
        "`scope=domain` or `any`, or add its host as a seed",
    ),
    Reason("denied", "matches `deny`", "change `deny`"),
    Reason("not_allowed", "does not match `allow`", "change `allow`"),
    Reason("media", "ends like an image, sound, film, archive or font", "`CRAWL_MEDIA = True`"),
    Reason(
        "trap-depth",
        "more segments in its path than `CRAWL_TRAP_DEPTH`",
        "raise it, or `CRAWL_TRAPS = False`",
    ),
    Reason(
        "trap-repeat",
        "one segment of its path occurs more often than `CRAWL_TRAP_REPEATS`",
        "raise it, or `CRAWL_TRAPS = False`",
    ),
    Reason(
        "trap-params",
        "more parameters in its query than `CRAWL_TRAP_PARAMS`",
        "raise it, or `CRAWL_TRAPS = False`",
    ),
    Reason(
        "trap-sitemap",
        "a sitemap to which more than five others, by index or redirect, have led",
        "`scrapy seed --sitemap` with its URL, if its pages are wanted",
    ),
    Reason(
        "pattern",
        "its URL pattern brought only pages that repeat each other",
        "look at `scrapy patterns`, and release it there",
    ),
    Reason(
        "robots",
        "the host's robots.txt disallows it",
        "nothing: the site does not want it crawled. `POLITENESS_OVERRIDES` for a site of your own",
    ),
    Reason(
        "robots_unreachable",
        "the host's robots.txt could not be had, so nothing of it may be fetched",
        "begin it again later with `scrapy seed`",
    ),
    Reason("robots_txt", "a robots.txt itself: read, and no page", "nothing"),
    Reason("sitemap", "a sitemap itself: read, and no page", "nothing"),
    Reason(
        "checked",
        "a link that is only asked for (`check`), and is there: no page, no row, no part of a budget",
        "nothing",
    ),
    Reason(
        "read_as_page",
        "a link that was to be asked for (`check`) and has been found to be a page of the crawl before "
        "its turn: the page is fetched, and tells as much",
        "nothing",
    ),
    Reason(
        "noindex",
        "the page asks not to be indexed, and `CRAWL_NOINDEX` is on: its links count, it has no row",
        "`CRAWL_NOINDEX = False`",
    ),
    Reason(
        "address",
        "its name leads to a private, loopback or other special address",
        "`CRAWL_ALLOW_ADDRESSES`, if that network is yours",
    ),
    Reason("page_limit", "the crawl had its `pages`", "raise `pages`"),
    Reason("host_limit", "the host had its `pages_per_host`", "raise `pages_per_host`"),
    Reason("domain_limit", "the domain had its `pages_per_domain`", "raise `pages_per_domain`"),
    Reason(
        "host_down",
        "its host failed `POLITENESS_GIVE_UP` times in a row",
        "seed it again when the host is back",
    ),
    Reason(
        "dead_again", "it was given up before, and again: the later dead letter counts", "nothing"
    ),
    Reason(
        "deleted",
        "was queued, and a user deleted it (`scrapy drop`)",
        "seed it again, if it is wanted after all",
    ),
    Reason("forgotten", "a dead letter that a user threw away (`scrapy dead --forget`)", "nothing"),
    Reason(
        "ignored",
        "a middleware dropped the request (`IgnoreRequest`)",
        "look into the log for which",
    ),
    Reason(
        "unstorable",
        "the request holds what cannot be stored: a lambda, an open file, more than `FRONTIER_MAX_RECORD_BYTES`",
        "use a method of the spider, plain values, less",
    ),
    Reason(
        "corrupt",
        "its record in Redis was damaged and cannot be read",
        "find out who writes to that Redis",
    ),
    Reason("scheme", "not http or https", "nothing"),
    Reason("host", "no usable host in it", "nothing: the page that has it is wrong"),
    Reason("port", "a port that does not exist", "nothing: the page that has it is wrong"),
    Reason(
        "idn",
        "an international name that no registry could hold",
        "nothing: the page that has it is wrong",
    ),
    Reason("length", "longer than 2,083 characters", "nothing"),
    Reason("syntax", "no URL at all", "nothing: the page that has it is wrong"),
)

DEAD = (
    Reason(
        "http_NNN",
        "the server answered with that status, which is neither a success nor a redirect",
        "404 and 410: mend the page in `referer`; 403: ask the site; 429 and 5xx: `scrapy dead --retry` later",
    ),
    Reason(
        "dns",
        "the name does not resolve",
        "mend the page in `referer`; `scrapy doctor` checks this machine's DNS",
    ),
    Reason(
        "connection",
        "nobody answers at that port, or the connection broke",
        "`scrapy dead --retry` later",
    ),
    Reason(
        "unreachable",
        "a link that is only asked for (`check`), whose host does not even give its robots.txt",
        "mend the page in `referer`, or `scrapy dead --retry` later",
    ),
    Reason(
        "request",
        "it cannot be put into a request: a character in its URL, its method or a header that HTTP forbids",
        "mend the spider or the seed that asks for it",
    ),
    Reason("scheme", "not http or https", "nothing"),
    Reason("timeout", "no answer within `DOWNLOAD_TIMEOUT`", "raise it, or retry later"),
    Reason(
        "browser",
        "its scripts could not be run: the browser crashed, hung or did not start, as often as "
        "`FRONTIER_MAX_ATTEMPTS` allows",
        "see the log; then `scrapy dead --retry --reason browser`",
    ),
    Reason("size", "more than `DOWNLOAD_MAXSIZE` bytes, packed or unpacked", "raise it"),
    Reason(
        "truncated",
        "the body ended early, or what it is packed with is damaged",
        "retry later; if it stays, the server is wrong",
    ),
    Reason(
        "protocol", "the answer is no HTTP, or breaks its limits", "nothing: the server is wrong"
    ),
    Reason(
        "certificate",
        "the certificate is not for that name, too old, or signed by nobody known",
        "nothing, or trust its authority (`CRAWL_CA_FILE`)",
    ),
    Reason("redirect_loop", "redirects in a circle, or more than 20", "mend the page in `referer`"),
    Reason(
        "redirect_nowhere", "a redirect to something that is no URL", "nothing: the server is wrong"
    ),
    Reason(
        "callback_NAME",
        "the spider's callback, or a pipeline, raised that exception",
        "mend it, then `scrapy dead --retry`; the log has the traceback",
    ),
    Reason(
        "attempts",
        "a middleware asked to try again more often than `FRONTIER_MAX_ATTEMPTS`",
        "raise it, or look into the log",
    ),
    Reason(
        "worker_lost",
        "its worker died that many times while it had it",
        "look at the page by hand: it may be what kills them",
    ),
    Reason(
        "bad_record",
        "what is stored of it cannot be made a request",
        "find out who writes to that Redis",
    ),
)


READ = frozenset({"robots_txt", "sitemap", "checked", "noindex"})
"""Of the filtered: these were fetched, and are no pages."""

_MEANINGS = {one.name: one.meaning.replace("`", "") for one in (*FILTERED, *DEAD)}


def meaning_of(name: str) -> str:
    """What a reason means, without marks of Markdown; empty if it is none of these."""
    if name.startswith("http_"):
        return f"the server answered with the status {name.removeprefix('http_')}"
    return _MEANINGS["callback_NAME"] if name.startswith(CALLBACK) else _MEANINGS.get(name, "")


def table(reasons: tuple[Reason, ...]) -> str:
    """The reasons as a table of Markdown."""
    rows = (f"| `{one.name}` | {one.meaning} | {one.remedy} |\n" for one in reasons)
    return "| reason | meaning | what to do |\n|---|---|---|\n" + "".join(rows)
