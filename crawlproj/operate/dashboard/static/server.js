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

// News of a crawl, or of all; returns how to stop listening. A browser does not try again by itself when the
// answer was no: the crawl may not have begun, or the dashboard may have been started anew.
export function listen(crawl, onNews) {
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
    connection.textContent = `As of ${new Date(news.at_s * 1000).toLocaleTimeString()}`;
    lost(news.error ? `Redis cannot be read since ${new Date(news.error_since_s * 1000).toLocaleTimeString()}: ${news.error}. What is shown is older.` : "");
    if (news.value) onNews(news.value);
  };
  const failed = async () => {
    lostSince ||= Date.now();
    const answer = await fetch(`/api/status/${encodeURIComponent(crawl || "-")}`).catch(() => null);
    if (answer && answer.status === 401) location.reload();
    lost(answer && answer.status === 404 && crawl ? `There is no crawl ${crawl} yet.`
      : `The dashboard has not answered since ${new Date(lostSince).toLocaleTimeString()}. Crawls go on without it.`);
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
