// Lines over time, drawn at the width that there is.

import { brief, clock, day, h, s } from "./dom.js";

const HEIGHT = 150;
const LEFT = 46;
const BOTTOM = 20;
const TOP = 8;

const top = (values) => {
  const most = Math.max(...values, 0);
  if (most <= 0) return 1;
  const step = 10 ** Math.floor(Math.log10(most));
  return Math.ceil(most / step * 2) / 2 * step;
};

// `lines`: [{name, kind, values}], as many values as there are times. Returns an element.
export function chart(title, times, lines, width) {
  const first = times[0];
  const last = times[times.length - 1];
  const most = top(lines.flatMap((line) => line.values));
  const x = (at) => LEFT + (last > first ? (at - first) / (last - first) : 0) * (width - LEFT - 8);
  const y = (value) => TOP + (1 - value / most) * (HEIGHT - TOP - BOTTOM);
  const name = last - first > 86400 ? day : clock;
  const told = lines.map((line) => `${line.name} ${brief(line.values[line.values.length - 1])}`).join(", ");
  const readout = s("text", { x: LEFT + 4, y: TOP + 10, class: "soft" });
  const cursor = s("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, x1: -9, x2: -9 });
  const svg = s("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, height: HEIGHT, role: "img", "aria-label": `${title}. Now: ${told}` },
    [0, 0.5, 1].map((share) => [
      s("path", { class: "axis", d: `M${LEFT} ${y(most * share)}H${width - 8}` }),
      s("text", { x: LEFT - 6, y: y(most * share) + 4, "text-anchor": "end", class: "soft" }, brief(most * share)),
    ]),
    s("text", { x: LEFT, y: HEIGHT - 4, class: "soft" }, name(first)),
    s("text", { x: width - 8, y: HEIGHT - 4, "text-anchor": "end", class: "soft" }, name(last)),
    lines.map((line) => s("path", { class: `line s-${line.kind}`, d: path(times, line.values, x, y) })), cursor, readout);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const at = first + ((event.clientX - box.left) * width / box.width - LEFT) / (width - LEFT - 8) * (last - first);
    const near = times.reduce((best, time, i) => (Math.abs(time - at) < Math.abs(times[best] - at) ? i : best), 0);
    cursor.setAttribute("x1", x(times[near]));
    cursor.setAttribute("x2", x(times[near]));
    readout.textContent = [name(times[near]), ...lines.map((line) => `${line.name} ${brief(line.values[near])}`)].join("  ");
  });
  const legend = h("ul", { class: "legend" }, lines.map((line) => h("li", {}, h("i", { class: `k-${line.kind}` }), line.name)));
  return h("figure", { class: "chart" }, h("h3", {}, title), svg, legend);
}

const path = (times, values, x, y) => values.map((value, i) => `${i ? "L" : "M"}${x(times[i]).toFixed(1)} ${y(value).toFixed(1)}`).join("");
