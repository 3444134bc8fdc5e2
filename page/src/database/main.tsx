// The page of a database starts here.

import "../style.css";
import "../flame.css";
import "./database.css";
import { effect } from "@preact/signals";
import { render } from "preact";
import { printable, shortened } from "../printable";
import { followTheme } from "../theme";
import type { Beginning, FlamePage } from "./answers";
import { App, titleOf } from "./app";
import { GONE } from "./ask";
import { alone, beginning, begin, beginFlame, trouble, view } from "./state";

const NO_DATA = "There is nothing in this page. Show a database with: whatif open --db DIR";

/** What the page has, or what the whatif that serves it has. */
async function found(): Promise<unknown> {
  const embedded: unknown = JSON.parse(document.getElementById("whatif-data")?.textContent ?? "null");
  if (embedded !== null) return embedded;
  if (location.protocol === "file:") return null;
  const response = await fetch(`data.json${location.search}`);
  return response.ok ? response.json() : null;
}

const kindOf = (value: unknown): unknown => (typeof value === "object" && value !== null ? (value as { kind?: unknown }).kind : undefined);
const isBeginning = (value: unknown): value is Beginning => kindOf(value) === "database";
const isFlame = (value: unknown): value is FlamePage => kindOf(value) === "flame";

followTheme(() => view.value?.theme ?? "auto");
effect(() => {
  const of = beginning.value;
  document.title = alone.value ? `whatif flame: ${printable(titleOf(alone.value))}` : of ? `${printable(shortened(of.database, 40))} – whatif` : "whatif";
});
addEventListener("keydown", (event) => {
  const typed = event.target instanceof HTMLElement && event.target.matches("input, select, textarea");
  if (event.key !== "/" || typed || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  document.getElementById("search")?.focus();
});
found().then(
  (value) => {
    if (isFlame(value)) beginFlame(value);
    else if (isBeginning(value)) begin(value, (address, init) => fetch(address, init), location.search);
    else trouble.value = NO_DATA;
  },
  (error: unknown) => (trouble.value = error instanceof SyntaxError ? "The data of this page is damaged: write the page again." : GONE),
);
render(<App />, document.getElementById("page")!);
