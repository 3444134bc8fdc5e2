// Questions to the whatif that serves the page. Of one kind only the newest counts: older ones are given up.

import { type Signal, signal } from "@preact/signals";

export type Answered<T> =
  | { is: "loading"; before: T | null }
  | { is: "known"; value: T }
  | { is: "refused"; why: string };

export type Fetch = (address: string, init: { signal: AbortSignal }) => Promise<{
  ok: boolean;
  json(): Promise<unknown>;
  text(): Promise<string>;
}>;

export const GONE = "whatif does not answer: is it still running? Load the page again when it is.";

export class Line<T> {
  readonly answer: Signal<Answered<T>> = signal({ is: "loading", before: null });
  #asked: string | null = null;
  #open: AbortController | null = null;

  /** `search`: what the address of the page says, which has the token. */
  constructor(
    private readonly fetch: Fetch,
    private readonly search: string,
  ) {}

  /** Asks, unless it is what was asked last. */
  ask(path: string, parameters: string): void {
    const rest = [parameters, this.search.replace(/^\?/, "")].filter(Boolean).join("&");
    const address = `${path}?${rest}`;
    if (address === this.#asked) return;
    this.#asked = address;
    this.#open?.abort();
    const open = (this.#open = new AbortController());
    this.answer.value = { is: "loading", before: valueOf(this.answer.peek()) };
    void this.#fetch(address, open);
  }

  async #fetch(address: string, open: AbortController): Promise<void> {
    let found: Answered<T>;
    try {
      const response = await this.fetch(address, { signal: open.signal });
      found = response.ok ? { is: "known", value: (await response.json()) as T } : { is: "refused", why: await response.text() };
    } catch {
      found = { is: "refused", why: GONE };
    }
    if (open !== this.#open) return;
    // What failed may be asked again.
    if (found.is === "refused") this.#asked = null;
    this.answer.value = found;
  }
}

/** What is known, or was before it was asked anew. */
export const valueOf = <T>(answered: Answered<T>): T | null =>
  answered.is === "known" ? answered.value : answered.is === "loading" ? answered.before : null;
