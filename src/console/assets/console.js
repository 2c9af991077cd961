// What every page of the console does in the browser: keys, copying, questions before what can't be
// undone, times in the reader's own zone. Pages work without it, but for what happens by itself.
"use strict";
(() => {
  const csrf = document.querySelector('meta[name="csrf"]')?.content ?? "";
  const one = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  // Times are written in UTC; here they become the reader's.
  const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
  const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });
  const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
  const localTimes = (within) => {
    const today = new Date().toDateString();
    for (const time of all("time[data-time]", within)) {
      const at = new Date(time.dateTime);
      if (Number.isNaN(at.getTime())) continue;
      const short = time.dataset.time === "short";
      time.title = exact.format(at);
      time.textContent = !short ? exact.format(at) : at.toDateString() === today ? clock.format(at) : day.format(at);
    }
  };

  const notices = () => one("#notices");
  const say = (words, tone = "done") => {
    const notice = document.createElement("div");
    notice.className = `notice ${tone}`;
    notice.textContent = words;
    notices()?.replaceChildren(notice);
  };

  // What htmx asks carries the token; what is refused is shown where everybody looks.
  document.addEventListener("htmx:configRequest", (event) => { event.detail.headers["X-CSRF-Token"] = csrf; });
  document.addEventListener("htmx:afterSwap", (event) => localTimes(event.detail.target));
  document.addEventListener("htmx:responseError", (event) => {
    const page = new DOMParser().parseFromString(event.detail.xhr.responseText, "text/html");
    say(page.body.textContent.trim() || "That did not work. Load the page again.", "wrong");
  });

  document.addEventListener("click", async (event) => {
    const copying = event.target.closest("[data-copy]");
    if (copying) {
      const field = one(copying.dataset.copy);
      field.select();
      try { await navigator.clipboard.writeText(field.value); } catch { document.execCommand("copy"); }
      copying.textContent = "Copied";
      return;
    }
    const menu = event.target.closest("[data-menu]");
    if (menu) {
      const open = menu.closest(".side").classList.toggle("is-open");
      menu.setAttribute("aria-expanded", String(open));
    }
  });

  // A question before what can't be undone.
  let asked = null;
  document.addEventListener("submit", (event) => {
    const button = event.submitter;
    if (!button?.dataset.confirm || asked === button) { asked = null; return; }
    event.preventDefault();
    event.stopImmediatePropagation();
    const dialog = one("#confirm");
    one("[data-words]", dialog).textContent = button.dataset.confirm;
    const yes = one("[data-yes]", dialog);
    yes.textContent = button.textContent;
    yes.onclick = () => { asked = button; dialog.close(); button.form.requestSubmit(button); };
    one("[data-no]", dialog).onclick = () => dialog.close();
    dialog.showModal();
  }, true);

  // What was typed is not lost by a click elsewhere.
  let leaves = false;
  document.addEventListener("submit", (event) => { leaves = !event.defaultPrevented && event.target.method === "post"; });
  window.addEventListener("beforeunload", (event) => {
    const typed = all('form[method="post"] textarea:not([readonly])').some((field) => field.value !== field.defaultValue);
    if (typed && !leaves) event.preventDefault();
  });

  // Fields that send their form when something is chosen.
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-submit]")) event.target.form.requestSubmit();
  });

  // Whoever types words of their own has chosen them.
  document.addEventListener("input", (event) => {
    const choice = event.target.dataset?.chooses;
    if (choice) one(choice).checked = true;
  });

  // Keys.
  const isTyping = (target) => target.closest("input, textarea, select, [contenteditable]");
  const choose = (step) => {
    const list = one("[data-list]");
    if (!list) return;
    const items = all("[data-item]", list);
    const now = items.findIndex((item) => item === document.activeElement || item.closest(".is-chosen"));
    const next = items[Math.min(Math.max(now + step, 0), items.length - 1)];
    if (!next) return;
    all(".is-chosen", list).forEach((row) => row.classList.remove("is-chosen"));
    next.closest("tr, li")?.classList.add("is-chosen");
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  };
  let goes = 0;
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.form) {
      event.preventDefault();
      event.target.form.requestSubmit();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (isTyping(event.target)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (one("dialog[open]")) return;
    if (goes > Date.now() - 1500) {
      goes = 0;
      const link = one(`.side a[data-key="${CSS.escape(event.key)}"]`);
      if (link) { event.preventDefault(); link.click(); }
      return;
    }
    const actions = {
      "?": () => one("#shortcuts")?.showModal(),
      "/": () => one("[data-search]")?.focus(),
      j: () => choose(1),
      k: () => choose(-1),
      r: () => one("[data-answer]")?.focus(),
      g: () => { goes = Date.now(); },
    };
    if (actions[event.key]) { event.preventDefault(); actions[event.key](); }
  });

  window.colloquy = { csrf, say, localTimes };
  localTimes(document);
})();
