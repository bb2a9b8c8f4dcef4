// The ledger as a flow: from what was found, by the queues and the workers, to what became of it.

import { brief, count, counted, s } from "./dom.js";

const NODE = 14;
const LEAST = 3;
const LETTER = 7.5; // What a letter of a label takes at most, on average.
const SOFT_LETTER = 6.3; // The same of what stands below one.

// From left to right where there is room, from top to bottom on a phone.
export function flow(now, width) {
  const isTall = width < 620;
  const along = isTall ? 460 : width;
  const across = isTall ? width : 250;
  const filtered = Object.values(now.filtered).reduce((sum, one) => sum + one, 0);
  const apart = isTall ? 78 : 46;
  const room = across - (isTall ? 210 : 100);
  const thick = (value) => (value > 0 ? Math.max(LEAST, value / Math.max(1, now.discovered) * room) : 0);
  const columns = [0, 0.34, 0.66, 1].map((share) => 8 + share * (along - NODE - (isTall ? 60 : 140)));
  const waiting = now.queued + now.delayed;
  const through = now.leased + now.done + now.dead;
  const spot = (x, y, value, name, kind, below) => ({ x, y, value, name, kind, below, high: thick(value) });
  const found = spot(columns[0], 20, now.discovered, "found", "queued", `${counted(now.duplicates, "link")} led to known ones`);
  const queue = spot(columns[1], 20, waiting + through, "queued", "queued", "");
  const hand = spot(columns[2], 20, through, "in hand", "leased", "");
  const done = spot(columns[3], 20, now.done, "done", "done", `${now.pages_per_s.toFixed(1)} a second`);
  const dead = spot(columns[3], Math.max(done.y + done.high + apart, isTall ? 0 : 86), now.dead, "dead", "dead", "");
  const out = spot(columns[3], Math.max(dead.y + dead.high + apart, isTall ? 0 : 152), filtered, "filtered", "filtered", "");
  queue.shown = waiting;
  queue.below = now.delayed ? `${brief(now.delayed)} of them delayed` : "";
  hand.shown = now.leased;
  const nodes = [found, queue, hand, done, dead, out];
  const put = (a, b) => (isTall ? `${b.toFixed(1)} ${a.toFixed(1)}` : `${a.toFixed(1)} ${b.toFixed(1)}`);
  const ribbon = (from, fromY, to, toY, value, kind) => {
    const [a, b, high] = [from.x + NODE, to.x, thick(value)];
    if (!high) return null;
    const middle = (a + b) / 2;
    const d = `M${put(a, fromY)}C${put(middle, fromY)} ${put(middle, toY)} ${put(b, toY)}L${put(b, toY + high)}`
      + `C${put(middle, toY + high)} ${put(middle, fromY + high)} ${put(a, fromY + high)}Z`;
    return s("path", { d, class: `ribbon f-${kind}` });
  };
  const length = isTall ? columns[3] + NODE + 40 : Math.max(out.y + out.high + 24, 190);
  return s("svg", {
    viewBox: `0 0 ${width} ${length}`, height: length, role: "img",
    "aria-label": `Of ${counted(now.discovered, "URL")} found, ${count(now.queued)} are queued, ${count(now.delayed)} delayed, ${count(now.leased)} in hand, `
      + `${count(now.done)} done, ${count(now.dead)} dead and ${count(filtered)} filtered.`,
  },
  ribbon(found, found.y, queue, queue.y, queue.value, "queued"),
  ribbon(found, found.y + queue.high, out, out.y, filtered, "filtered"),
  ribbon(queue, queue.y, hand, hand.y, through, "leased"),
  ribbon(hand, hand.y, done, done.y, now.done, "done"),
  ribbon(hand, hand.y + done.high, dead, dead.y, now.dead, "dead"),
  nodes.map((node) => mark(node, isTall, width, columns[1] - columns[0] - NODE - 12)));
}

// `room` is what a label has until the next column.
function mark(node, isTall, width, room) {
  const high = Math.max(node.high, 1);
  const box = isTall ? { x: node.y, y: node.x, width: high, height: NODE } : { x: node.x, y: node.y, width: NODE, height: high };
  const [x, y] = isTall ? [node.y, node.x + NODE + 14] : [node.x + NODE + 6, node.y + 12];
  const text = `${brief(node.shown ?? node.value)} ${node.name}`;
  // On a phone what would go beyond the edge ends there, on a line of its own.
  const isBeyond = isTall && x + text.length * LETTER > width;
  const place = isBeyond ? { x: width, y: y + 15, "text-anchor": "end" } : { x, y };
  return [
    s("rect", { ...box, rx: 2, class: `f-${node.kind}` }),
    s("text", place, text),
    isTall ? null : lines(node.below || "", room).map((line, at) => s("text", { x, y: y + 15 * (at + 1), class: "soft" }, line)),
  ];
}

// A text in as many lines as it needs.
function lines(text, room) {
  const found = [];
  for (const word of text.split(" ").filter(Boolean)) {
    const longer = `${found.at(-1)} ${word}`;
    if (found.length && longer.length * SOFT_LETTER <= room) found[found.length - 1] = longer;
    else found.push(word);
  }
  return found;
}
