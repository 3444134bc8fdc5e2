// Everything about the region that is looked at, for one point.

import { useState } from "preact/hooks";
import { Curve } from "./curve";
import { Evidence } from "./evidence";
import { DETAILS, TABLE } from "./filter";
import { Listing } from "./listing";
import type { Report, WholeEstimate, WholeRegion } from "./model";
import { whole } from "./parts";
import { claim, cost, limit, percentiles } from "./prose";
import type { Source } from "./source";
import { change, pinned, selected, status } from "./state";
import { Long, Prose } from "./text";
import { VerdictMark } from "./verdict";

/** Longer names are cut, and can be opened. */
const NAME = 200;

export function Details({ report, source }: { report: Report; source: Source | null }) {
  const row = selected.value;
  const back = (event: KeyboardEvent): void => {
    if (event.key === "Escape" && !event.defaultPrevented) document.getElementById(TABLE)?.focus();
  };
  if (!row) {
    return (
      <section id={DETAILS} class="details" tabIndex={-1}>
        <p>Choose a region in the table: its curve, its source and what its number rests on appear here.</p>
      </section>
    );
  }
  const { key, label, region, estimate, nth } = row;
  const found = whole(region);
  return (
    <section id={DETAILS} class="details" tabIndex={-1} aria-label="The chosen region" onKeyDown={back}>
      <header>
        <h2>
          <Long key={key} text={label} limit={NAME} />
        </h2>
        <VerdictMark verdict={estimate.verdict} />
        {source && status.value.is === "live" && <Pin key={key} region={region.name} source={source} />}
        <button type="button" title="Nothing is chosen then" onClick={() => change({ region: null })}>
          Close
        </button>
      </header>
      {found ? (
        <Whole key={key} report={report} region={found} estimate={found.points[nth]!} />
      ) : (
        <p>{found === undefined ? "Loading …" : "This part of the page is damaged: write the page again."}</p>
      )}
    </section>
  );
}

function Whole({ report, region, estimate }: { report: Report; region: WholeRegion; estimate: WholeEstimate }) {
  const most = limit(estimate);
  const slow = percentiles(estimate);
  const costs = cost(region);
  return (
    <>
      <p>
        <Prose text={claim(region, estimate)} />
        {most && <> <Prose text={most} /></>}
        {slow && <> <Prose text={slow} /></>}
        {costs && <> <Prose text={costs} /></>}
      </p>
      <Curve estimate={estimate} phase={region.phase} />
      <Listing region={region} />
      <Evidence report={report} region={region} estimate={estimate} />
    </>
  );
}

/** Asks whatif to spend its next experiments here, or to choose by itself again. */
function Pin({ region, source }: { region: string; source: Source }) {
  const [state, setState] = useState<"said" | "asked" | "refused">("said");
  const here = pinned.value === region;
  const word = here ? "Unpin" : "Pin";
  const words = { said: word, asked: `${word} …`, refused: `${word}: not possible, try again` };
  return (
    <button
      type="button"
      title={here ? "Most experiments try this region: let whatif choose again" : "The next experiments try this region"}
      aria-pressed={here}
      disabled={state === "asked"}
      onClick={async () => {
        const wanted = here ? null : region;
        setState("asked");
        const granted = await source.pin(wanted ?? "");
        if (granted) pinned.value = wanted;
        setState(granted ? "said" : "refused");
      }}
    >
      {words[state]}
    </button>
  );
}
