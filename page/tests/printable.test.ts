import { expect, test } from "vitest";
import { parts, printable, shortened } from "../src/printable";

// The same cases as in crates/profile/src/printable.rs.
test("hostile characters become visible", () => {
  expect(printable("operator<< (größe, 大きさ)")).toBe("operator<< (größe, 大きさ)");
  expect(printable("a\tb\nc\u001b[2J")).toBe("a\\tb\\nc\\u{1b}[2J");
  expect(printable("x\u202ecba")).toBe("x\\u{202e}cba");
  expect(printable("\u007f\u009b31m\u2028")).toBe("\\u{7f}\\u{9b}31m\\u{2028}");
  expect(printable("\u0000\u{e0041}\ufeff")).toBe("\\u{0}\\u{e0041}\\u{feff}");
});

test("escapes are told from what looks like one", () => {
  expect(parts("a\u202eb")).toEqual([
    { text: "a", escaped: false },
    { text: "\\u{202e}", escaped: true },
    { text: "b", escaped: false },
  ]);
  expect(parts("\\u{202e}")).toEqual([{ text: "\\u{202e}", escaped: false }]);
  expect(parts("")).toEqual([]);
});

test("tabs stay in source code", () => {
  expect(parts("\tx\u0000", true)).toEqual([
    { text: "\tx", escaped: false },
    { text: "\\u{0}", escaped: true },
  ]);
});

test("the middle gives way", () => {
  expect(shortened("serialize_everything hash.c:80", 15)).toBe("seriali…sh.c:80");
  expect(shortened("short", 15)).toBe("short");
  expect(shortened("😀".repeat(10), 10)).toBe("😀".repeat(10));
  expect(shortened("😀".repeat(10), 5)).toBe("😀😀…😀😀");
});
