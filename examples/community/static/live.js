// Lists and counts that follow the store: without this script the same pages are read by loading them again.
"use strict";

const streams = new Map();

/** Calls a function with each batch of changes; what follows one address shares a stream. */
function follow(address, show) {
  if (!streams.has(address)) {
    const stream = new EventSource(address);
    stream.addEventListener("error", () => {
      if (stream.readyState === EventSource.CLOSED) {
        location.reload(); // the page is older than the changes that are kept
      }
    });
    streams.set(address, stream);
  }
  streams.get(address).addEventListener("message", (event) => show(JSON.parse(event.data).changes));
}

for (const list of document.querySelectorAll("[data-live]")) {
  const empty = document.getElementById("empty");
  follow(list.dataset.live, (changes) => {
    for (const { id, html } of changes) {
      document.getElementById(id)?.remove();
      if (html !== null) {
        const made = document.createElement("template");
        made.innerHTML = html; // the server has escaped what people wrote
        const row = made.content.firstElementChild;
        row.classList.add("arrived");
        list.insertBefore(row, [...list.children].find((each) => each.dataset.at <= row.dataset.at) ?? null);
      }
    }
    empty.hidden = list.children.length > 0;
  });
}

for (const count of document.querySelectorAll("[data-count]")) {
  follow(count.dataset.follows, async () => {
    const answer = await fetch(count.dataset.count);
    if (answer.ok) {
      count.textContent = await answer.text();
      count.hidden = count.textContent === "0";
    }
  });
}
