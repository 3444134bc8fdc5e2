// The flame graph of the program's stacks, coloured by what more speed is worth, and below it the sandwich of one function.

import { useMemo, useState } from "preact/hooks";
import { Boxes, RuntimeFrames } from "./boxes";
import { type Node, runtimeCalls, samplesOf, search, sums, totals, tree } from "./calls";
import "./flame.css";
import { percent } from "./format";
import type { Point, Report, Stacks } from "./model";
import { type Modules, modulesOf } from "./modules";
import { wholeStacks } from "./parts";
import { printable } from "./printable";
import { Sandwich } from "./sandwich";
import { pointNumber } from "./state";
import { Name, Prose } from "./text";
import { lookOf, type Shown } from "./worth";

/** Nothing for recordings without stacks. */
export function Flame({ report }: { report: Report }) {
  if (!report.stacks) return null;
  const stacks = wholeStacks(report.stacks);
  return (
    <section class="stacks">
      <h2>Who calls whom</h2>
      {stacks ? (
        <Graph report={report} stacks={stacks} point={pointNumber.value} />
      ) : (
        <p role="status">{stacks === null ? "The stacks in this page are damaged: write the page again." : "Loading …"}</p>
      )}
    </section>
  );
}

function Graph({ report, stacks, point }: Omit<Shown, "modules">) {
  const total = useMemo(() => totals(stacks), [stacks]);
  const [unfolded, setUnfolded] = useState(false);
  const runtime = useMemo(() => runtimeCalls(stacks), [stacks]);
  const root = useMemo(() => tree(stacks, total, unfolded ? [] : runtime), [stacks, total, runtime, unfolded]);
  const functions = useMemo(() => sums(stacks, total), [stacks, total]);
  const modules = useMemo(() => modulesOf(report, stacks, point, functions), [report, stacks, point, functions]);
  const shown = { report, stacks, point, modules };
  const [zoomed, setZoomed] = useState<Node>(root);
  const [chosen, setChosen] = useState<number | null>(null);
  const [wanted, setWanted] = useState("");
  const found = useMemo(() => search(stacks, wanted), [stacks, wanted]);
  // Of another report, as while it is live: the whole program.
  const focus = rootOf(zoomed) === root ? zoomed : root;
  const program = (report.sessions.at(-1)?.program ?? "").split("/").at(-1)!;
  const hottest = [...functions].sort((a, b) => b.own - a.own)[0]?.function ?? null;
  const of = chosen !== null && chosen < stacks.functions.length ? chosen : hottest;
  const choose = (node: Node): void => {
    setZoomed(node);
    if (node.function >= 0) setChosen(node.function);
  };
  if (root.total === 0) return <p>No samples were taken.</p>;
  return (
    <div
      onKeyDown={(event) => {
        if (event.key !== "Escape" || (focus === root && !wanted)) return;
        setZoomed(root);
        setWanted("");
        event.preventDefault();
        event.stopPropagation();
      }}
    >
      <div class="calls-tools">
        <label>
          Search{" "}
          <input
            type="search"
            value={wanted}
            placeholder="function or file"
            onInput={(event) => setWanted(event.currentTarget.value)}
            onKeyDown={(event) => event.key === "/" && event.stopPropagation()}
          />
        </label>
        <output>
          {found && `${found.size} of ${functions.length} functions, on ${percent(samplesOf(root, found) / root.total, 1)} of the stacks`}
        </output>
        <button type="button" disabled={focus === root} onClick={() => setZoomed(root)}>
          Show the whole program
        </button>
        <RuntimeFrames runtime={runtime} drawn={unfolded} onChange={setUnfolded} />
      </div>
      <Boxes
        look={lookOf(shown, root.total, program)}
        focus={focus}
        found={found}
        label="Flame graph"
        onChoose={choose}
      />
      <Legend stacks={stacks} point={report.points[point]} modules={modules} />
      {of !== null && <Sandwich {...shown} of={of} functions={functions} total={total} found={found} onChoose={setChosen} />}
    </div>
  );
}

function rootOf(node: Node): Node {
  let root = node;
  while (root.parent) root = root.parent;
  return root;
}

function Legend({ stacks, point, modules }: { stacks: Stacks; point: Point | undefined; modules: Modules | null }) {
  const { samples, truncated_samples, missing_samples } = stacks;
  const swatch = (kind: string, much: number) => <span class={`call key ${kind}`} style={{ "--much": `${much}%` }} />;
  const all = samples + missing_samples;
  const [better, worse] = point?.kind === "latency" ? ["is shorter", "is longer"] : ["takes less time", "takes more time"];
  const name = point ? `${point.kind === "latency" ? "the latency of " : ""}\`${printable(point.name)}\`` : "each unit of work";
  return (
    <ul class="legend">
      <li>Width: samples. Each box is called by the one above it.</li>
      {modules ? (
        [...modules].map(([name, nth]) => (
          <li key={name}>
            {swatch(`module m${nth}`, 0)} <Name text={name} limit={40} />
          </li>
        ))
      ) : (
        <>
          <li>
            If it were 20 % faster: {swatch("helps", 30)}
            {swatch("helps", 100)} ▲ <Prose text={`${name} ${better}`} />
          </li>
          <li>{swatch("no-effect", 0)} = nothing changes</li>
          <li>
            {swatch("hurts", 30)}
            {swatch("hurts", 100)} ▼ it {worse}
          </li>
          <li>{swatch("", 0)} not known</li>
        </>
      )}
      {truncated_samples > 0 && (
        <li>
          {swatch("truncated", 0)} {percent(truncated_samples / samples, 1)} of the stacks end before their outermost frame
        </li>
      )}
      {missing_samples > 0 && <li>{percent(missing_samples / all, 1)} of the samples have no stack</li>}
    </ul>
  );
}
