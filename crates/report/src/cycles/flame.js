"use strict";
// Draws the boxes of the flame graph. Names reach the page as text only (textContent), never as markup.
(() => {
  const ROW = 20;
  /** Boxes that are narrower, in pixels, are drawn together with their neighbours, if they are wide enough then; */
  const NARROWEST = 3;
  /** and of more than this, only the widest, so that the page stays quick. */
  const MOST = 10000;
  /** Names in a line of text are cut to this, in characters, and in titles, which browsers cut as well, to that. */
  const NAME = 120;
  /** The table has so many functions. */
  const LISTED = 200;
  /** A difference from here on, in shares of the samples, has the full colour. */
  const FULL = 0.05;
  const TITLE = 1000;
  const data = JSON.parse(document.getElementById("data").textContent);
  const by = (id) => document.getElementById(id);
  const graph = by("graph");

  // As the terminal shows them: nothing that moves, hides or reorders text.
  const hostile = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e0fff}]/gu;
  const printable = (text) => text.replace(hostile, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
  const percent = (share) => (share === 0 ? "0 %" : `${(100 * share).toFixed(share < 0.00095 ? 2 : 1)} %`);
  const digits = new Intl.NumberFormat("en");
  const count = (n) => digits.format(n).replaceAll(",", "\u202f");
  // Without its middle: a name tells most at its ends.
  const shortened = (text, limit) => {
    if (text.length <= limit) return text;
    const letters = Array.from(text);
    if (letters.length <= limit) return text;
    return `${letters.slice(0, limit >> 1).join("")}…${letters.slice(1 - (limit >> 1)).join("")}`;
  };

  const KINDS = {
    program: "a program's own code",
    library: "shared libraries",
    kernel: "the kernel",
    generated: "made at run time (JIT)",
    waiting: "time off the CPU: what is below waits",
    unknown: "nothing known",
    process: "a process",
  };
  const names = data.names.map(({ name, image, kind, worth }) => {
    const shown = printable(name);
    return { shown, lower: shown.toLowerCase(), image: printable(image), kind, worth, rank: 0, isFound: false };
  });
  const { before } = data;
  const ascending = (a, b) => (a.shown < b.shown ? -1 : a.shown > b.shown ? 1 : 0);
  [...names].sort(ascending).forEach((name, rank) => (name.rank = rank));

  const whole = { name: null, own: 0, total: 0, was: before ? before.samples : 0, wasOwn: 0, isCut: false, children: [], depth: 0, below: null, size: 1 };
  const boxes = [];
  for (let at = 0; at < data.boxes.length; at += 4) {
    const below = data.boxes[at] < 0 ? whole : boxes[data.boxes[at]];
    const [own, total] = [data.boxes[at + 2], data.boxes[at + 3]];
    const [wasOwn, was] = before ? [before.boxes[at / 2], before.boxes[at / 2 + 1]] : [0, 0];
    const name = names[data.boxes[at + 1]];
    const box = { name, own, total, was, wasOwn, isCut: false, children: [], depth: below.depth + 1, below, size: 1 };
    below.children.push(box);
    boxes.push(box);
    if (below === whole) whole.total += total;
  }
  for (const nth of data.cut) boxes[nth].isCut = true;
  // Callers stand before what they call.
  for (let nth = boxes.length - 1; nth >= 0; nth--) boxes[nth].below.size += boxes[nth].size;
  for (const box of [whole, ...boxes]) box.children.sort((a, b) => a.name.rank - b.name.rank);
  const nameOf = (box) => (box === whole ? "all" : box.name.shown);

  let focus = whole;
  /** Boxes that are too narrow to be drawn by themselves. */
  let together = [];
  let wanted = "";
  let shown = [];
  let drawnWidth = 0;

  /** What is compared: how much more of all samples it is now. */
  const change = (now, then) => now / Math.max(1, whole.total) - then / Math.max(1, whole.was);
  const signed = (share) => `${share < 0 ? "−" : "+"}${percent(Math.abs(share))}`;

  const colours = by("colours");
  const offer = (value, words) => {
    const option = document.createElement("option");
    option.value = value;
    option.textContent = words;
    colours.append(option);
  };
  if (before) offer("change", "what is different");
  if (names.some(({ worth }) => worth)) offer("worth", "what more speed is worth");
  offer("kind", "whose code it is");

  function look(element, box) {
    if (box.isCut) element.classList.add("cut");
    if (colours.value === "kind" || box.name.kind === "process") element.classList.add(box.name.kind);
    else if (colours.value === "worth") lookOfWorth(element, box.name.worth);
    else {
      const more = change(box.total, box.was);
      element.classList.add(more > 0 ? "worse" : "better");
      element.style.setProperty("--much", `${Math.round(Math.min(1, Math.abs(more) / FULL) * 100)}%`);
    }
  }

  /** What the colour says, in front of the name. */
  const signOf = (box) => (colours.value === "change" && box !== whole ? `${signed(change(box.total, box.was))} ` : "");

  function lookOfWorth(element, worth) {
    if (!worth) return;
    element.classList.add(worth.slope < 0 ? "worse" : "better");
    if (worth.verdict === "not-enough-data") element.classList.add("unsure");
    element.style.setProperty("--much", `${Math.round(Math.min(1, Math.abs(worth.slope) / 0.5) * 100)}%`);
  }

  const whereOf = (box, limit) => {
    const image = box === whole ? "" : ` — ${shortened(box.name.image || KINDS[box.name.kind], limit)}`;
    return `${shortened(nameOf(box), limit)}${image}`;
  };

  function costOf(box) {
    if (box === whole) return `${count(whole.total)} samples${before ? `, ${count(before.samples)} before` : ""}`;
    const { worth } = box.name;
    const line = worth && worth.line ? ` (${printable(worth.line)})` : "";
    const interval = worth && worth.lo !== null ? ` [${worth.lo.toFixed(2)} … ${worth.hi.toFixed(2)}]` : "";
    const slope = worth ? `; slope ${worth.slope.toFixed(2)}${interval} ${worth.verdict}${line}` : "";
    const own = `${percent(box.own / whole.total)} itself`;
    const then = before ? `; ${signed(change(box.total, box.was))} (${percent(box.was / Math.max(1, whole.was))} before)` : "";
    const cut = box.isCut ? "; its callers are not known" : "";
    return `${percent(box.total / whole.total)}, ${own}, ${count(box.total)} samples${then}${slope}${cut}`;
  }

  const describe = (box, limit) => `${whereOf(box, limit)}: ${costOf(box)}`;

  // Two lines that never become more: what is below must not move while it is pointed at.
  function say(box) {
    by("cost").textContent = costOf(box);
    by("where").textContent = whereOf(box, NAME);
  }

  const isFound = (box) => box !== whole && box.name.isFound;

  /** What is drawn with `focus` as wide as the graph: boxes, where they begin, how wide they are, in pixels. */
  function laidOut(width) {
    const scale = width / Math.max(1, focus.total);
    const all = [];
    together = [];
    const stack = [[focus, 0]];
    while (stack.length > 0) {
      const [box, left] = stack.pop();
      const wide = box.total * scale;
      if (wide < NARROWEST && box !== focus) continue;
      all.push({ box, left, width: box === focus ? width : wide, isBelow: false });
      let [at, rest, number] = [left, 0, 0];
      for (const child of box.children) {
        if (child.total * scale < NARROWEST) {
          rest += child.total * scale;
          number += child.total > 0 ? 1 : 0;
          continue;
        }
        stack.push([child, at]);
        at += child.total * scale;
      }
      if (rest >= NARROWEST) together.push({ depth: box.depth + 1, left: at, width: rest, number });
    }
    if (all.length <= MOST) return all;
    together = [];
    // No box is wider than the one that it is on, so that none is left without it.
    return all.sort((a, b) => b.width - a.width || a.box.depth - b.box.depth).slice(0, MOST);
  }

  const focused = () => {
    const nth = document.activeElement.dataset.nth;
    return graph.contains(document.activeElement) && nth !== undefined ? shown[nth].box : null;
  };

  /** Draws everything anew; `to` gets the keyboard, or what it is on. */
  function draw(to = focused()) {
    const width = graph.clientWidth || 1000;
    drawnWidth = width;
    const above = laidOut(width);
    const hidden = focus.size - above.length;
    narrow.hidden = hidden === 0;
    narrow.textContent = `${count(hidden)} boxes here are too narrow to see: zoom in for them.`;
    const way = [];
    for (let box = focus.below; box; box = box.below) way.push({ box, left: 0, width, isBelow: true });
    shown = [...way, ...above].sort((a, b) => a.box.depth - b.box.depth || a.left - b.left);
    const deepest = together.reduce((most, { depth }) => Math.max(most, depth), shown[shown.length - 1].box.depth);
    graph.style.height = `${(deepest + 1) * ROW}px`;
    const drawn = new Map(shown.map(({ box }, nth) => [box, nth]));
    let reached = to;
    while (reached && !drawn.has(reached)) reached = reached.below;
    const inOrder = drawn.get(reached || focus);
    const elements = shown.map(({ box, left, width: wide, isBelow }, nth) => {
      const element = document.createElement("button");
      element.type = "button";
      element.className = isBelow ? "box below" : "box";
      element.dataset.nth = nth;
      element.tabIndex = nth === inOrder ? 0 : -1;
      // In shares, so that it is right on paper, too.
      element.style.left = `${(100 * left) / width}%`;
      element.style.width = `${(100 * wide) / width}%`;
      element.style.top = `${box.depth * ROW}px`;
      if (wide > 24) element.textContent = (signOf(box) + nameOf(box)).slice(0, Math.ceil(wide / 6));
      element.title = describe(box, TITLE);
      element.setAttribute("aria-label", describe(box, NAME));
      if (isFound(box)) element.classList.add("found");
      if (box !== whole && !isBelow) look(element, box);
      return element;
    });
    graph.replaceChildren(...elements, ...together.map((rest) => restOf(rest, width)));
    by("back").disabled = focus === whole;
    say(focus);
    if (reached) elements[inOrder].focus();
  }

  function restOf({ depth, left, width: wide, number }, width) {
    const element = document.createElement("span");
    element.className = "rest";
    element.style.left = `${(100 * left) / width}%`;
    element.style.width = `${(100 * wide) / width}%`;
    element.style.top = `${depth * ROW}px`;
    element.textContent = wide > 40 ? `… ${count(number)}` : "…";
    element.title = `${count(number)} boxes that are too narrow to read: zoom in for them`;
    return element;
  }

  function zoom(box, to) {
    focus = box;
    draw(to);
    list();
  }

  /** The functions in what fills the width: samples in their own code, and with them on the stack, each once. */
  function sums() {
    const found = new Map();
    const stack = [[focus, false]];
    const sumOf = (name) => {
      if (!found.has(name)) found.set(name, { name, own: 0, total: 0, was: 0 });
      return found.get(name);
    };
    // How many boxes of each function are open: a box is left after all that it calls.
    const open = new Map();
    while (stack.length > 0) {
      const [box, isLeft] = stack.pop();
      if (isLeft) {
        open.set(box.name, open.get(box.name) - 1);
        continue;
      }
      if (box !== whole) {
        const sum = sumOf(box.name);
        sum.own += box.own;
        const around = open.get(box.name) || 0;
        if (around === 0) [sum.total, sum.was] = [sum.total + box.total, sum.was + box.was];
        open.set(box.name, around + 1);
        stack.push([box, true]);
      }
      for (const child of box.children) stack.push([child, false]);
    }
    return [...found.values()].filter(({ name }) => name.kind !== "process");
  }

  const COLUMNS = {
    own: ["self", "samples in its own code", (sum) => sum.own],
    total: ["total", "samples with it on the stack", (sum) => sum.total],
    change: ["change", "how much more of all samples have it on their stack", (sum) => Math.abs(change(sum.total, sum.was))],
  };
  let sorted = before ? "change" : "own";

  function list() {
    const columns = Object.keys(COLUMNS).filter((column) => column !== "change" || before);
    const head = columns.map((column) => {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.setAttribute("aria-sort", column === sorted ? "descending" : "none");
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = `${COLUMNS[column][0]}${column === sorted ? " ▾" : ""}`;
      button.title = COLUMNS[column][1];
      button.dataset.column = column;
      cell.append(button);
      return cell;
    });
    const last = document.createElement("th");
    last.scope = "col";
    last.textContent = "function";
    by("columns").replaceChildren(...head, last);
    const all = sums();
    const size = COLUMNS[sorted][2];
    all.sort((a, b) => size(b) - size(a) || ascending(a.name, b.name));
    const rows = all.slice(0, LISTED).map((sum) => {
      const row = document.createElement("tr");
      const texts = [percent(sum.own / Math.max(1, whole.total)), percent(sum.total / Math.max(1, whole.total))];
      if (before) texts.push(signed(change(sum.total, sum.was)));
      for (const text of texts) {
        const cell = document.createElement("td");
        cell.textContent = text;
        row.append(cell);
      }
      const cell = document.createElement("td");
      const button = document.createElement("button");
      button.type = "button";
      button.dataset.name = names.indexOf(sum.name);
      button.textContent = shortened(sum.name.shown, NAME);
      button.title = shortened(`${sum.name.shown} — ${sum.name.image}`, TITLE);
      cell.append(button);
      row.append(cell);
      return row;
    });
    by("rows").replaceChildren(...rows);
    by("more").textContent = all.length > LISTED ? `${count(all.length - LISTED)} more functions have fewer samples.` : "";
  }

  by("functions").addEventListener("click", (event) => {
    const { column, name } = event.target.closest("button")?.dataset ?? {};
    if (column !== undefined) {
      sorted = column;
      list();
      by("columns").querySelector(`[data-column="${column}"]`).focus();
    }
    if (name === undefined) return;
    by("search").value = names[name].shown;
    search();
  });
  colours.addEventListener("change", () => {
    draw(null);
    explain();
  });

  // Samples in what was found; what is called from it is counted with it, once.
  function search() {
    wanted = by("search").value.trim().toLowerCase();
    for (const name of names) name.isFound = wanted !== "" && name.lower.includes(wanted);
    const isAny = names.some((name) => name.isFound);
    let samples = 0;
    const stack = isAny ? [whole] : [];
    while (stack.length > 0) {
      const box = stack.pop();
      if (isFound(box)) samples += box.total;
      else stack.push(...box.children);
    }
    const share = () => `${percent(samples / Math.max(1, whole.total))} of the samples`;
    by("found").textContent = wanted === "" ? "" : isAny ? share() : "no function has this in its name";
    shown.forEach(({ box }, nth) => graph.children[nth].classList.toggle("found", isFound(box)));
  }

  const widest = (entries) =>
    entries.reduce((most, entry) => (most && most.width >= entry.width ? most : entry), undefined);

  function neighbour(nth, key) {
    const here = shown[nth];
    switch (key) {
      case "ArrowRight":
      case "ArrowLeft": {
        const next = shown[nth + (key === "ArrowRight" ? 1 : -1)];
        return next && next.box.depth === here.box.depth ? next : undefined;
      }
      case "ArrowUp":
        return shown.find(({ box }) => box === here.box.below);
      case "ArrowDown":
        return widest(shown.filter(({ box }) => box.below === here.box));
      case "Home":
        return shown[0];
      default:
        return undefined;
    }
  }

  /** Gives a box the keyboard. */
  function go(to) {
    const old = graph.querySelector("[tabindex='0']");
    if (old) old.tabIndex = -1;
    const next = graph.children[shown.indexOf(to)];
    next.tabIndex = 0;
    next.focus();
  }

  graph.addEventListener("click", (event) => {
    const element = event.target.closest(".box");
    if (element) zoom(shown[element.dataset.nth].box, shown[element.dataset.nth].box);
  });
  const tell = (event) => {
    const element = event.target.closest(".box");
    if (element) say(shown[element.dataset.nth].box);
  };
  graph.addEventListener("pointerover", tell);
  graph.addEventListener("focusin", tell);
  graph.addEventListener("keydown", (event) => {
    const element = event.target.closest(".box");
    if (!element || event.ctrlKey || event.metaKey || event.altKey) return;
    const to = neighbour(Number(element.dataset.nth), event.key);
    if (!to) return;
    event.preventDefault();
    go(to);
  });
  by("search").addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    const first = widest(shown.filter(({ box }) => isFound(box)));
    if (first) go(first);
  });
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target instanceof HTMLInputElement;
    if (event.key === "Escape") {
      event.preventDefault();
      // First what was typed, then what was chosen.
      if (wanted === "") return zoom(whole, isTyping ? null : whole);
      by("search").value = "";
      search();
    } else if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      by("search").focus();
    }
  });
  by("back").addEventListener("click", () => zoom(whole, whole));
  by("search").addEventListener("input", search);
  // Windows are resized, and a long graph gets a bar to scroll it.
  let waiting = 0;
  new ResizeObserver(() => {
    cancelAnimationFrame(waiting);
    if (graph.clientWidth !== drawnWidth) waiting = requestAnimationFrame(() => draw());
  }).observe(graph);

  const { heading } = data;
  const parts = [`${heading.event} on ${heading.machines.join(", ")}`, data.time, ...heading.selection];
  by("title").textContent = printable(parts.join(", "));
  document.title = `whatif flame: ${by("title").textContent}`;
  const { books } = heading;
  const isTime = heading.event.includes("off-cpu");
  function pace() {
    if (isTime) return `; each stands for ${(heading.nanos_per_sample / 1e6).toFixed(1)} ms`;
    return `; ${heading.rate.toFixed(1)} a second and CPU`;
  }
  by("account").textContent =
    `${count(whole.total)} samples here. Of all${heading.event.includes(" and ") ? " on the CPU" : ""}: expected ${count(books.expected)} = stored ${count(books.stored)} + ` +
    `unknown ${count(books.unknown)} + lost ${count(books.lost)}${pace()}.`;
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
      if (much !== null) swatch.style.setProperty("--much", `${much}%`);
      item.append(swatch);
    }
    item.append(` ${text}`);
    by("legend").append(item);
  };
  const narrow = document.createElement("li");
  narrow.id = "narrow";
  // Samples in stacks that begin nowhere.
  const cut = data.cut.reduce((sum, nth) => sum + boxes[nth].total, 0);
  function explain() {
    by("legend").replaceChildren();
    legend(null, 0, "Width: samples. Below each box what it calls, in the order of names.");
    if (colours.value === "kind") {
      const used = new Set(names.map(({ kind }) => kind));
      for (const [kind, words] of Object.entries(KINDS)) if (used.has(kind)) legend(kind, null, words);
    } else if (colours.value === "worth") {
      legend("better", 100, "making it faster helps: slope 0.5 and more");
      legend("better", 0, "slope 0: it does not matter");
      legend("worse", 100, "making it faster hurts: −0.5 and less");
      legend("better unsure", 50, "not settled yet");
      legend("", null, "not tried");
    } else {
      legend(null, 0, `Compared with ${printable(before.asked)}, in shares of all samples:`);
      legend("worse", 100, `${signed(FULL)} and more`);
      legend("worse", 0, "the same");
      legend("better", 100, `${signed(-FULL)} and less`);
    }
    if (cut > 0) legend("cut", null, `${percent(cut / Math.max(1, whole.total))} of the samples: callers are not known beyond this`);
    if (data.left_out > 0) legend(null, 0, `${count(data.left_out)} boxes too narrow to see at any zoom are left out.`);
    by("legend").append(narrow);
  }
  explain();
  draw();
  list();
})();
