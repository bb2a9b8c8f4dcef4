// The crawl as it spreads over hosts: an area for each, as large as what is known of it; the full part is
// what is done.

import { count, counted, s } from "./dom.js";

const HEIGHT = 320;

export function treemap(hosts, width, onPick) {
  const items = hosts.map((host) => ({ host, value: Math.sqrt(host.pages + host.queued + 1) })).sort((a, b) => b.value - a.value);
  const whole = items.reduce((sum, one) => sum + one.value, 0) || 1;
  for (const one of items) one.area = one.value / whole * width * HEIGHT;
  const cells = [];
  const shared = sharedStart(hosts.map(nameOf));
  squarify(items, { x: 0, y: 0, w: width, h: HEIGHT }, cells);
  return s("svg", {
    viewBox: `0 0 ${width} ${HEIGHT}`, height: HEIGHT, role: "img",
    "aria-label": `${counted(hosts.length, "host")}, each an area by its pages; the table below has the same`,
  }, cells.map((cell) => draw(cell, onPick, shared)));
}

// How many letters all names begin with: where there is no room for a name, they are left out first.
function sharedStart(names) {
  let long = names.length > 1 ? Math.min(...names.map((name) => name.length)) - 1 : 0;
  while (long > 0 && names.some((name) => name.slice(0, long) !== names[0].slice(0, long))) long -= 1;
  return long;
}

const shortened = (name, fits, shared) => {
  if (name.length <= fits) return name;
  const end = shared > 1 ? `…${name.slice(shared)}` : name;
  return end.length <= fits ? end : `${end.slice(0, fits - 1)}…`;
};

const nameOf = (host) => host.host.replace(/^https?:\/\//, "");

function draw({ item, x, y, w, h: high }, onPick, shared) {
  const { host } = item;
  const kind = host.doing === "done" ? "over" : host.doing;
  const known = host.pages + host.queued;
  const full = known ? high * host.pages / known : 0;
  const fits = Math.floor((w - 10) / 7.2);
  const shown = high > 16 && fits > 3 ? shortened(nameOf(host), fits, shared) : "";
  return s("g", { onclick: () => onPick(host) },
    s("title", {}, `${host.host}: ${counted(host.pages, "page")}, ${count(host.queued)} queued, ${host.doing}`),
    s("rect", { x, y, width: w, height: high, class: `cell cell-back f-${kind}` }),
    s("rect", { x, y: y + high - full, width: w, height: full, class: `cell f-${kind}`, opacity: 0.45 }),
    shown ? s("text", { x: x + 5, y: y + 14, class: "cell-name" }, shown) : null);
}

// Rows of cells that are as square as can be (Bruls, Huizing, van Wijk).
function squarify(items, space, cells) {
  let rest = items;
  while (rest.length) {
    const side = Math.min(space.w, space.h);
    let size = 1;
    while (size < rest.length && worst(rest.slice(0, size + 1), side) <= worst(rest.slice(0, size), side)) size += 1;
    place(rest.slice(0, size), space, cells);
    rest = rest.slice(size);
  }
}

function worst(row, side) {
  const sum = row.reduce((total, one) => total + one.area, 0);
  return Math.max(...row.map((one) => Math.max(side * side * one.area / (sum * sum), sum * sum / (side * side * one.area))));
}

function place(row, space, cells) {
  const sum = row.reduce((total, one) => total + one.area, 0);
  const isWide = space.w >= space.h;
  const thick = sum / (isWide ? space.h : space.w) || 0;
  let at = isWide ? space.y : space.x;
  for (const item of row) {
    const long = item.area / thick || 0;
    cells.push(isWide ? { item, x: space.x, y: at, w: thick, h: long } : { item, x: at, y: space.y, w: long, h: thick });
    at += long;
  }
  if (isWide) { space.x += thick; space.w -= thick; } else { space.y += thick; space.h -= thick; }
}
