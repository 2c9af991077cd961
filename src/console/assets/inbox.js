// The open inbox: hears what happens over a WebSocket, asks for the parts of the page that have
// changed, and sends answers so that none is lost or sent twice when the line drops.
"use strict";
(() => {
  const root = document.querySelector("[data-inbox]");
  if (!root) return;
  const { csrf, say, localTimes } = window.colloquy;
  const own = root.dataset.user;
  const open = root.dataset.open;
  let people = JSON.parse(root.dataset.people);
  const messages = document.querySelector("#messages");
  const base = `/console/inbox/${open}`;
  const outbox = [];

  const ask = async (url, options = {}) => {
    const headers = { "HX-Request": "true", "X-CSRF-Token": csrf, ...options.headers };
    const response = await fetch(url, { ...options, headers, redirect: "error" });
    if (response.headers.get("HX-Redirect")) {
      const written = outbox.length || [...document.querySelectorAll("textarea")].some((field) => field.value !== field.defaultValue);
      if (!written) location.assign(`${response.headers.get("HX-Redirect")}?next=${encodeURIComponent(location.pathname)}`);
      say("You are signed out. Copy what you have written, then sign in again.", "wrong");
      throw new Error("signed out");
    }
    const text = await response.text();
    if (!response.ok) throw Object.assign(new Error(text), { status: response.status });
    return text;
  };
  const parsed = (text) => {
    const template = document.createElement("template");
    template.innerHTML = text;
    localTimes(template.content);
    return template.content;
  };

  // What is asked for again and again is asked for once at a time, and once more if it came meanwhile
  // or the network failed.
  const gathered = (work) => {
    let running = false;
    let again = false;
    const run = async () => {
      if (running) { again = true; return; }
      running = true;
      do {
        again = false;
        try { await work(); } catch (error) { if (error instanceof TypeError) setTimeout(run, 2000); }
      } while (again);
      running = false;
    };
    return run;
  };
  const isAtEnd = () => messages.scrollHeight - messages.scrollTop - messages.clientHeight < 80;
  const toEnd = () => { messages.scrollTop = messages.scrollHeight; };

  // A message stands once, in the place of its number.
  const place = (fragment) => {
    const atEnd = isAtEnd();
    for (const message of [...fragment.querySelectorAll("article.message")]) {
      const known = document.getElementById(message.id);
      if (known) { known.replaceWith(message); continue; }
      const seq = Number(message.dataset.seq);
      const next = [...messages.querySelectorAll("article[data-seq]")].find((one) => Number(one.dataset.seq) > seq);
      messages.insertBefore(message, next ?? messages.querySelector(".is-sending"));
      window.htmx?.process(message);
    }
    if (atEnd) toEnd();
  };
  const seqs = (within) => [...within.querySelectorAll("article[data-seq]")].map((one) => Number(one.dataset.seq));
  // Up to here none is missing. An answer that was sent may stand further down, before what came
  // earlier has been asked for.
  let whole = messages ? Math.max(0, ...seqs(messages)) : 0;
  const catchUp = gathered(async () => {
    for (;;) {
      const fragment = parsed(await ask(`${base}/messages?after_seq=${whole}`));
      const got = seqs(fragment);
      place(fragment);
      whole = Math.max(whole, ...got);
      if (got.length < 100) return;
    }
  });
  const part = (id, url) => gathered(async () => {
    const target = document.getElementById(id);
    const text = await ask(url);
    // Who writes or chooses is not interrupted.
    if (target.contains(document.activeElement) && document.activeElement.matches("textarea, select")) return;
    target.replaceChildren(parsed(text));
    window.htmx?.process(target);
    showAttach();
  });
  const refreshList = part("list", document.querySelector("[data-live]").dataset.live);
  const refreshHead = part("head", `${base}/head`);
  const refreshAnswer = part("answer", `${base}/answer`);
  const refreshSide = part("side", `${base}/side`);

  // Answers: each has a key from when it is written until it is acknowledged.
  const newKey = () => `console-${crypto.randomUUID()}`;
  // A name in a header (RFC 8187).
  const inHeader = (name) => encodeURIComponent(name).replace(/['()*!]/g, (one) => `%${one.charCodeAt(0).toString(16)}`);
  const sendFile = (key, file) => ask(`${base}/attachments?key=${key}`, {
    method: "POST",
    body: file,
    headers: {
      "Content-Type": file.type || "application/octet-stream",
      "Content-Disposition": `attachment; filename*=UTF-8''${inHeader(file.name)}`,
    },
  });
  let sending = false;
  const sendAll = async () => {
    if (sending) return;
    sending = true;
    while (outbox.length) {
      const { key, content, file, bubble } = outbox[0];
      try {
        const fragment = parsed(file ? await sendFile(key, file)
          : await ask(`${base}/messages`, { method: "POST", body: new URLSearchParams({ key, content }) }));
        outbox.shift();
        bubble.remove();
        place(fragment);
        toEnd();
      } catch (error) {
        if (error.status && error.status < 500 && error.status !== 409 && error.status !== 429) {
          outbox.shift();
          bubble.remove();
          const field = document.querySelector("[data-answer]");
          if (!file && field && !field.value) field.value = content;
          say(parsed(error.message).textContent.trim() || "The answer was refused.", "wrong");
          continue;
        }
        bubble.querySelector("header").textContent = "Not sent yet: the line is down. Trying again…";
        await new Promise((resolve) => setTimeout(resolve, 1000));
      }
    }
    sending = false;
  };
  document.addEventListener("submit", (event) => {
    const form = event.target.closest("[data-composer]");
    if (!form) return;
    event.preventDefault();
    const field = form.elements.content;
    const content = field.value;
    if (!content.trim()) return;
    field.value = "";
    send({ content });
  });
  const send = (answer) => {
    const bubble = document.createElement("article");
    bubble.className = "message agent is-mine is-sending";
    bubble.append(document.createElement("header"), document.createElement("p"));
    bubble.firstChild.textContent = "Sending…";
    bubble.lastChild.className = "words";
    bubble.lastChild.textContent = answer.content ?? answer.file.name;
    messages.append(bubble);
    toEnd();
    outbox.push({ key: newKey(), bubble, ...answer });
    sendAll();
  };

  // Files: chosen, dropped onto the conversation, or pasted into the answer.
  const canAnswer = () => document.querySelector("[data-composer]");
  const sendFiles = (files) => { for (const file of files) send({ file }); };
  const showAttach = () => { for (const label of document.querySelectorAll("[data-attach]")) label.hidden = false; };
  showAttach();
  document.addEventListener("change", (event) => {
    if (!event.target.matches("[data-files]")) return;
    sendFiles(event.target.files);
    event.target.value = "";
  });
  const hasFiles = (transfer) => [...(transfer?.types ?? [])].includes("Files");
  const thread = document.querySelector(".thread");
  for (const name of ["dragover", "drop"]) {
    thread?.addEventListener(name, (event) => {
      if (!hasFiles(event.dataTransfer) || !canAnswer()) return;
      event.preventDefault();
      thread.classList.toggle("is-dropping", name === "dragover");
      if (name === "drop") sendFiles(event.dataTransfer.files);
    });
  }
  thread?.addEventListener("dragleave", () => thread.classList.remove("is-dropping"));
  document.addEventListener("paste", (event) => {
    if (!event.target.matches("[data-answer]") || !event.clipboardData?.files.length) return;
    event.preventDefault();
    sendFiles(event.clipboardData.files);
  });
  window.addEventListener("beforeunload", (event) => { if (outbox.length) event.preventDefault(); });

  // Who is here, and who writes.
  const present = new Map();
  const typing = new Map();
  // Who has come to the account since this page was made is asked for.
  const refreshPeople = gathered(async () => { people = JSON.parse(await ask("/console/inbox/people")); });
  const nameOf = (user) => people[user] ?? "Somebody";
  const meet = async (user) => { if (user && !people[user]) await refreshPeople(); showPeople(); };
  const showPeople = () => {
    const here = [...present].filter(([user, state]) => user !== own && state !== "offline").map(([user]) => nameOf(user));
    const field = document.querySelector("#present");
    if (field) field.textContent = here.length ? `${here.join(", ")} ${here.length > 1 ? "are" : "is"} here too` : "";
    const now = Date.now();
    const writing = [...typing].filter(([, until]) => until > now).map(([user]) => nameOf(user));
    const signs = document.querySelector("#signs");
    if (signs) signs.textContent = writing.length ? `${writing.join(", ")} ${writing.length > 1 ? "are" : "is"} writing…` : "";
  };

  // The line. It comes back by itself; what was missed meanwhile is asked for.
  let socket = null;
  let wait = 250;
  const tell = (frame) => { if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(frame)); };
  const isHere = () => (document.visibilityState === "visible" ? "online" : "away");
  const heard = (event) => {
    const conversation = event.data.conversation_id;
    if (event.event === "message.created") {
      typing.delete(event.data.sender_id);
      if (conversation === open) { catchUp(); refreshSide(); }
    }
    if (event.event === "message.updated" && conversation === open) {
      ask(`${base}/messages/${event.data.message_id}`).then((text) => place(parsed(text))).catch(() => {});
    }
    if (event.event.startsWith("conversation.") && conversation === open) {
      refreshHead();
      refreshSide();
      const closed = event.data.status === "closed";
      if (closed !== !document.querySelector("[data-composer]")) refreshAnswer();
    }
    refreshList();
    showPeople();
  };
  const connect = async () => {
    try {
      const { ticket } = JSON.parse(await ask("/console/inbox/ticket", { method: "POST", body: new URLSearchParams() }));
      socket = new WebSocket(`${location.origin.replace(/^http/, "ws")}/v1/realtime?ticket=${encodeURIComponent(ticket)}`, "colloquy.v1");
    } catch {
      return lost();
    }
    socket.onmessage = ({ data }) => {
      const frame = JSON.parse(data);
      if (frame.type === "subscribed") {
        wait = 250;
        root.dataset.line = "up";
        if (open) { tell({ type: "presence", conversation_id: open, state: isHere() }); catchUp(); refreshHead(); refreshSide(); }
        refreshList();
      }
      if (frame.type === "event") heard(frame.event);
      if (frame.type === "presence" && frame.conversation_id === open) { present.set(frame.user_id, frame.state); meet(frame.user_id); }
      if (frame.type === "typing" && frame.conversation_id === open && frame.user_id !== own) {
        typing.set(frame.user_id, Date.now() + 4000);
        setTimeout(showPeople, 4100);
        meet(frame.user_id);
      }
    };
    socket.onopen = () => {
      tell({ type: "subscribe" });
      if (open) tell({ type: "subscribe", conversation_id: open });
    };
    socket.onclose = lost;
  };
  const lost = () => {
    root.dataset.line = "down";
    present.clear();
    setTimeout(connect, wait);
    wait = Math.min(wait * 2, 8000);
  };
  let lastTyped = 0;
  document.addEventListener("input", (event) => {
    if (!event.target.matches("[data-answer]") || Date.now() < lastTyped + 2000) return;
    lastTyped = Date.now();
    tell({ type: "typing", conversation_id: open });
  });
  document.addEventListener("visibilitychange", () => { if (open) tell({ type: "presence", conversation_id: open, state: isHere() }); });

  if (messages) toEnd();
  connect();
})();
