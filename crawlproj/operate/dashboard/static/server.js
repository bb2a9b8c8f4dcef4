// What is asked of the server: answers, actions, and news as it comes.

import { byId } from "./dom.js";

const token = document.querySelector("meta[name=token]").content;
const path = (...parts) => parts.map(encodeURIComponent).join("/");

async function read(response) {
  const told = await response.json().catch(() => ({}));
  if (response.status === 401) location.reload();
  if (!response.ok && told.text === undefined) throw new Error(told.error || `the server answers ${response.status}`);
  return told;
}

export async function ask(what, crawl, query) {
  return read(await fetch(`/api/${path(what, crawl)}?${new URLSearchParams(query || {})}`));
}

export async function act(crawl, action, given) {
  const headers = { "content-type": "application/json", "x-crawl-token": token };
  try {
    const done = await read(await fetch(`/api/do/${path(crawl, action)}`, { method: "POST", headers, body: JSON.stringify(given || {}) }));
    say(done.text, !done.done);
    return done.done;
  } catch (error) {
    say(error.message, true);
    return false;
  }
}

let silence = 0;
export function say(text, isBad) {
  const said = byId("said");
  said.textContent = text;
  said.classList.toggle("bad", Boolean(isBad));
  said.hidden = false;
  clearTimeout(silence);
  silence = setTimeout(() => { said.hidden = true; }, 8000);
}

const clockOf = (ms) => new Date(ms).toLocaleTimeString([], { timeZoneName: "short" });

// News of a crawl, or of all; returns how to stop listening. `onMissing` is told that there is no such crawl. A browser does not try again by itself when the
// answer was no: the crawl may not have begun, or the dashboard may have been started anew.
export function listen(crawl, onNews, onMissing) {
  let lostSince = 0;
  let source = null;
  let again = 0;
  const connection = byId("connection");
  const lost = (text) => {
    byId("away").textContent = text;
    byId("away").hidden = !text;
  };
  const told = (event) => {
    const news = JSON.parse(event.data);
    lostSince = 0;
    connection.textContent = news.at_s ? `As of ${clockOf(news.at_s * 1000)}` : "Connecting …";
    lost(news.error ? `Redis cannot be read since ${clockOf(news.error_since_s * 1000)}: ${news.error}. What is shown is older.` : "");
    if (news.value) onNews(news.value);
  };
  const failed = async () => {
    lostSince ||= Date.now();
    const answer = await fetch(`/api/status/${encodeURIComponent(crawl || "-")}`).catch(() => null);
    if (answer && answer.status === 401) location.reload();
    const isMissing = answer && answer.status === 404 && crawl;
    lost(isMissing ? `There is no crawl ${crawl} yet.` : `The dashboard has not answered since ${clockOf(lostSince)}. Crawls go on without it.`);
    if (isMissing) onMissing();
    if (source.readyState === EventSource.CLOSED) again = setTimeout(open, 2000);
  };
  const open = () => {
    source = new EventSource(`/events?${new URLSearchParams({ crawl })}`);
    source.onmessage = told;
    source.onerror = failed;
  };
  open();
  return () => { clearTimeout(again); source.close(); lost(""); };
}

// Asks the user; resolves to what the form holds, or null.
export function dialog(title, body, ok) {
  const box = byId("dialog");
  byId("dialog-title").textContent = title;
  byId("dialog-body").replaceChildren(...body);
  byId("dialog-ok").textContent = ok;
  box.returnValue = "";
  box.showModal();
  return new Promise((resolve) => {
    box.addEventListener("close", () => {
      const fields = Object.fromEntries([...box.querySelectorAll("[name]")].map((one) => [one.name, one.value]));
      resolve(box.returnValue === "ok" ? fields : null);
    }, { once: true });
  });
}
