// The page of a database: a map over time, and below it what a span is made of. And the page of a flame graph alone.

import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { printable } from "../printable";
import { ThemeButton } from "../theme";
import { Warnings } from "../warnings";
import { FILTERS, type Filters, type Flame } from "./answers";
import { type Answered, valueOf } from "./ask";
import { type FlameNode, sums, tree } from "./flames";
import { HeatMap } from "./heat";
import { Account, Chosen, Graph, Panel } from "./panel";
import { alone, answer, beginning, change, heat, isAlone, trouble, view, zoom } from "./state";
import { SumTable } from "./tables";

/** So many machines are named. */
const NAMED = 4;
const ROWS: Record<string, string> = { machine: "host" };

export function App() {
  if (alone.value && view.value) return <FlameAlone flame={alone.value} />;
  if (trouble.value || !beginning.value || !view.value) {
    return (
      <main class="empty">
        <h1>whatif</h1>
        <p role="status">{trouble.value ?? "Loading …"}</p>
      </main>
    );
  }
  return (
    <>
      <header class="controls">
        <Head />
      </header>
      <main class="database">
        <section>
          <Tools />
          <Shown of={heat.value}>{(map, busy) => <HeatMap heat={map} busy={busy} />}</Shown>
        </section>
        <section>
          <Chosen />
          <Shown of={answer.value}>{(found, busy) => <Panel answer={found} busy={busy} />}</Shown>
        </section>
      </main>
      <footer>
        <ThemeButton now={view.value.theme} onChange={(theme) => change({ theme })} />
      </footer>
    </>
  );
}

/** What `whatif flame` writes. */
function FlameAlone({ flame }: { flame: Flame }) {
  const root = useMemo(() => tree(flame), [flame]);
  const [focus, setFocus] = useState<FlameNode>(root);
  const functions = useMemo(() => sums(flame, focus), [flame, focus]);
  const { heading, before } = flame;
  // On-CPU and off-CPU samples stand for different times.
  const isTime = heading.event.includes("off-cpu");
  return (
    <>
      <header class="controls">
        <div class="database-head">
          <h1>{printable(titleOf(flame))}</h1>
          {before && <p class="account">B, compared with A: {printable(before.asked)}</p>}
        </div>
      </header>
      <main class="database panel alone">
        <Account heading={{ ...heading, samples: root.total, nanos_per_sample: isTime ? null : heading.nanos_per_sample }} />
        <Warnings warnings={heading.warnings} />
        <div class="panel-in">
          <Graph flame={flame} onZoom={setFocus} />
          <div class="panel-table">
            <h3>{before ? "What is different" : "What costs most"}</h3>
            <SumTable
              sums={functions}
              now={root.total}
              before={before && root.was}
              wanted={view.value!.search}
              onChoose={(search) => change({ search })}
            />
          </div>
        </div>
      </main>
      <footer>
        <ThemeButton now={view.value!.theme} onChange={(theme) => change({ theme })} />
      </footer>
    </>
  );
}

/** What it is of. */
export const titleOf = ({ heading, time }: Flame): string => [`${heading.event} on ${heading.machines.join(", ")}`, time].filter(Boolean).join(", ");

/** What is known, or why nothing is. */
function Shown<T>({ of, children }: { of: Answered<T>; children(value: T, busy: boolean): ComponentChildren }) {
  if (of.is === "refused") {
    return (
      <p class="refused" role="alert">
        {of.why}
      </p>
    );
  }
  const value = valueOf(of);
  return value === null ? <p class="loading" role="status">Loading …</p> : <>{children(value, of.is === "loading")}</>;
}

function Head() {
  const of = valueOf(heat.value);
  const named = of?.heading.machines ?? [];
  const more = named.length > NAMED ? ` and ${named.length - NAMED} more` : "";
  const machines = `${named.slice(0, NAMED).join(", ")}${more}`;
  const what = of && of.heading.nanos_per_sample === null ? of.heading.event : "CPU time";
  return (
    <div class="database-head">
      <h1>
        {what}{machines && ` on ${printable(machines)}`}
      </h1>
      <p class="account">
        {of && `${printable(of.heading.event)}, ${of.heading.cpus} CPUs, `}
        <code>{printable(beginning.value!.database)}</code>
      </p>
    </div>
  );
}

function Tools() {
  const now = view.value!;
  const { by } = beginning.value!;
  const alone = isAlone.value;
  const isZoomed = now.since !== null || now.until !== null;
  return (
    <div class="map-tools">
      <label>
        CPU by{" "}
        <select id="by" value={now.by} onChange={(event) => change({ by: event.currentTarget.value })}>
          {by.map((row) => (
            <option key={row} value={row}>
              {ROWS[row] ?? row}
            </option>
          ))}
        </select>
      </label>
      {!alone && (
        <>
          <Restrict filters={now.filters} />
          <label>
            <input type="checkbox" checked={now.idle} onChange={(event) => change({ idle: event.currentTarget.checked })} /> idle CPUs, too
          </label>
          <button type="button" disabled={!isZoomed} onClick={() => zoom(null)}>
            Show all time
          </button>
        </>
      )}
      <Restrictions filters={now.filters} alone={alone} />
    </div>
  );
}

const OFFERED = ["process", "cgroup", "image", "machine", "where"] as const;

/** A pattern that samples must match. */
function Restrict({ filters }: { filters: Filters }) {
  return (
    <form
      class="restrict"
      onSubmit={(event) => {
        event.preventDefault();
        const form = event.currentTarget;
        const [what, pattern] = [form.elements.namedItem("what") as HTMLSelectElement, form.elements.namedItem("pattern") as HTMLInputElement];
        const text = pattern.value.trim();
        if (!text) return;
        change({ filters: { ...filters, [what.value]: text } });
        pattern.value = "";
      }}
    >
      <label>
        Only{" "}
        <select name="what">
          {OFFERED.map((what) => (
            <option key={what} value={what}>
              {ROWS[what] ?? what}
            </option>
          ))}
        </select>
      </label>{" "}
      <input name="pattern" type="text" size={14} maxLength={400} placeholder="nginx*" aria-label="Pattern: * stands for any text" spellcheck={false} />
    </form>
  );
}

function Restrictions({ filters, alone }: { filters: Filters; alone: boolean }) {
  const set = FILTERS.filter((name) => filters[name] !== "");
  if (set.length === 0) return null;
  return (
    <ul class="restrictions" aria-label="Only these samples are shown">
      {set.map((name) => (
        <li key={name}>
          {ROWS[name] ?? name} {printable(filters[name])}
          {!alone && (
            <button type="button" aria-label={`Leave ${name} out`} onClick={() => change({ filters: { ...filters, [name]: "" } })}>
              ×
            </button>
          )}
        </li>
      ))}
    </ul>
  );
}
