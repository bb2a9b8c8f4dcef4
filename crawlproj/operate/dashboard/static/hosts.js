// Hosts, of which there may be millions: the server looks through them, and sends the first of an order.

import { count, counted, duration, h, isSelected, renew, shortened, state, table } from "./dom.js";
import { act, ask, dialog, say } from "./server.js";
import { treemap } from "./treemap.js";

// The orders that the server knows in which the least comes first.
const ASCENDING = ["host", "next"];
const EVERY_MS = 5000;
const SOON_MS = 700;

export class Hosts {
  constructor(crawl) {
    this.crawl = crawl;
    this.sort = "queued";
    this.text = "";
    this.list = h("div", { class: "scroll" });
    this.picture = h("div", { id: "part-picture" });
    this.progress = h("p", { class: "note", id: "hosts-progress" });
    const typed = (event) => { this.text = event.target.value; clearTimeout(this.typing); this.typing = setTimeout(() => this.read(true), 300); };
    const search = h("label", {}, "name contains", h("input", { id: "host-search", type: "search", autocomplete: "off", spellcheck: "false", oninput: typed }));
    this.element = h("section", { class: "panel", "aria-labelledby": "t-hosts" },
      h("header", {}, h("h2", { id: "t-hosts" }, "Hosts"), search), this.picture, legend(), this.progress, this.list);
  }

  start() {
    this.read();
  }

  close() {
    clearTimeout(this.timer);
    clearTimeout(this.typing);
    this.isClosed = true;
  }

  // `isAsked`: the user has asked for another order or other hosts, and waits for them.
  async read(isAsked = false) {
    this.isAwaited ||= isAsked;
    clearTimeout(this.timer);
    const asked = { q: this.text, sort: this.sort };
    const found = await ask("hosts", this.crawl, asked).catch((error) => ({ error: error.message, hosts: [], is_over: true }));
    if (this.isClosed || asked.q !== this.text || asked.sort !== this.sort) return;
    this.show(found);
    this.timer = setTimeout(() => this.read(), found.is_over ? EVERY_MS : SOON_MS);
  }

  show(found) {
    const more = found.matching > found.hosts.length ? `the first ${found.hosts.length} of ${count(found.matching)}` : count(found.hosts.length);
    this.progress.textContent = found.error || (found.is_over ? `${more} of ${counted(found.total, "host")}`
      : `${more}; looked at ${count(found.looked_at)} of ${counted(found.total, "host")} …`);
    const sorter = (name) => () => { this.sort = name; this.read(true); };
    const order = (sort) => (ASCENDING.includes(sort) ? "ascending" : "descending");
    const column = (name, sort, value, number = true) => ({ name, number, sort: sorter(sort), sorted: this.sort === sort ? order(sort) : null, value });
    const columns = [
      { ...column("host", "host", (one) => h("button", { type: "button", onclick: () => this.detail(one) }, one.host), false), kind: "url" },
      { name: "does", value: (one) => state(one.doing) },
      column("queued", "queued", (one) => count(one.queued)),
      column("pages", "pages", (one) => count(one.pages)),
      column("pause", "pause", (one) => `${one.pause_s.toFixed(2)} s`),
      column("next turn", "next", (one) => (one.queued ? (one.next_s > 0 ? `in ${duration(one.next_s)}` : "now") : "")),
      column("failures", "failures", (one) => (one.failures ? `${count(one.failures)} in a row` : "")),
      column("left alone", "held", (one) => (one.held ? `${duration(one.held_s)}: ${one.why || "asked"}` : "")),
    ];
    const draw = () => {
      const [rows, more] = shortened(this, found.hosts, draw);
      renew(this.list, table("", columns, rows), more);
    };
    // A host that has the focus stays where it is, and so does selected text, until the user asks for others.
    const isBusy = isSelected(this.list) || this.list.querySelector("tbody :focus");
    if (this.isAwaited || !isBusy) draw();
    this.isAwaited = false;
    renew(this.picture, found.hosts.length ? treemap(found.hosts, Math.max(280, this.picture.clientWidth), (one) => this.detail(one)) : null);
  }

  async detail(host) {
    let more = {};
    try {
      more = await ask("host", this.crawl, { host: host.host });
    } catch (error) {
      say(error.message, true);
      return;
    }
    const verdicts = { allow_all: "there is none: all may be fetched", rules: "has rules, which are kept", deny_all: "cannot be reached: nothing is fetched", unknown: "not asked yet, or expired", redirect: "is elsewhere", not_contacted: "at an address that is refused" };
    const name = host.host.replace(/^[a-z]+:\/\//, "");
    const own = (more.paces || {})[name] || {};
    const facts = [["pages", count(host.pages)], ["queued", count(host.queued)], ["under way", count(host.out)], ["pause", `${host.pause_s} s`],
      ["left alone", host.held ? `${duration(host.held_s)}, because of ${host.why}` : "no"], ["robots.txt", `${verdicts[more.robots.verdict] || more.robots.verdict}${more.robots.left_s ? `, good for ${duration(more.robots.left_s)}` : ""}`]];
    const body = [
      h("dl", { class: "facts" }, facts.map(([fact, value]) => [h("dt", {}, fact), h("dd", {}, value)])),
      h("label", {}, "seconds between requests (empty: as configured)", h("input", { name: "delay", type: "number", min: "0", step: "any", value: own.delay ?? "" })),
      h("label", {}, "connections at a time (empty: as configured)", h("input", { name: "per_host", type: "number", min: "1", step: "1", value: own.per_host ?? "" })),
    ];
    const given = await dialog(host.host, body, "Change its pace");
    if (given) await act(this.crawl, "pace", { host: name, ...given });
  }
}

const legend = () => h("ul", { class: "legend" }, [["done", "works"], ["queued", "rests"], ["leased", "held"], ["dead", "failing"], ["filtered", "done"]]
  .map(([kind, word]) => h("li", {}, h("i", { class: `k-${kind}` }), word)), h("li", {}, "the full part is done; areas grow with the root of pages"));
