// Which crawl is shown is in the address: #/ for all, #/NAME for one.

import { CrawlPage } from "./crawl.js";
import { byId, count, h, moment, rate, refresh, renew, state, table } from "./dom.js";
import { listen } from "./server.js";

let leave = () => {};

function show() {
  leave();
  const crawl = decodeURIComponent(location.hash.replace(/^#\/?/, ""));
  const main = byId("main");
  byId("name").textContent = crawl ? `› ${crawl}` : "";
  document.title = crawl ? `${crawl} · crawl` : "Crawls";
  renew(main, h("p", { class: "note" }, "Reading …"));
  leave = crawl ? showCrawl(main, crawl) : listen("", (crawls) => showAll(main, crawls));
}

function showCrawl(main, crawl) {
  const page = new CrawlPage(main, crawl);
  const missing = () => { if (!page.built) renew(main, h("p", { class: "note" }, "It is shown here as soon as it begins.")); };
  const stop = listen(crawl, (now) => page.update(now), missing);
  return () => { stop(); page.close(); };
}

// Those that somebody works on, or waits for, first.
const LIVE = ["running", "stopping", "paused"];
const rank = (one) => (LIVE.includes(one.state) ? LIVE.indexOf(one.state) : LIVE.length);

function showAll(main, crawls) {
  if (!crawls.length) {
    renew(main, h("section", { class: "panel" }, h("h2", {}, "No crawl yet"), h("p", {}, "scrapy crawl site -a seeds=https://example.com begins one.")));
    return;
  }
  const columns = [
    { name: "crawl", kind: "url", value: (one) => h("a", { href: `#/${encodeURIComponent(one.crawl)}` }, one.crawl) },
    { name: "state", value: (one) => state(one.state) },
    { name: "pages", number: true, value: (one) => count(one.done) },
    { name: "pages/s", number: true, value: (one) => rate(one.pages_per_s) },
    { name: "left", number: true, value: (one) => count(one.left) },
    { name: "dead", number: true, value: (one) => count(one.dead) },
    { name: "hosts", number: true, value: (one) => count(one.hosts) },
    { name: "workers", number: true, value: (one) => `${count(one.workers)}${one.late ? `, ${one.late} late` : ""}` },
    { name: "begun", value: (one) => moment(one.started_at) },
  ];
  const rows = [...crawls].sort((a, b) => rank(a) - rank(b) || String(b.started_at).localeCompare(String(a.started_at)));
  refresh(main, h("section", { class: "panel" }, h("h2", {}, "All crawls on this Redis"), h("div", { class: "scroll" }, table("", columns, rows))));
}

addEventListener("hashchange", show);
show();
