// The page of one crawl: built once, its parts filled anew with the news.

import { chart } from "./charts.js";
import { Dead } from "./dead.js";
import { brief, count, counted, duration, gauge, h, percent, rate, refresh, renew, size, state, table, zoned } from "./dom.js";
import { flow } from "./flow.js";
import { Hosts } from "./hosts.js";
import { act, ask, dialog } from "./server.js";

const HISTORY_MS = 10000;

const panel = (title, id, ...children) => h("section", { class: "panel", "aria-labelledby": id }, h("header", {}, h("h2", { id }, title)), ...children);

export class CrawlPage {
  constructor(main, crawl) {
    this.crawl = crawl;
    this.main = main;
    this.now = null;
    this.span = "hour";
    this.hosts = new Hosts(crawl);
    this.dead = new Dead(crawl);
    this.built = false;
  }

  close() {
    clearInterval(this.timer);
    this.hosts.close();
    this.dead.close();
  }

  build() {
    this.parts = Object.fromEntries(["head", "tiles", "flow", "charts", "workers", "recent", "errors", "patterns", "seen", "memory", "why"]
      .map((name) => [name, h("div", { id: `part-${name}` })]));
    const { parts } = this;
    const spans = h("label", {}, "time shown", h("select", { id: "span", onchange: (event) => { this.span = event.target.value; this.readHistory(); } },
      h("option", { value: "hour" }, "last hour"), h("option", { value: "day" }, "last day"), h("option", { value: "all" }, "two months")));
    renew(this.main,
      h("section", { class: "panel", "aria-label": "State" }, parts.head, parts.tiles),
      panel("From found to done", "t-flow", parts.flow),
      h("section", { class: "panel", "aria-labelledby": "t-time" }, h("header", {}, h("h2", { id: "t-time" }, "Over time"), spans), parts.charts),
      panel("Workers", "t-workers", parts.workers),
      this.hosts.element,
      h("div", { class: "two" }, panel("Recent pages", "t-recent", parts.recent), panel("Why are URLs dead or left out?", "t-errors", parts.errors)),
      this.dead.element,
      panel("URL patterns that are set aside", "t-patterns", parts.patterns),
      h("div", { class: "two" }, panel("Seen filter", "t-seen", parts.seen), panel("Memory of Redis", "t-memory", parts.memory)),
      panel("What became of a URL?", "t-why", this.whyForm(), parts.why));
    this.built = true;
    this.readHistory();
    this.timer = setInterval(() => this.readHistory(), HISTORY_MS);
    this.hosts.start();
    this.dead.read();
  }

  update(now) {
    this.now = now;
    if (!this.built) this.build();
    const { parts } = this;
    this.head();
    refresh(parts.tiles, tiles(now));
    renew(parts.flow, flow(now, Math.max(280, parts.flow.clientWidth)));
    refresh(parts.workers, workers(now));
    refresh(parts.recent, recent(now));
    refresh(parts.errors, bars("dead", now.reasons, now.meanings), bars("filtered", now.unfetched, now.meanings), bars("statuses", now.statuses, {}));
    this.patterns();
    refresh(parts.seen, seen(now.seen));
    refresh(parts.memory, memory(now));
    this.dead.update(now);
  }

  head() {
    const { now } = this;
    const key = `${now.state} ${now.epoch} ${now.unreadable}`;
    if (this.shownHead === key) return;  // buttons keep the focus
    this.shownHead = key;
    const isOver = isEnded(now);
    const button = (name, action, enabled) => h("button", { type: "button", id: `do-${action}`, disabled: !enabled, onclick: () => this.command(action) }, name);
    renew(this.parts.head, h("header", { class: "buttons" }, h("span", { id: "state" }, state(now.state)),
      button("Pause", "pause", now.state === "running"), button("Resume", "resume", now.state === "paused"),
      button("Stop", "stop", !isOver), h("button", { type: "button", id: "do-seeds", onclick: () => this.addSeeds() }, "Add seeds"),
      now.unreadable ? h("p", { class: "note", id: "unreadable" }, now.unreadable) : null,
      h("span", { class: "note" }, now.started_at ? `since ${zoned(now.started_at)}${now.finished_at ? `, until ${zoned(now.finished_at)}` : ""}` : "not begun yet")));
  }

  async command(action) {
    if (action === "stop") {
      const text = "All workers, on all machines, finish what they hold and leave. Starting the crawl again resumes it.";
      if (!await dialog(`Stop ${this.crawl}?`, [h("p", {}, text)], "Stop")) return;
    }
    await act(this.crawl, action);
  }

  async addSeeds() {
    const field = h("label", {}, "URLs, one a line", h("textarea", { name: "urls", required: true, spellcheck: "false" }));
    const given = await dialog(`Add seeds to ${this.crawl}`, [field], "Add");
    if (given) await act(this.crawl, "seeds", { urls: given.urls });
  }

