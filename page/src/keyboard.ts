// Keys that work wherever the focus is. Those of a table work inside it: see grid.tsx.

import { FILTER, TABLE } from "./filter";
import { change, comparison, selectedKey, shownKeys, view } from "./state";

export type Place = "filter" | "nowhere" | "elsewhere";
export type Action = "focus-filter" | "clear-filter" | "focus-table" | "next" | "previous" | "close";

/** What a key does; null for nothing of ours. */
export function action(key: string, place: Place, filter: string): Action | null {
  if (place === "filter") {
    if (key === "Escape") return filter ? "clear-filter" : "focus-table";
    if (key === "Enter" || key === "ArrowDown") return "focus-table";
    return null;
  }
  if (key === "/") return "focus-filter";
  if (place !== "nowhere") return null;
  const moves: Record<string, Action> = { ArrowDown: "next", ArrowUp: "previous", Enter: "focus-table", Escape: "close" };
  return moves[key] ?? null;
}

export function followKeys(): void {
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    const found = action(event.key, placeOf(event.target), view.peek().filter);
    if (!found || (isClosed() && found !== "focus-filter")) return;
    event.preventDefault();
    act(found);
  });
}

function placeOf(target: EventTarget | null): Place {
  if (!(target instanceof HTMLElement) || target === document.body) return "nowhere";
  return target.id === FILTER ? "filter" : "elsewhere";
}

/** Whether the table cannot be seen: then its keys do what they do in any page. */
const isClosed = (): boolean => comparison.peek() === null && !view.peek().details;

function act(what: Action): void {
  const focus = (id: string): void => document.getElementById(id)?.focus();
  switch (what) {
    case "focus-filter":
      if (isClosed()) change({ details: true });
      // What was just opened is drawn by then.
      queueMicrotask(() => focus(FILTER));
      break;
    case "clear-filter":
      change({ filter: "" });
      break;
    case "focus-table":
      focus(TABLE);
      break;
    case "close":
      change({ region: null });
      break;
    case "next":
    case "previous":
      focus(TABLE);
      step(what === "next" ? 1 : -1);
  }
}

function step(by: 1 | -1): void {
  const keys = shownKeys.peek();
  const at = keys.indexOf(selectedKey.peek() ?? "");
  const key = keys[Math.min(Math.max(at + by, 0), keys.length - 1)];
  if (key !== undefined) change({ region: key });
}
