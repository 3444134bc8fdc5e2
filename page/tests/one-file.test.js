import { expect, test } from "vitest";
import { assemble, hashOf, policy } from "../build/one-file.js";
import { fill } from "../scripts/fill.mjs";

const HTML = `<!doctype html>
<html><head>
<meta charset="utf-8" />
<script type="module" crossorigin src="/assets/x.js"></script>
<link rel="stylesheet" crossorigin href="/assets/x.css">
</head><body><script type="application/json" id="whatif-data">null</script>
</body></html>`;

test("script and style stand inside, under their hashes, and nothing else", () => {
  const page = assemble(HTML, "let a = '$&';", "b{}");
  expect(page).toContain("<script>let a = '$&';</script>");
  expect(page).toContain("<style>b{}</style>");
  expect(page).not.toContain("/assets/");
  expect(page.indexOf("Content-Security-Policy")).toBeLessThan(page.indexOf("<style>"));
  expect(page).toContain(policy("let a = '$&';", "b{}"));
});

// The hash of the empty text is known.
test("hashes are those of browsers", () => {
  expect(hashOf("")).toBe("'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='");
});

test("a script that would end its own element is refused", () => {
  expect(() => assemble(HTML, "'</script>'", "")).toThrow();
  expect(() => assemble(HTML, "'<!--'", "")).toThrow();
  expect(() => assemble("<html></html>", "a", "b")).toThrow();
});

test("data cannot end its element", () => {
  const filled = fill(HTML, JSON.stringify({ name: "</script>$&<!--" }));
  expect(filled).toContain('{"name":"\\u003c/script>$&\\u003c!--"}');
});