  async readHistory() {
    const past = await ask("history", this.crawl, { span: this.span }).catch(() => null);
    if (!past) return;
    const { charts } = this.parts;
    if (past.rates.length < 2) {
      renew(charts, h("p", { class: "note" }, isEnded(this.now) ? "It was over too soon for a course: the past is written with heartbeats." : "The past is written with heartbeats: come back in a minute."));
      return;
    }
    const width = Math.max(280, Math.min(charts.clientWidth, 1400) / (charts.clientWidth > 900 ? 2 : 1) - 8);
    const of = (list, name) => list.map((one) => one[name]);
    const times = of(past.rates, "at_s");
    const moments = of(past.moments, "at_s");
    renew(charts, h("div", { class: "two" },
      chart("Pages and new URLs a second", times, [line("pages", "done", past.rates, "pages"), line("new URLs", "queued", past.rates, "found")], width),
      chart("Dead letters a second", times, [line("dead", "dead", past.rates, "dead")], width),
      chart("Waiting", moments, [line("queued", "queued", past.moments, "queued"), line("delayed", "delayed", past.moments, "delayed")], width),
      chart("Hosts and workers", moments, [line("hosts", "leased", past.moments, "hosts"), line("workers", "done", past.moments, "workers")], width)));
  }

  patterns() {
    const list = this.now.patterns;
    const key = JSON.stringify(list.map((one) => [one.pattern, one.urls]));
    if (this.shownPatterns === key) return;
    this.shownPatterns = key;
    const columns = [
      { name: "pattern", kind: "url", value: (one) => one.pattern },
      { name: "why", value: (one) => one.why },
      { name: "URLs", number: true, value: (one) => count(one.urls) },
      { name: "kept", number: true, value: (one) => count(one.kept) },
      { name: "", value: (one) => h("button", { type: "button", class: "small", "aria-label": `Release ${one.pattern}`, onclick: () => act(this.crawl, "release", { pattern: one.pattern }) }, "Release") },
    ];
    renew(this.parts.patterns, list.length
      ? h("div", { class: "scroll" }, table("They brought nothing new. To release one queues what is kept of it.", columns, list.slice(0, 50)))
      : h("p", { class: "note" }, "None."));
  }

  whyForm() {
    const look = async (event) => {
      event.preventDefault();
      const url = event.target.elements.url.value.trim();
      renew(this.parts.why, h("p", { class: "note" }, "Looking …"));
      const found = await ask("why", this.crawl, { url }).catch((error) => ({ state: "unknown", text: error.message }));
      renew(this.parts.why, h("p", { role: "status", id: "why-answer" }, state(found.state), " ", found.text),
        h("dl", { class: "facts" }, factsOf(found)));
    };
    return h("form", { class: "row", onsubmit: look },
      h("label", { class: "grow" }, "URL", h("input", { name: "url", type: "text", inputmode: "url", required: true, placeholder: "https://…", autocomplete: "off" })),
      h("button", {}, "Look it up"));
  }
}

const isEnded = (now) => ["finished", "stopped", "empty"].includes(now.state);

// What is known of a URL beside the sentence that tells what became of it; what is null is in that sentence.
const FACTS = {
  fetched_at: ["fetched", (value) => zoned(value)], failed_at: ["given up", (value) => zoned(value)], due_at: ["due", (value) => zoned(value)],
  host_next_s: ["next turn of its host", (value) => (value > 0 ? `in ${duration(value)}` : "now")], at_least_s: ["its own turn", (value) => `in ${duration(value)} at the earliest`],
  content_type: ["type", String], size: ["size", size], links: ["links on it", count], elapsed_ms: ["took", (value) => `${count(value)} ms`],
  depth: ["links away from a seed", count], false_positive: ["chance that this is a mistake", percent],
  url: null, state: null, text: null, status: null, reason: null, attempts: null, ahead: null, priority: null, worker: null, referer: null, redirect_to: null, pattern: null, lease: null,
};

const factsOf = (found) => Object.entries(found).filter(([name, value]) => FACTS[name] !== null && value !== "" && value !== null).map(([name, value]) => {
  const [words, shown] = FACTS[name] || [name.replaceAll("_", " "), String];
  return [h("dt", {}, words), h("dd", {}, shown(value))];
});

const line = (name, kind, list, field) => ({ name, kind, values: list.map((one) => one[field]) });

