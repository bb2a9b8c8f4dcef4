"""What one demo host answers: the replies to all of its paths, made in advance.

It counts the failures of flaky pages, which is all that changes while the web is served.
"""

from __future__ import annotations

from collections.abc import Mapping

from crawlproj.demo.model import Asset, Page, Redirect, Ref, Resource
from crawlproj.demo.protocol import Reply, Request, make_reply
from crawlproj.demo.render import Renderer
from crawlproj.demo.web import DemoWeb

ECHO = "/echo"
HTML = {"Content-Type": "text/html; charset=utf-8"}
TEXT = {"Content-Type": "text/plain; charset=utf-8"}


class Site:
    def __init__(
        self,
        replies: Mapping[str, Reply],
        failures: Mapping[str, int],
        *,
        latency_s: float = 0.0,
        retry_after_s: int = 0,
    ) -> None:
        retry = {"Retry-After": str(retry_after_s)} if retry_after_s else {}
        self._replies = replies
        self._failures_left = dict(failures)
        self._latency_s = latency_s
        self._unavailable = make_reply(503, TEXT | retry, (b"Try again.\n",), latency_s)
        self._missing = make_reply(404, HTML, (b"<h1>Not found</h1>\n",), latency_s)

    def answer(self, request: Request) -> Reply:
        if request.method in {"GET", "HEAD"}:
            if request.target in self._failures_left:
                return self._fail(request.target)
            return self._replies.get(request.target, self._missing)
        if request.headers.is_chunked:
            return make_reply(411, TEXT, (b"Send a Content-Length.\n",))
        if request.method == "POST" and request.target == ECHO:
            kind = {"Content-Type": request.headers.content_type}
            return make_reply(200, kind, (request.body,), self._latency_s)
        if request.method == "?":
            return make_reply(400, TEXT, (b"This is not HTTP.\n",))
        return make_reply(405, TEXT | {"Allow": "GET, HEAD"}, (b"Only GET and HEAD.\n",))

    def _fail(self, target: str) -> Reply:
        self._failures_left[target] -= 1
        if not self._failures_left[target]:
            del self._failures_left[target]
        return self._unavailable


def make_sites(web: DemoWeb) -> list[Site]:
    """One site a host of the web, in the order of its hosts."""
    renderer = Renderer(web)
    replies: list[dict[str, Reply]] = [{} for _ in web.bases]
    failures: list[dict[str, int]] = [{} for _ in web.bases]
    for ref, resource in web.resources.items():
        replies[ref.host][ref.path] = _reply(web, renderer, ref, resource)
        if isinstance(resource, Page) and resource.failures:
            failures[ref.host][ref.path] = resource.failures
    for host, known in enumerate(replies):
        text = web.robots_txt(host)
        if text is not None:
            known["/robots.txt"] = make_reply(200, TEXT, (text.encode(),), web.spec.latency_s)
    return [
        Site(
            *state,
            latency_s=web.spec.latency_s,
            retry_after_s=web.spec.retry_after_s,
        )
        for state in zip(replies, failures, strict=True)
    ]


def _reply(web: DemoWeb, renderer: Renderer, ref: Ref, resource: Resource) -> Reply:
    latency_s = web.spec.latency_s
    match resource:
        case Page():
            body = renderer.page(ref, resource)
            return make_reply(200, HTML, body, latency_s + resource.delay_s)
        case Redirect(target=target, status=status):
            location = target.path if target.host == ref.host else web.url(target)
            return make_reply(status, TEXT | {"Location": location}, (b"Moved.\n",), latency_s)
        case Asset(content_type=kind, body=content):
            return make_reply(200, {"Content-Type": kind}, (content,), latency_s)
