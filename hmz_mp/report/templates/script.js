"use strict";
// The list of items: searched, sorted, shown a page at a time. All text is set as text.
(() => {
  const PAGE = 200;
  const list = document.getElementById("list");
  if (!list) return;
  const data = JSON.parse(document.getElementById("data").textContent);
  const at = Object.fromEntries(data.fields.map((name, place) => [name, place]));
  const order = Object.keys(data.words);
  const rank = Object.fromEntries(order.map((name, place) => [name, place]));
  const view = { words: "", status: "", sort: "number", down: false, page: 0, found: data.cards };
  const get = (id) => document.getElementById(id);
  let searched = null;

  const element = (tag, kind, text) => {
    const made = document.createElement(tag);
    if (kind) made.className = kind;
    if (text !== undefined) made.textContent = text;
    return made;
  };

  const two = (number) => String(number).padStart(2, "0");
  const duration = (seconds) => {
    if (seconds === null) return "";
    if (seconds > 0 && seconds < 0.0995) return `${Math.round(1000 * seconds)} ms`;
    if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
    const whole = Math.round(seconds);
    const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60), whole % 60];
    if (!minutes) return `${rest} s`;
    return hours ? `${hours}:${two(minutes % 60)}:${two(rest)}` : `${minutes}:${two(rest)}`;
  };
  const count = (number) => (number ? number.toLocaleString("en-US") : "");
  const money = (dollars) => (dollars ? `$${dollars.toFixed(2)}` : "");

  const facts = (card) => {
    const made = element("dl", "facts");
    const add = (name, value) => {
      if (value === "" || value === null || value === 0) return;
      const one = element("div");
      one.append(element("dt", "", name), element("dd", "", value));
      made.append(one);
    };
    add("began after", duration(card[at.began]));
    add("waited", duration(card[at.waited]));
    add("ran", duration(card[at.seconds]));
    add("attempts", card[at.attempts]);
    add("worker", card[at.worker]);
    add("tokens", count(card[at.tokens]));
    add("cost", money(card[at.cost_usd]));
    add("agent", card[at.agent]);
    if (card[at.place]) add("turn", `${card[at.place] + 1} of session ${card[at.session]}`);
    return made;
  };

  const diff = (text) => {
    const made = element("pre", "diff");
    for (const line of text.split("\n")) {
      const kind = { "+": "add", "-": "del" }[line[0]] || (line.startsWith("@@") ? "at" : "same");
      made.append(element("span", kind, `${line}\n`));
    }
    return made;
  };

  const body = (card) => {
    const made = element("div", "body");
    made.append(facts(card));
    const texts = [["error", "error", "bad"], ["answer", "answer", ""], ["changes", "diff", "diff"],
      ["printed", "output", ""], ["detail", "detail", ""]];
    for (const [heading, field, kind] of texts) {
      const text = card[at[field]];
      if (!text) continue;
      made.append(element("h4", "", heading));
      made.append(field === "diff" ? diff(text) : element("pre", kind, text));
    }
    return made;
  };

  const item = (card) => {
    const made = element("details", "item");
    const line = element("summary");
    line.append(element("span", `status ${card[at.status]}`, data.words[card[at.status]]));
    line.append(element("span", "name", card[at.item_id]));
    if (card[at.error]) line.append(element("span", "why", card[at.error].slice(0, 240)));
    line.append(element("span", "number tokens", count(card[at.tokens])));
    line.append(element("span", "number cost", money(card[at.cost_usd])));
    line.append(element("span", "number time", duration(card[at.seconds])));
    made.append(line);
    made.addEventListener("toggle", () => made.append(body(card)), { once: true });
    return made;
  };

  const matches = (words) => {
    searched ??= data.cards.map((card) =>
      [card[at.item_id], card[at.error], card[at.answer], card[at.diff]].join("\n").toLowerCase());
    const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
    return (card) => wanted.every((word) => searched[card[at.number_here]].includes(word));
  };

  const compare = (field) => (one, other) => {
    let [a, b] = [one[at[field]], other[at[field]]];
    if (field === "status") [a, b] = [rank[a], rank[b]];
    if (a === b) return one[at.number] - other[at.number];
    if (a === null) return -1;
    if (b === null) return 1;
    return a < b ? -1 : 1;
  };

  const find = () => {
    let found = data.cards;
    if (view.status) found = found.filter((card) => card[at.status] === view.status);
    if (view.words.trim()) found = found.filter(matches(view.words));
    if (view.sort !== "number") {
      found = found.slice().sort(compare(view.sort));
      if (view.down) found.reverse();
    }
    view.found = found;
    view.page = 0;
    show();
  };

  const show = () => {
    const pages = Math.max(1, Math.ceil(view.found.length / PAGE));
    const first = view.page * PAGE;
    list.replaceChildren(...view.found.slice(first, first + PAGE).map(item));
    get("found").textContent = view.found.length === data.cards.length
      ? "" : `${view.found.length.toLocaleString("en-US")} found`;
    get("page").textContent = `page ${view.page + 1} of ${pages}`;
    get("previous").disabled = view.page === 0;
    get("next").disabled = view.page === pages - 1;
    document.querySelector(".pages").hidden = pages === 1;
  };

  at.number_here = data.fields.length;
  data.cards.forEach((card, place) => card.push(place));
  for (const hidden of document.querySelectorAll(".tools, .heads")) hidden.hidden = false;

  let typing = 0;
  get("search").addEventListener("input", (event) => {
    clearTimeout(typing);
    typing = setTimeout(() => { view.words = event.target.value; find(); }, 120);
  });
  get("status").addEventListener("change", (event) => { view.status = event.target.value; find(); });
  for (const head of document.querySelectorAll(".heads button")) {
    head.setAttribute("aria-pressed", "false");
    head.addEventListener("click", () => {
      const field = head.dataset.sort;
      const again = view.sort === field;
      const numbers = field !== "item_id" && field !== "status";
      view.down = again ? !view.down : numbers;
      view.sort = field;
      for (const other of document.querySelectorAll(".heads button")) {
        other.setAttribute("aria-pressed", String(other === head));
        delete other.dataset.down;
      }
      head.dataset.down = view.down ? "yes" : "no";
      find();
    });
  }
  const turn = (by) => { view.page += by; show(); get("items").scrollIntoView(); };
  get("previous").addEventListener("click", () => turn(-1));
  get("next").addEventListener("click", () => turn(1));
  show();
})();
