// Dead letters: looked at, tried again, forgotten.

import { count, h, moment, renew, shortened, table } from "./dom.js";
import { act, ask, dialog } from "./server.js";

export class Dead {
  constructor(crawl) {
    this.crawl = crawl;
    this.shown = -1;
    this.list = h("div", { class: "scroll" });
    this.reason = h("select", { id: "dead-reason", onchange: () => this.read() }, h("option", { value: "" }, "any"));
    this.host = h("input", { id: "dead-host", type: "search", autocomplete: "off", onchange: () => this.read() });
    const button = (name, action) => h("button", { type: "button", id: `dead-${action}`, disabled: true, onclick: () => this.moveAll(action) }, name);
    this.buttons = [button("Retry these", "retry"), button("Forget these", "forget")];
    this.element = h("section", { class: "panel", "aria-labelledby": "t-dead" },
      h("header", {}, h("h2", { id: "t-dead" }, "Dead letters"), h("div", { class: "buttons" },
        h("label", {}, "reason", this.reason), h("label", {}, "host", this.host), this.buttons)), this.list);
  }

  close() {
    this.isClosed = true;
  }

  update(now) {
    const words = Object.keys(now.reasons).sort();
    const known = [...this.reason.options].map((one) => one.value).slice(1);
    if (words.join(" ") !== known.join(" ") && document.activeElement !== this.reason) {
      const chosen = this.reason.value;
      renew(this.reason, h("option", { value: "" }, "any"), words.map((word) => h("option", { value: word }, word)));
      this.reason.value = words.includes(chosen) ? chosen : "";
    }
    if (now.dead !== this.shown && !this.list.contains(document.activeElement)) this.read(now.dead);
  }

  async read(dead) {
    if (dead !== undefined) this.shown = dead; // not asked for again while this is under way
    const found = await ask("dead", this.crawl, { reason: this.reason.value, host: this.host.value.trim() }).catch((error) => ({ letters: [], error: error.message }));
    if (this.isClosed) return;
    if (found.dead !== undefined) this.shown = found.dead; // the answer may be a second old
    for (const one of this.buttons) one.disabled = !found.letters.length && found.is_all !== false;
    if (!found.letters.length) {
      renew(this.list, h("p", { class: "note" }, found.error || "None."));
      return;
    }
    const act1 = (one, action, name) => h("button", { type: "button", class: "small", "aria-label": `${name} ${one.url}`, onclick: () => this.move(action, { ids: [one.id] }) }, name);
    const columns = [
      { name: "URL", kind: "url", value: (one) => one.url },
      { name: "reason", value: (one) => one.reason },
      { name: "attempts", number: true, value: (one) => count(one.attempts) },
      { name: "given up", kind: "when", value: (one) => moment(one.failed_at) },
      { name: "found on", kind: "url", value: (one) => one.referer || (one.depth ? "" : "a seed") },
      { name: "", value: (one) => h("span", { class: "buttons" }, act1(one, "retry", "Retry"), act1(one, "forget", "Forget")) },
    ];
    const caption = found.is_all ? "" : "Some of them: choose a reason or a host, or scrapy dead --export.";
    const draw = () => {
      const [rows, more] = shortened(this, found.letters, draw);
      renew(this.list, table(caption, columns, rows), more);
    };
    draw();
  }

  async moveAll(action) {
    const chosen = { reason: this.reason.value, host: this.host.value.trim() };
    const what = [chosen.reason && `because of ${chosen.reason}`, chosen.host && `of ${chosen.host}`].filter(Boolean).join(" ") || "of any reason and host";
    const title = action === "retry" ? "Try dead letters again?" : "Forget dead letters?";
    if (await dialog(title, [h("p", {}, `All ${what}, at most 10,000 at once.`)], action === "retry" ? "Retry" : "Forget")) await this.move(action, chosen);
  }

  async move(action, chosen) {
    await act(this.crawl, action, chosen);
    await this.read();
  }
}
