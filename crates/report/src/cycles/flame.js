"use strict";
// Draws the boxes of the flame graph. Names reach the page as text only (textContent), never as markup.
(() => {
  const ROW = 20;
  const NARROWEST = 2;
  const data = JSON.parse(document.getElementById("data").textContent);
  const by = (id) => document.getElementById(id);
  const graph = by("graph");

  // As the terminal shows them: nothing that moves, hides or reorders text.
  const hostile = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e0fff}]/gu;
  const printable = (text) => text.replace(hostile, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
  const percent = (share) => `${(100 * share).toFixed(share < 0.00095 ? 2 : 1)} %`;
  const count = (n) => n.toLocaleString("en").replaceAll(",", "\u202f");

  const boxes = [];
  for (let at = 0; at < data.boxes.length; at += 4) {
    const [parent, name, own, total] = data.boxes.slice(at, at + 4);
    boxes.push({ parent, name, own, total, children: [], depth: parent < 0 ? 1 : boxes[parent].depth + 1 });
  }
  const whole = { parent: null, name: null, own: 0, total: 0, children: [], depth: 0 };
  for (const box of boxes) {
    const below = box.parent < 0 ? whole : boxes[box.parent];
    below.children.push(box);
    box.below = below;
    if (below === whole) whole.total += box.total;
  }
  const nameOf = (box) => (box === whole ? "all" : printable(data.names[box.name].name));
  const byName = (a, b) => (nameOf(a) < nameOf(b) ? -1 : nameOf(a) > nameOf(b) ? 1 : 0);
  for (const box of [whole, ...boxes]) box.children.sort(byName);

  let focus = whole;
  let wanted = "";
  let shown = [];

  function look(element, worth) {
    if (!worth) return;
    element.classList.add(worth.slope < 0 ? "worse" : "better");
    if (worth.verdict === "not-enough-data") element.classList.add("unsure");
    element.style.setProperty("--much", `${Math.round(Math.min(1, Math.abs(worth.slope) / 0.5) * 100)}%`);
  }

  function describe(box) {
    if (box === whole) return `all: ${count(whole.total)} samples`;
    const { image, worth } = data.names[box.name];
    const line = worth && worth.line ? ` (${printable(worth.line)})` : "";
    const interval = worth && worth.lo !== null ? ` [${worth.lo.toFixed(2)} … ${worth.hi.toFixed(2)}]` : "";
    const slope = worth ? `; slope ${worth.slope.toFixed(2)}${interval} ${worth.verdict}${line}` : "";
    const own = `${percent(box.own / whole.total)} itself`;
    return `${nameOf(box)} — ${printable(image)}: ${percent(box.total / whole.total)}, ${own}, ${count(box.total)} samples${slope}`;
  }

  const isFound = (box) => wanted !== "" && box !== whole && nameOf(box).toLowerCase().includes(wanted);

  function draw(focused) {
    const width = graph.clientWidth || 1000;
    const scale = width / Math.max(1, focus.total);
    shown = [];
    const way = [];
    for (let box = focus; box; box = box === whole ? null : box.below) way.push(box);
    for (const box of way.slice(1)) shown.push({ box, left: 0, width, isBelow: true });
    const stack = [[focus, 0]];
    while (stack.length > 0) {
      const [box, left] = stack.pop();
      const wide = box.total * scale;
      if (wide < NARROWEST) continue;
      shown.push({ box, left, width: wide, isBelow: false });
      let at = left;
      for (const child of box.children) {
        stack.push([child, at]);
        at += child.total * scale;
      }
    }
    shown.sort((a, b) => a.box.depth - b.box.depth || a.left - b.left);
    const deepest = shown.reduce((most, { box }) => Math.max(most, box.depth), 0);
    graph.style.height = `${(deepest + 1) * ROW}px`;
    const elements = shown.map(({ box, left, width: wide, isBelow }, nth) => {
      const element = document.createElement("button");
      element.type = "button";
      element.className = "box";
      element.dataset.nth = nth;
      element.tabIndex = box === (focused || focus) ? 0 : -1;
      element.style.left = `${left}px`;
      element.style.width = `${wide}px`;
      element.style.top = `${box.depth * ROW}px`;
      if (wide > 24) element.textContent = nameOf(box).slice(0, Math.ceil(wide / 6));
      const said = describe(box);
      element.title = said;
      element.setAttribute("aria-label", said);
      if (isBelow) element.classList.add("below");
      if (isFound(box)) element.classList.add("found");
      if (box !== whole) look(element, data.names[box.name].worth);
      return element;
    });
    graph.replaceChildren(...elements);
    by("back").disabled = focus === whole;
    by("said").textContent = describe(focus);
    const nth = focused ? shown.findIndex(({ box }) => box === focused) : -1;
    if (nth >= 0) elements[nth].focus();
  }

  function zoom(box, focused) {
    focus = box;
    draw(focused);
  }

  // Samples in what was found; what is called from it is counted with it, once.
  function search() {
    wanted = by("search").value.trim().toLowerCase();
    let samples = 0;
    const stack = [whole];
    while (wanted !== "" && stack.length > 0) {
      const box = stack.pop();
      if (isFound(box)) samples += box.total;
      else stack.push(...box.children);
    }
    by("found").textContent = wanted === "" ? "" : `${percent(samples / Math.max(1, whole.total))} of the samples`;
    draw();
  }

  function neighbour(nth, key) {
    const here = shown[nth];
    const isOn = (depth) => (entry) => entry.box.depth === depth;
    switch (key) {
      case "ArrowRight":
      case "ArrowLeft": {
        const row = shown.filter(isOn(here.box.depth));
        return row[row.indexOf(here) + (key === "ArrowRight" ? 1 : -1)];
      }
      case "ArrowUp":
        return shown.find(({ box }) => box === here.box.below);
      case "ArrowDown": {
        const above = shown.filter(({ box }) => box.below === here.box);
        return above.reduce((most, entry) => (most && most.width >= entry.width ? most : entry), undefined);
      }
      case "Home":
        return shown[0];
      default:
        return undefined;
    }
  }

  graph.addEventListener("click", (event) => {
    const element = event.target.closest(".box");
    if (element) zoom(shown[element.dataset.nth].box, shown[element.dataset.nth].box);
  });
  const tell = (event) => {
    const element = event.target.closest(".box");
    if (element) by("said").textContent = describe(shown[element.dataset.nth].box);
  };
  graph.addEventListener("pointerover", tell);
  graph.addEventListener("focusin", tell);
  graph.addEventListener("keydown", (event) => {
    const element = event.target.closest(".box");
    if (!element || event.ctrlKey || event.metaKey || event.altKey) return;
    const to = neighbour(Number(element.dataset.nth), event.key);
    if (!to) return;
    event.preventDefault();
    const next = graph.children[shown.indexOf(to)];
    element.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target instanceof HTMLInputElement;
    if (event.key === "Escape") {
      by("search").value = "";
      wanted = "";
      by("found").textContent = "";
      zoom(whole, isTyping ? undefined : whole);
    } else if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      by("search").focus();
    }
  });
  by("back").addEventListener("click", () => zoom(whole, whole));
  by("search").addEventListener("input", search);
  let waiting = 0;
  window.addEventListener("resize", () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => draw());
  });

  const { heading } = data;
  const parts = [`${heading.event} on ${heading.machines.join(", ")}`, data.time, ...heading.selection];
  by("title").textContent = printable(parts.join(", "));
  document.title = `whatif flame: ${by("title").textContent}`;
  const { books } = heading;
  by("account").textContent =
    `${count(whole.total)} samples here. Of all: expected ${count(books.expected)} = stored ${count(books.stored)} + ` +
    `unknown ${count(books.unknown)} + lost ${count(books.lost)}; ${heading.rate.toFixed(1)} a second and CPU.`;
  for (const note of heading.warnings) {
    const item = document.createElement("li");
    item.textContent = printable(`! ${note.message} — ${note.advice}`);
    by("warnings").append(item);
  }
  const legend = (kind, much, text) => {
    const item = document.createElement("li");
    if (kind !== null) {
      const swatch = document.createElement("span");
      swatch.className = `box swatch ${kind}`;
      swatch.style.setProperty("--much", `${much}%`);
      item.append(swatch);
    }
    item.append(` ${text}`);
    by("legend").append(item);
  };
  legend(null, 0, "Width: samples. Below each box what it calls, in the order of names.");
  if (data.names.some(({ worth }) => worth)) {
    legend("better", 100, "making it faster helps: slope 0.5 and more");
    legend("better", 0, "slope 0: it does not matter");
    legend("worse", 100, "making it faster hurts: −0.5 and less");
    legend("better unsure", 50, "not settled yet");
    legend("", 0, "not tried");
  }
  if (data.left_out > 0) legend(null, 0, `${count(data.left_out)} boxes too narrow to see are left out.`);
  draw();
})();
