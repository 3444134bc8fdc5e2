// Where the report comes from: the page itself, or the whatif that serves it. Nothing else is ever asked, and nothing
// is sent but the name of a region to pin.

import type { Comparison } from "./comparison";
import { check, type Report } from "./model";

export type Status =
  | { is: "loading" }
  /** There is nothing to show, and why. */
  | { is: "empty"; why: string }
  /** What is shown is all there is. */
  | { is: "recorded" }
  /** It still runs, and more will come. */
  | { is: "live" }
  /** It was live; the connection is gone, and is tried again. */
  | { is: "lost" }
  /** It was live, and the program has ended. */
  | { is: "ended" };

/** What the page needs of a browser, so that tests can do without one. */
export interface World {
  /** The text of the data element, if there is one. */
  embedded: string | null;
  protocol: string;
  search: string;
  fetch(address: string, init?: { method: string }): Promise<{ ok: boolean; json(): Promise<unknown> }>;
  events(address: string): EventStream;
}

export interface EventStream {
  onopen: ((event: never) => void) | null;
  onmessage: ((event: MessageEvent<string>) => void) | null;
  onerror: ((event: never) => void) | null;
  readonly readyState: number;
  close(): void;
}

const CLOSED = 2;

export interface Source {
  /** Asks that whatif spends its next experiments on the region, on none with an empty name; false if it cannot. */
  pin(region: string): Promise<boolean>;
}

const NO_DATA =
  "There is no report in this page. Write one with: whatif export --format html RECORDING, and open the file it wrote.";

/** Calls `show` with each report as it comes, `tell` whenever the status changes, and `pinned` when another region is pinned, or none. */
export function connect(
  world: World,
  show: (report: Report | Comparison) => void,
  tell: (status: Status) => void,
  pinned: (region: string | null) => void,
): Source {
  const take = (value: unknown): boolean => {
    const report = check(value);
    if (typeof report === "string") {
      tell({ is: "empty", why: report });
      return false;
    }
    show(report);
    return true;
  };

  const subscribe = (): void => {
    const stream = world.events(`events${world.search}`);
    let offered = false;
    stream.onopen = () => {
      offered = true;
      tell({ is: "live" });
    };
    stream.onmessage = ({ data }) => {
      const value = parsed(data);
      if (hasEnded(value)) {
        stream.close();
        tell({ is: "ended" });
      } else if (isPinned(value)) {
        pinned(typeof value.pinned === "string" ? value.pinned : null);
      } else if (value !== undefined) {
        take(value);
      }
    };
    stream.onerror = () => {
      if (offered) {
        // The browser tries again by itself, unless it was told not to.
        tell(stream.readyState === CLOSED ? { is: "ended" } : { is: "lost" });
      } else {
        stream.close();
      }
    };
  };

  const ask = async (): Promise<void> => {
    try {
      const response = await world.fetch(`data.json${world.search}`);
      const value = response.ok ? await response.json() : null;
      if (value === null) return tell({ is: "empty", why: NO_DATA });
      if (!take(value)) return;
    } catch {
      return tell({ is: "empty", why: "whatif does not answer: is it still running? Load the page again when it is." });
    }
    tell({ is: "recorded" });
    subscribe();
  };

  const embedded = world.embedded === null ? null : parsed(world.embedded);
  if (embedded === undefined) tell({ is: "empty", why: "The data of this page is damaged: write the page again." });
  else if (embedded !== null) {
    if (take(embedded)) tell({ is: "recorded" });
  } else if (world.protocol === "file:") tell({ is: "empty", why: NO_DATA });
  else void ask();

  return {
    pin: (region) => {
      // What was asked for the page (a token, say) is asked for this, too.
      const rest = world.search.replace("?", "&");
      return world.fetch(`pin?region=${encodeURIComponent(region)}${rest}`, { method: "POST" }).then(
        (response) => response.ok,
        () => false,
      );
    },
  };
}

/** Undefined if it is not JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function hasEnded(value: unknown): boolean {
  return typeof value === "object" && value !== null && "ended" in value;
}

function isPinned(value: unknown): value is { pinned: unknown } {
  return typeof value === "object" && value !== null && "pinned" in value;
}
