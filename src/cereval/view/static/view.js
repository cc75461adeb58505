// Small helps that HTML has no words for: times in the reader's zone, forms left alone while one types, keys while labelling.
"use strict";

function localTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const moment = new Date(time.dateTime);
    if (isNaN(moment)) continue;
    const pad = (number) => String(number).padStart(2, "0");
    time.textContent = `${moment.getFullYear()}-${pad(moment.getMonth() + 1)}-${pad(moment.getDate())} ${pad(moment.getHours())}:${pad(moment.getMinutes())}`;
  }
}

document.addEventListener("DOMContentLoaded", () => localTimes(document));
document.addEventListener("htmx:afterSwap", (event) => localTimes(event.target));

// What would look the same stays as it is: a number being typed, the button that has the focus.
document.addEventListener("htmx:sseBeforeMessage", (event) => {
  const news = document.createElement("template");
  news.innerHTML = event.detail.data;
  if (news.innerHTML.trim() === event.target.innerHTML.trim()) event.preventDefault();
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, select, textarea")) return;
  const button = [...document.querySelectorAll("button[data-key]")].find((one) => one.dataset.key === event.key);
  if (button && !button.disabled) {
    event.preventDefault();
    button.click();
  }
});
