// A database as the page of it is told, made here; and a server that tells it (crates/whatif/src/continuous/page).

import { createServer } from "node:http";
import { DATABASE_PAGE } from "./pages.js";

/** A whole hour; the map is of twenty minutes, of which a part was not collected. */
export const START = 1_790_000_400 - (1_790_000_400 % 3600);
export const GAP = [START + 590, START + 785];
const COLUMN = 60;
const COLUMNS = 20;
export const HOSTILE = "</script><img src=x onerror=alert(1)>\u202e and a name that is much longer than there is room for";
const NAMES = ["server", "compiler", HOSTILE, "db: writer", "backup", "redis", "cron", "sshd", "journald", "udevd", "init"];

export const heading = (samples) => ({
  event: "cpu-clock",
  machines: ["build-7"],
  cpus: 2,
  since: START,
  until: START + COLUMN * COLUMNS,
  selection: [],
  books: { expected: 24_000, stored: 23_000, unknown: 600, lost: 400 },
  rate: 10,
  asked_rate: 10,
  samples,
  nanos_per_sample: 1e8,
  with_idle: false,
  warnings: [{ code: "lost", message: "1.7 % of the samples were lost, perhaps most of them in the same code", advice: "see when and why: whatif status" }],
});

const share = (value) => ({ value, lo: Math.max(0, value - 0.02), hi: value + 0.02 });
const isMissing = (column) => {
  const [from, to] = [START + column * COLUMN, START + (column + 1) * COLUMN];
  return GAP[0] <= from && GAP[1] >= to;
};

/** Samples of a row in a column: each has its own hour. */
const samplesOf = (row, column) => (isMissing(column) ? 0 : row === 4 && column < 15 ? 0 : Math.round(400 / (row + 1) + (300 * Math.sin(column / 3 + row) ** 2) / (row < 5 ? 1 : row)));

export function heat(by = "process") {
  const columns = [...Array(COLUMNS).keys()];
  const rows = NAMES.map((name, row) => {
    const cells = columns.map((column) => samplesOf(row, column));
    const samples = cells.reduce((a, b) => a + b);
    return {
      name,
      image: by === "function" ? "/usr/bin/server" : "",
      samples,
      share: share(0.5 / (row + 1)),
      cpu_ns: samples * 1e8,
      worth: by === "function" && row < 2 ? worth(0.4 - 0.6 * row, row === 0 ? "helps" : "hurts") : null,
      cells,
      lo: cells.map((count) => Math.max(0, count - 2 * Math.sqrt(count))),
      hi: cells.map((count) => count + 2 * Math.sqrt(count) + 3),
      own: null,
    };
  });
  return {
    version: 1,
    kind: "heat",
    heading: heading(rows.reduce((sum, row) => sum + row.samples, 0)),
    by,
    start: START,
    column_s: COLUMN,
    columns: COLUMNS,
    unit: "cores",
    scale: columns.map((column) => (isMissing(column) ? null : 1 / 600)),
    expected: columns.map((column) => (isMissing(column) ? 0 : 1200)),
    lost: columns.map(() => 0),
    samples: columns.map((column) => NAMES.reduce((sum, _, row) => sum + samplesOf(row, column), 0)),
    gaps: [GAP],
    more_gaps: 0,
    rows,
    more: 7,
  };
}

const worth = (slope, verdict) => ({ slope, lo: slope - 0.05, hi: slope + 0.05, verdict, point: "requests", line: null, recording: "server.db", other_build: false });
const FUNCTIONS = [
  { name: "server", image: "", kind: "process", worth: null },
  { name: "main", image: "/usr/bin/server", kind: "program", worth: null },
  { name: "serve::answer", image: "/usr/bin/server", kind: "program", worth: worth(0.42, "helps") },
  { name: HOSTILE, image: "/usr/bin/server", kind: "program", worth: worth(-0.2, "hurts") },
  { name: "memcpy", image: "/usr/lib/x86_64-linux-gnu/libc.so.6", kind: "library", worth: null },
  { name: "do_syscall_64", image: "[kernel]", kind: "kernel", worth: null },
  { name: "[jit]", image: "/tmp/perf-1.map", kind: "generated", worth: null },
];
const BOXES = [-1, 0, 0, 1000, 0, 1, 50, 1000, 1, 2, 300, 500, 2, 4, 150, 150, 2, 5, 50, 50, 1, 3, 250, 250, 1, 6, 200, 200];

