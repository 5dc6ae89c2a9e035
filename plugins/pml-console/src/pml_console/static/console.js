"use strict";
// Times in the reader's own zone.
const zoned = (root) => {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (!Number.isNaN(at.valueOf())) {
      time.textContent = at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
      time.title = time.dateTime;
    }
  }
};
// Parts that go on by themselves: each event is the part as the server rendered it.
const follow = (part) => {
  const events = new EventSource(part.dataset.live);
  events.onmessage = (event) => {
    const focus = document.activeElement;
    const href = part.contains(focus) ? focus.getAttribute("href") : null;
    part.innerHTML = event.data;
    zoned(part);
    if (href) {
      for (const link of part.querySelectorAll("a")) {
        if (link.getAttribute("href") === href) { link.focus(); break; }
      }
    }
  };
  addEventListener("pagehide", () => events.close());
};
zoned(document);
document.querySelectorAll("[data-live]").forEach(follow);
