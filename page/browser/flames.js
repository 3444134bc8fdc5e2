// Flame graphs as `whatif flame` writes them (crates/report/src/cycles/flame.rs), with data made here.

/** The address of a page in a folder of `pages.js`. */
export const flame = (folder, name, data) => folder.database(name, { kind: "flame", flame: data });

export const worth = (slope, verdict) => ({ slope, lo: slope - 0.05, hi: slope + 0.05, verdict, line: null });

/** Boxes of a tree of `[name, samples of it alone, ...what it calls]`; `worths` and `kinds` by name. */
export function graph(tree, worths = {}, kinds = {}) {
  const names = new Map();
  const boxes = [];
  const add = ([name, own, ...called], parent) => {
    if (!names.has(name)) names.set(name, names.size);
    const at = boxes.length;
    boxes.push([parent, names.get(name), own, own]);
    for (const child of called) boxes[at][3] += add(child, at);
    return boxes[at][3];
  };
  add(tree, -1);
  return withBoxes([...names.keys()], boxes.flat(), worths, kinds);
}

/** `boxes` as the page has them: parent, name, samples alone, samples in all; flat. */
export function withBoxes(names, boxes, worths = {}, kinds = {}) {
  const heading = {
    event: "cpu-clock",
    machines: ["build-7"],
    selection: ["process server"],
    books: { expected: 1200, stored: 1100, unknown: 60, lost: 40 },
    rate: 97,
    cpus: 2,
    samples: 1100,
    nanos_per_sample: 1e7,
    warnings: [{ message: "3.3 % of the samples were lost", advice: "see when and why: whatif status" }],
  };
  const named = names.map((name) => ({ name, image: kinds[name] === "process" ? "" : "/usr/bin/server", kind: kinds[name] ?? "program", worth: worths[name] ?? null }));
  return { heading, time: "2026-11-22 14:00 to 15:00", names: named, boxes, cut: [], before: null, left_out: 0 };
}