const row = (nth, samples, total) => ({
  name: FUNCTIONS[nth].name,
  image: FUNCTIONS[nth].image,
  build_id: "",
  samples,
  share: share(samples / 1000),
  cpu_ns: samples * 1e8,
  total,
  total_share: total / 1000,
  worth: FUNCTIONS[nth].worth,
  mark: nth === 3 ? "hot-but-does-not-matter" : null,
});

const flame = (before) => ({ heading: heading(1000), time: "", names: FUNCTIONS, boxes: BOXES, cut: [1], before, left_out: 3 });

export const span = (since, until) => ({
  kind: "span",
  table: { heading: heading(1000), by: "function", rows: [row(2, 300, 500), row(3, 250, 250), row(6, 200, 200), row(4, 150, 150), row(1, 50, 1000), row(5, 50, 50)], more: 3, not_hot: [], recordings: ["server.db"] },
  flame: flame(null),
  next: [`whatif top --db /srv/db --since ${since} --until ${until}`, "whatif flame --db /srv/db -o flame.html"],
});

const change = (nth, a, b, certain) => ({
  name: FUNCTIONS[nth].name,
  image: FUNCTIONS[nth].image,
  a: share(a),
  b: share(b),
  difference: share(b - a),
  certain,
  worth: FUNCTIONS[nth].worth,
});

export const difference = () => ({
  kind: "difference",
  table: {
    a: { asked: "A", heading: heading(1000), spans: 0, span_s: 60 },
    b: { asked: "B", heading: heading(1000), spans: 12, span_s: 60 },
    by: "function",
    per: "share",
    changes: [change(2, 0.1, 0.3, 0.16), change(3, 0.45, 0.25, -0.14), change(4, 0.15, 0.15, 0)],
    more: 0,
  },
  flame: flame({ asked: "A", samples: 1000, boxes: [0, 1000, 50, 1000, 100, 300, 150, 150, 50, 50, 450, 450, 200, 200] }),
  next: ["whatif diff --db /srv/db 2026-09-21T10:00:00Z..2026-09-21T10:05:00Z 2026-09-21T10:10:00Z..2026-09-21T10:15:00Z"],
});

export const beginning = () => ({
  version: 1,
  kind: "database",
  database: "/srv/db",
  first: { since: null, until: null, idle: false, machine: null, cgroup: null, process: null, image: null, event: null, epoch: null },
  by: ["process", "unit", "cgroup", "machine", "function", "image"],
});

/** As `whatif open --db DIR -o FILE` writes it. */
export const alone = () => ({ ...beginning(), heats: [heat(), heat("function")], span: span("A", "B") });

/** Serves the page, and remembers what it asked for. */
export class Whatif {
  asked = [];
  refuse = null;
  #server = createServer((request, response) => this.#answer(request, response));

  async listen() {
    await new Promise((done) => this.#server.listen(0, "127.0.0.1", done));
    this.address = `http://127.0.0.1:${this.#server.address().port}/?token=7`;
  }

  #answer({ method, url }, response) {
    const { pathname, searchParams } = new URL(url, "http://x");
    const say = (status, type, text) => response.writeHead(status, { "Content-Type": type, "Cache-Control": "no-store" }).end(text);
    if (searchParams.get("token") !== "7") return say(403, "text/plain", "no");
    searchParams.delete("token");
    this.asked.push(`${method} ${pathname}?${searchParams}`);
    const json = (value) => say(200, "application/json", JSON.stringify(value));
    if (this.refuse && pathname.startsWith("/api/")) return say(422, "text/plain; charset=utf-8", this.refuse);
    switch (pathname) {
      case "/":
        return say(200, "text/html; charset=utf-8", DATABASE_PAGE);
      case "/data.json":
        return json(beginning());
      case "/api/heat":
        return json(heat(searchParams.get("by")));
      case "/api/span":
        return json(span(searchParams.get("since"), searchParams.get("until")));
      case "/api/diff":
        return json(difference());
      default:
        return say(404, "text/plain", "nothing");
    }
  }

  close() {
    return new Promise((done) => this.#server.close(done).closeAllConnections());
  }
}
