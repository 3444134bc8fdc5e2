// Whether the page is laid out for paper just now.

import { signal } from "@preact/signals";

export const printing = signal(false);

/** From now on it says so. */
export function followPrinter(): void {
  addEventListener("beforeprint", () => (printing.value = true));
  addEventListener("afterprint", () => (printing.value = false));
}
