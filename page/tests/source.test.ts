import { expect, test } from "vitest";
import { connect, type EventStream, type Status, type World } from "../src/source";

const REPORT = {
  version: 1,
  sentence: "one",
  sessions: [],
  points: [],
  regions: [],
  drift: [],
  run_drift: [],
  left_out: {},
  doubts: {},
  warnings: [],
};

/** A browser that answers `answers`, and what the page did with it. */
function browser(part: Partial<World>, answers: Record<string, unknown> = {}) {
  const asked: string[] = [];
  const shown: string[] = [];
  const told: Status["is"][] = [];
  const pinned: (string | null)[] = [];
  const streams: EventStream[] = [];
  const world: World = {
    embedded: "null",
    protocol: "http:",
    search: "?token=7",
    fetch: async (address, init) => {
      asked.push(`${init?.method ?? "GET"} ${address}`);
      const answer = answers[address];
      return { ok: answer !== undefined, json: async () => answer };
    },
    events: (address) => {
      asked.push(`EVENTS ${address}`);
      const stream: EventStream = { onopen: null, onmessage: null, onerror: null, readyState: 0, close: () => asked.push("CLOSE") };
      streams.push(stream);
      return stream;
    },
    ...part,
  };
  const source = connect(world, (report) => shown.push(report.sentence), (status) => told.push(status.is), (region) => pinned.push(region));
  const rest = () => new Promise((resolve) => setTimeout(resolve));
  const message = (value: unknown) => streams[0]!.onmessage!({ data: JSON.stringify(value) } as MessageEvent<string>);
  return { asked, shown, told, pinned, streams, source, rest, message };
}

test("what is in the page is shown, and nobody is asked", async () => {
  const of = browser({ embedded: JSON.stringify(REPORT) });
  await of.rest();
  expect(of).toMatchObject({ asked: [], shown: ["one"], told: ["recorded"] });
});

test("a file without data asks nobody", async () => {
  const of = browser({ protocol: "file:" });
  await of.rest();
  expect(of).toMatchObject({ asked: [], shown: [], told: ["empty"] });
});

test("damaged and unknown data is said to be so", () => {
  expect(browser({ embedded: "{" }).told).toEqual(["empty"]);
  expect(browser({ embedded: "[1]" }).told).toEqual(["empty"]);
  expect(browser({ embedded: '{"version":2}' }).told).toEqual(["empty"]);
  expect(browser({ embedded: '{"version":1}' }).told).toEqual(["empty"]);
});

test("a served page asks its own server, and follows it to the end", async () => {
  const of = browser({}, { "data.json?token=7": REPORT, "pin?region=a%26b&token=7": {} });
  await of.rest();
  expect(of.asked).toEqual(["GET data.json?token=7", "EVENTS events?token=7"]);
  expect(of.told).toEqual(["recorded"]);
  of.streams[0]!.onopen!(undefined as never);
  of.message({ ...REPORT, sentence: "two" });
  expect(await of.source.pin("a&b")).toBe(true);
  expect(await of.source.pin("unknown")).toBe(false);
  of.message({ pinned: null });
  of.message({ pinned: "a&b" });
  expect(of.pinned).toEqual([null, "a&b"]);
  of.streams[0]!.onerror!(undefined as never);
  of.streams[0]!.onopen!(undefined as never);
  of.message({ ended: true });
  expect(of.shown).toEqual(["one", "two"]);
  expect(of.told).toEqual(["recorded", "live", "lost", "live", "ended"]);
  expect(of.asked.at(-1)).toBe("CLOSE");
});

test("a server without events is a recording", async () => {
  const of = browser({}, { "data.json?token=7": REPORT });
  await of.rest();
  of.streams[0]!.onerror!(undefined as never);
  expect(of.told).toEqual(["recorded"]);
  expect(of.asked.at(-1)).toBe("CLOSE");
});

test("a server without data, or none at all", async () => {
  const none = browser({});
  await none.rest();
  expect(none.told).toEqual(["empty"]);
  const dead = browser({ fetch: () => Promise.reject(new Error("refused")) });
  await dead.rest();
  expect(dead.told).toEqual(["empty"]);
});
