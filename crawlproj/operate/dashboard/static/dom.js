// Elements and numbers. All text goes in by textContent: what the web says is never markup here.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((one) => one !== null && one !== undefined).map(asNode));
  return element;
}

const asNode = (one) => (one instanceof Node ? one : document.createTextNode(String(one)));

export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
export const byId = (id) => document.getElementById(id);

// Fills an element anew. What had the focus has it again, if it is there again by its `data-keep`.
export function renew(element, ...children) {
  const kept = element.contains(document.activeElement) ? document.activeElement.dataset.keep : undefined;
  element.replaceChildren(...children.flat(Infinity).filter(Boolean).map(asNode));
  if (kept) [...element.querySelectorAll("[data-keep]")].find((one) => one.dataset.keep === kept)?.focus();
}

// Whether the user has selected text in there, to copy it.
export const isSelected = (element) => !getSelection().isCollapsed && element.contains(getSelection().anchorNode);

// Fills an element with news that nobody has asked for: selected text is not taken away for them.
export function refresh(element, ...children) {
  if (!isSelected(element)) renew(element, ...children);
}

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const count = (value) => whole.format(value || 0);
// "1 host", "2 hosts".
export const counted = (value, name) => `${count(value)} ${name}${value === 1 ? "" : "s"}`;
export const brief = (value) => (Math.abs(value) < 10000 ? whole.format(Math.round(value * 10) / 10) : short.format(value));
export const rate = (value) => (value >= 100 ? whole.format(Math.round(value)) : (value || 0).toFixed(1));
export const percent = (share) => (share === null || share === undefined ? "not yet" : `${(share * 100).toPrecision(2)} %`);

export function size(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  let value = bytes || 0;
  while (value >= 1000 && at < units.length - 1) { value /= 1000; at += 1; }
  return `${at ? value.toFixed(1) : value} ${units[at]}`;
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "";
  const units = [["d", 86400], ["h", 3600], ["min", 60]];
  for (const [name, length] of units) {
    if (seconds >= length * 2) {
      const rest = Math.floor(seconds / length);
      return `${whole.format(rest)} ${name}`;
    }
  }
  return seconds < 10 ? `${seconds.toFixed(1)} s` : `${Math.round(seconds)} s`;
}

export const moment = (text) => (text ? new Date(text).toLocaleString([], { dateStyle: "medium", timeStyle: "medium" }) : "");
// The same with its time zone.
export const zoned = (text) => new Date(text).toLocaleString([], { year: "numeric", month: "short", day: "numeric", hour: "numeric", minute: "2-digit", second: "2-digit", timeZoneName: "short" });
export const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
export const day = (seconds) => new Date(seconds * 1000).toLocaleString([], { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });

// A table whose cells have the names of their columns, so that a phone can show rows as cards. A column that
// the rows can be ordered by has `sort`, what to do then, and `sorted`: "ascending" or "descending" if they are.
export function table(caption, columns, rows) {
  const head = columns.map((one) => h("th", { scope: "col", class: one.number ? "number" : null, "aria-sort": one.sorted },
    one.sort ? h("button", { type: "button", "data-keep": `sort ${one.name}`, onclick: one.sort }, one.name) : one.name));
  const body = rows.map((row) => h("tr", {}, columns.map((one, at) => {
    const shape = { "data-label": one.name, class: one.number ? "number" : one.kind || null };
    return at === 0 ? h("th", { scope: "row", class: one.kind || null }, one.value(row)) : h("td", shape, one.value(row));
  })));
  const isSortable = columns.some((one) => one.sort);
  return h("table", { class: `cards${isSortable ? " sortable" : ""}` }, caption ? h("caption", {}, caption) : null, h("thead", {}, h("tr", {}, head)), h("tbody", {}, body));
}

// A share of 0 to 1 as a bar, in the colour of a kind. Browsers disagree about how high the value of a <meter> is.
export const gauge = (share, kind, told) => s("svg", { class: "gauge", viewBox: "0 0 100 8", preserveAspectRatio: "none", role: "img", "aria-label": told },
  s("rect", { width: Math.min(100, Math.max(share ? 0.7 : 0, share * 100)), height: 8, class: `f-${kind}` }));

// The first rows of a table, and a button for the rest. `owner.isLong` keeps what the user has chosen.
export function shortened(owner, rows, draw) {
  const few = 10;
  const more = rows.length > few ? h("button", { type: "button", class: "small", "data-keep": "more", "aria-expanded": String(Boolean(owner.isLong)), onclick: () => { owner.isLong = !owner.isLong; draw(); } },
    owner.isLong ? "Show fewer" : `Show all ${count(rows.length)}`) : null;
  return [owner.isLong ? rows : rows.slice(0, few), more];
}

export const state = (word) => h("span", { class: `state ${/^[a-z]+$/.test(word) ? word : ""}` }, word);