function tiles(now) {
  const left = now.queued + now.delayed + now.leased;
  const filtered = Object.values(now.filtered).reduce((sum, one) => sum + one, 0);
  const tile = (kind, name, value, below) => h("div", { class: kind }, h("dt", {}, name), h("dd", { id: `tile-${name.replace(/\W+/g, "-")}` }, value, h("small", {}, below)));
  return h("dl", { class: "tiles" },
    tile("done", "pages", count(now.done), `${size(now.bytes)}, balance ${count(now.balance)}`),
    tile("done", "pages a second", rate(now.pages_per_s), `${rate(now.average)} on average`),
    tile("queued", "left", count(left), now.estimate_s ? `${duration(now.estimate_s)} at least` : " "),
    tile("dead", "dead", count(now.dead), now.done + now.dead ? `${(now.dead / (now.done + now.dead) * 100).toFixed(1)} % of what has ended` : " "),
    tile("filtered", "filtered", count(filtered), counted(now.duplicates, "duplicate")),
    tile("leased", "workers", count(now.workers.filter((one) => one.alive).length), lateText(now)),
    tile("queued", "hosts", count(now.hosts), now.seeds_waiting ? `${counted(now.seeds_waiting, "seed")} waiting` : " "));
}

const lateText = (now) => {
  const late = now.workers.filter((one) => one.missed || !one.alive).length;
  return late ? `${late} late or silent` : `${counted(now.leased, "URL")} in hand`;
};

export const workerState = (one) => (one.alive ? (one.missed ? "late" : "alive") : "silent");

function workers(now) {
  if (!now.workers.length) return h("p", { class: "note" }, "No worker is at it.");
  const columns = [
    { name: "worker", kind: "url", value: (one) => one.name },
    { name: "machine", value: (one) => one.host },
    { name: "state", value: (one) => state(workerState(one)) },
    { name: "pages", number: true, value: (one) => count(one.pages) },
    { name: "pages/s", number: true, value: (one) => rate(one.pages_per_s) },
    { name: "in hand", number: true, value: (one) => count(one.leased) },
    { name: "memory", number: true, value: (one) => size(one.memory) },
    { name: "heartbeat", number: true, value: (one) => (one.heartbeat_s === null ? "" : `${Math.round(one.heartbeat_s)} s ago`) },
  ];
  const order = { silent: 0, late: 1, alive: 2 };
  const rows = [...now.workers].sort((a, b) => order[workerState(a)] - order[workerState(b)] || b.pages_per_s - a.pages_per_s);
  const caption = rows.length > 50 ? `50 of ${count(rows.length)}, those in trouble first` : "";
  return h("div", { class: "scroll" }, table(caption, columns, rows.slice(0, 50)));
}

function recent(now) {
  if (!now.recent.length) return h("p", { class: "note" }, isEnded(now) ? "No worker is at it any more, to tell of them." : "Workers tell of them with their heartbeats.");
  const columns = [
    { name: "URL", kind: "url", value: (one) => one.url },
    { name: "came to", value: (one) => one.reason || one.status },
    { name: "ago", number: true, value: (one) => duration(one.ago_s) },
    { name: "worker", kind: "url", value: (one) => one.worker },
  ];
  return h("div", { class: "scroll" }, table("", columns, now.recent.slice(0, 12)));
}

const KINDS = { dead: "dead", filtered: "filtered", statuses: "queued" };

function bars(name, counts, meanings) {
  const ranked = Object.entries(counts).sort((a, b) => b[1] - a[1]);
  if (!ranked.length) return null;
  const most = ranked[0][1];
  const rest = ranked.slice(10).reduce((sum, one) => sum + one[1], 0);
  const shown = rest ? [...ranked.slice(0, 10), ["others", rest]] : ranked;
  return [h("h3", {}, name), h("dl", { class: "bars" }, shown.map(([word, value]) => h("div", {}, h("dt", {}, word, meanings[word] ? h("small", {}, meanings[word]) : null),
    h("dd", {}, gauge(value / Math.max(most, value), KINDS[name], `${word}: ${value}`)), h("dd", {}, count(value)))))];
}

function seen(filter) {
  const share = filter.capacity ? filter.items / filter.capacity : 0;
  return [
    gauge(share, "queued", `The seen filter is ${percent(share)} full`),
    h("p", {}, `${count(filter.items)} of ${count(filter.capacity)} URLs (${(share * 100).toFixed(1)} %); it grows by itself.`),
    h("p", {}, `Taken for known by mistake: expected ${percent(filter.expected_fp)}, measured ${percent(filter.measured_fp)}`
      + `${filter.audited ? ` of ${count(filter.audited)} that were checked` : ""}.`),
  ];
}

function memory(now) {
  const { used, limit, waiting } = now.memory;
  if (!limit) return h("p", {}, `${size(used)} in use; no maxmemory is set.`);
  const lasts = now.memory_lasts_s === null ? "It does not grow." : `Full in ${duration(now.memory_lasts_s)}, if it goes on as in the last hour.`;
  return [
    gauge(used / limit, used / limit > 0.85 ? "leased" : "queued", `Redis uses ${percent(used / limit)} of its memory`),
    h("p", {}, `${size(used)} of ${size(limit)} (${(used / limit * 100).toFixed(1)} %). ${lasts}`),
    waiting ? h("p", {}, `${brief(waiting)} new links wait in workers for room.`) : null,
  ];
}
