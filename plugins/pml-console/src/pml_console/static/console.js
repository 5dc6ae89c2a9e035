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
zoned(document);
document.querySelectorAll("[data-live]").forEach(follow);
