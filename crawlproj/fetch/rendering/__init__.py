"""Pages whose scripts are run (CRAWL_RENDER), in a Chromium that has no network of its own.

A page is fetched as any other. Where it needs its scripts it is then opened in the browser, which
is given the body that has come: the page itself is not asked for again. Whatever its scripts ask
for is judged and fetched by our own client, so that robots.txt, the host's pace and the guard of
addresses hold for it as for any page. What they have made of the page takes the place of its body.

    need.py       which pages need their scripts. Pure
    browser.py    one Chromium, started when it is needed and replaced when it has grown
    errands.py    what a page in the browser asks for: judged, fetched, or refused
    renderer.py   a response becomes one whose scripts have run

Imported only where pages are rendered; the packages are those of the extra `render`.
"""
