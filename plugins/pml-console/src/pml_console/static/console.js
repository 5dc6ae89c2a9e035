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
// What a link or a button does, by which it is found again.
const deed = (one) => one.getAttribute("href") || (one.form ? one.form.getAttribute("action") + " " + one.value : "");
// Parts that go on by themselves: each event is the part as the server rendered it.
const follow = (part) => {
  const events = new EventSource(part.dataset.live);
  events.onmessage = (event) => {
    const focus = document.activeElement;
    const before = part.contains(focus) ? deed(focus) : "";
    part.innerHTML = event.data;
    zoned(part);
    if (before) {
      for (const one of part.querySelectorAll("a, button")) {
        if (deed(one) === before) { one.focus(); break; }
      }
    }
  };
  addEventListener("pagehide", () => events.close());
};
// Times are typed in the reader's zone, too, and sent in UTC.
for (const field of document.querySelectorAll("input[data-at]")) {
  const at = new Date(field.dataset.at);
  if (!Number.isNaN(at.valueOf())) {
    field.value = new Date(at.valueOf() - at.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
  }
  for (const zone of field.form.querySelectorAll("[data-zone]")) {
    zone.textContent = Intl.DateTimeFormat().resolvedOptions().timeZone || "your time";
  }
  field.form.addEventListener("formdata", (event) => {
    const typed = new Date(field.value);
    if (!Number.isNaN(typed.valueOf())) event.formData.set(field.name, typed.toISOString());
  });
}
// What waits for an answer: a badge and the title of every page, the list on its own page, and the desktop if that was
// allowed. One page of the browser listens and tells the others, as browsers open few connections to a host.
const badge = document.querySelector("[data-waiting]");
const title = document.title;
let known = null;
const renew = async (list) => {
  const answer = await fetch("/console/approvals");
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("[data-requests]");
  if (!fresh) { return; }
  const focus = document.activeElement;
  for (const card of fresh.querySelectorAll("[data-request]")) {
    const shown = list.querySelector(`[data-request="${CSS.escape(card.dataset.request)}"]`);
    if (shown) { shown.id = card.id; card.replaceWith(shown); }
  }
  list.replaceChildren(...fresh.childNodes);
  zoned(list);
  if (list.contains(focus)) { focus.focus(); }
};
const show = (waiting) => {
  badge.textContent = waiting.length > 99 ? "99+" : waiting.length;
  badge.hidden = waiting.length === 0;
  document.title = waiting.length ? `(${badge.textContent}) ${title}` : title;
  const list = document.querySelector("[data-requests]");
  if (list) {
    const shown = [...list.querySelectorAll("[data-request]")].map((card) => card.dataset.request);
    if (shown.join() !== waiting.slice(0, Math.max(shown.length, 20)).map((one) => one.id).join()) { renew(list); }
  }
  known = waiting;
};
const notify = (one) => {
  if (!("Notification" in window) || Notification.permission !== "granted") { return; }
  const note = new Notification(`${one.what} waits for an answer`, { body: `Asked by ${one.who}`, tag: one.id });
  note.onclick = () => { focus(); location.href = "/console/approvals"; };
};
const listen = (channel) => new Promise(() => {
  const events = new EventSource("/console/live/waiting");
  events.onmessage = (event) => {
    const waiting = JSON.parse(event.data);
    if (known) { waiting.filter((one) => !known.some((old) => old.id === one.id)).forEach(notify); }
    show(waiting);
    channel.postMessage(waiting);
  };
  channel.onmessage = () => { if (known) { channel.postMessage(known); } };
  addEventListener("pagehide", () => events.close());
});
if (badge) {
  const channel = new BroadcastChannel("pml-console");
  channel.onmessage = (event) => { if (event.data) { show(event.data); } };
  channel.postMessage(null);
  if (navigator.locks) { navigator.locks.request("pml-console", () => listen(channel)); } else { listen(channel); }
}
const ask = document.querySelector("[data-notify]");
if (ask && window.isSecureContext && "Notification" in window && Notification.permission === "default") {
  ask.hidden = false;
  ask.addEventListener("click", async () => {
    ask.replaceWith(await Notification.requestPermission() === "granted" ? "You are notified." : "The browser does not allow it.");
  });
}
// Keys, while a request or something in it has the focus; each only moves the focus.
document.querySelector("[data-requests]")?.addEventListener("keydown", (event) => {
  const card = event.target.closest("[data-request]");
  if (!card || event.target.matches("input") || event.ctrlKey || event.metaKey || event.altKey) { return; }
  const to = {
    j: card.nextElementSibling, k: card.previousElementSibling, a: card.querySelector("[value=approve]"),
    d: card.querySelector("[name=reason]"), r: card.querySelector("[value=rehearse]"),
  }[event.key];
  if (to) { event.preventDefault(); to.focus(); }
});
zoned(document);
document.querySelectorAll("[data-live]").forEach(follow);
