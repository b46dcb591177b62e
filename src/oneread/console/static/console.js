// What pages do beyond links and forms: times in the viewer's zone, keys, and parts that are asked for again.
"use strict";

const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

/** @param {number} seconds @returns {string} how long ago or ahead an instant is */
function relative(seconds) {
  const size = Math.abs(seconds);
  const [unit, length] = units.find(([, length]) => size >= /** @type {number} */ (length)) || ["s", 1];
  const amount = `${Math.floor(size / /** @type {number} */ (length))} ${unit}`;
  return seconds >= 0 ? `${amount} ago` : `in ${amount}`;
}

/** Times in the viewer's zone; the exact instant is the title. @param {ParentNode} within */
function localize(within) {
  for (const each of within.querySelectorAll("time")) {
    const at = new Date(each.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    const local = at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
    each.title = each.dateTime;
    each.textContent = `${local}, ${relative((Date.now() - at.getTime()) / 1000)}`;
  }
}

/** Charts that are wider than the screen show their newest end. @param {ParentNode} within */
function showNewest(within) {
  for (const each of within.querySelectorAll(".picture:has(.heat)")) each.scrollLeft = each.scrollWidth;
}

const main = /** @type {HTMLElement} */ (document.querySelector("main"));
localize(main);
showNewest(main);

/** @type {EventSource | null} */
let stream = null;

/** Whether someone reads or writes something here that a new page would take away. */
function isInUse() {
  return main.contains(document.activeElement) || main.querySelector("details[open]") || String(getSelection());
}

/** Shows what a live page says by now, unless it is in use. @param {MessageEvent} event */
function onPage(event) {
  const made = new DOMParser().parseFromString(JSON.parse(event.data), "text/html").querySelector("main");
  if (!made || isInUse()) return;
  main.replaceChildren(...made.childNodes);
  localize(main);
  showNewest(main);
}

/** Says that what is shown may be old; the next page that is sent replaces it. */
function onLost() {
  if (main.querySelector(".lost")) return;
  const said = document.createElement("p");
  said.className = "find warn lost";
  said.setAttribute("role", "status");
  said.textContent = "The console does not answer: this page is as it was. Look whether it runs, and load the page again.";
  main.prepend(said);
}

/** Opens the stream of a live page while someone looks at it, and closes it when the tab is hidden. */
function follow() {
  stream?.close();
  stream = null;
  if (document.hidden || !main.dataset.live) return;
  const url = new URL(location.href);
  url.searchParams.set("live", "");
  stream = new EventSource(url);
  stream.onmessage = onPage;
  stream.onerror = onLost;
}

document.addEventListener("visibilitychange", follow);
follow();

const pages = { o: "Overview", d: "Data", g: "Graph", c: "Costs", t: "Tasks", l: "Launches", h: "Heat", s: "Slow calls" };
let before = "";

const keys = [["/", "the first field"], ["j  k", "the next and the previous row"], ["Enter", "opens it"]];
keys.push(...Object.entries(pages).map(([key, page]) => [`g ${key}`, page]), ["?", "this list"], ["Esc", "closes it"]);

/** Shows what keys do; closing it gives the focus back. */
function showKeys() {
  const list = document.createElement("dialog");
  list.setAttribute("aria-labelledby", "keys");
  list.innerHTML = '<h2 id="keys">Keys</h2><table class="keys"><tbody></tbody></table><form method="dialog"><button>Close</button></form>';
  for (const [key, what] of keys) {
    const row = /** @type {HTMLTableSectionElement} */ (list.querySelector("tbody")).insertRow();
    const head = document.createElement("th");
    head.scope = "row";
    head.append(Object.assign(document.createElement("kbd"), { textContent: key }));
    row.append(head);
    row.insertCell().textContent = what;
  }
  list.addEventListener("close", () => list.remove());
  document.body.append(list);
  list.showModal();
}

/** `g` and a letter goes to a page, `j` and `k` to rows, `/` to the first field, `?` to this list. @param {KeyboardEvent} event */
function onKey(event) {
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]") || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) return;
  if (before === "g" && pages[event.key]) {
    const links = [.../** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll("nav a"))];
    links.find((each) => each.textContent === pages[event.key])?.click();
  } else if (event.key === "?") {
    showKeys();
  } else if (event.key === "/") {
    const field = /** @type {HTMLElement | null} */ (main.querySelector("input, select"));
    if (field) {
      event.preventDefault();
      field.focus();
    }
  } else if (event.key === "j" || event.key === "k") {
    const links = [.../** @type {NodeListOf<HTMLElement>} */ (main.querySelectorAll("table.list tbody tr a:first-of-type"))];
    const at = links.indexOf(/** @type {HTMLElement} */ (document.activeElement)) + (event.key === "j" ? 1 : -1);
    links[Math.max(0, Math.min(links.length - 1, at))]?.focus();
  }
  before = event.key;
}

document.addEventListener("keydown", onKey);
document.querySelector("nav a[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
