// Plays a recording of a terminal: what was printed when. Without this script, all of its text stands there.
"use strict";

for (const box of document.querySelectorAll(".recording")) {
  const screen = box.querySelector("pre code");
  const whole = screen.textContent;
  const events = JSON.parse(box.querySelector("script").textContent);
  const controls = box.querySelector(".controls");
  const [play, position, time] = ["button", "input", "output"].map((name) => controls.querySelector(name));
  const end = events.length ? events[events.length - 1][0] : 0;
  let begun = null;

  const show = (at) => {
    let text = "";
    for (const [when, printed] of events) {
      if (when > at) break;
      text += printed;
    }
    screen.textContent = at >= end ? whole : text;
    screen.parentElement.scrollTop = screen.parentElement.scrollHeight;
    position.value = at;
    time.textContent = `${Math.floor(at)} of ${Math.floor(end)} s`;
  };
  const stop = () => {
    begun = null;
    play.textContent = "Play";
  };
  const step = (now) => {
    if (begun === null) return;
    const at = Math.min((now - begun) / 1000, end);
    show(at);
    if (at >= end) stop();
    else requestAnimationFrame(step);
  };

  position.max = end;
  play.addEventListener("click", () => {
    if (begun !== null) return stop();
    const from = Number(position.value) >= end ? 0 : Number(position.value);
    begun = performance.now() - from * 1000;
    play.textContent = "Pause";
    requestAnimationFrame(step);
  });
  position.addEventListener("input", () => {
    stop();
    show(Number(position.value));
  });
  position.value = end;
  time.textContent = `${Math.floor(end)} s`;
  controls.hidden = false;
}
