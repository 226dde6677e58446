// Keeps the page's live parts new. All of it is convenience: without it, loading the page again does the same.
"use strict";

(() => {
  const wait = 150; // ms that events are gathered, so that a fleet that answers at once is one load
  const calm = 15000; // ms after which the page is loaded again without an event: calls and silence make none
  let source = null;
  let timer = 0;
  let loading = false;
  let again = false;

  const say = (text, link) => {
    const line = document.getElementById("live");
    if (line === null) return;
    line.replaceChildren(text);
    if (link) {
      const a = document.createElement("a");
      a.href = link;
      a.textContent = "Log in again";
      line.append(" ", a);
    }
    line.hidden = text === "";
  };

  // The server has rendered and escaped everything; only elements that differ are exchanged, so that a screen reader
  // speaks of what is new and the focus stays.
  const exchange = (fresh) => {
    for (const old of document.querySelectorAll("[data-live]")) {
      const now = fresh.getElementById(old.id);
      if (now === null || old.innerHTML === now.innerHTML) continue;
      const focused = old.contains(document.activeElement) ? document.activeElement : null;
      old.className = now.className;
      old.replaceChildren(...now.childNodes);
      if (focused === null) continue;
      const same = [...old.querySelectorAll("a")].find((a) => a.href === focused.href);
      if (same) same.focus();
    }
  };

  const load = async () => {
    if (loading) {
      again = true;
      return;
    }
    loading = true;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (answer.redirected && new URL(answer.url).pathname === "/login") {
        stop();
        say("Your session has ended: what you see is old.", answer.url);
        return;
      }
      exchange(new DOMParser().parseFromString(await answer.text(), "text/html"));
      say("");
    } catch {
      say("The control plane does not answer: what you see is old.");
    } finally {
      loading = false;
    }
    if (again) {
      again = false;
      soon();
    }
  };

  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      await load();
      if (source !== null) timer = setTimeout(soon, calm);
    }, wait);
  };

  const stop = () => {
    clearTimeout(timer);
    if (source !== null) source.close();
    source = null;
  };

  const start = () => {
    if (source !== null) return;
    source = new EventSource("/watch");
    for (const kind of ["open", "entry", "progress", "alarms"]) source.addEventListener(kind, soon);
    source.addEventListener("error", () => {
      const closed = source !== null && source.readyState === EventSource.CLOSED;
      if (closed) stop();
      load(); // says what is wrong: no session, or no control plane
      if (closed) setTimeout(seen, calm);
    });
  };

  // A hidden page holds no connection: browsers open few of them to one host.
  const seen = () => (document.hidden ? stop() : start());
  if (document.querySelector("[data-live]") !== null && location.pathname !== "/login") {
    document.addEventListener("visibilitychange", seen);
    seen();
  }

  // A form that was sent is not sent twice by a second click. The server would take it for the same, too.
  for (const form of document.querySelectorAll("form[data-once]")) {
    form.addEventListener("submit", (event) => {
      if (form.dataset.sent) event.preventDefault();
      form.dataset.sent = "1";
      for (const b of form.querySelectorAll("button")) b.setAttribute("aria-busy", "true");
    });
  }
  addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll("form[data-once]")) delete form.dataset.sent;
  });

  const problem = document.getElementById("problem");
  if (problem !== null) problem.focus();
})();
