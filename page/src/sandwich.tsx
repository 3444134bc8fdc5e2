// One function: who calls it above, what it calls below, and a table to choose another.

import { useMemo, useState } from "preact/hooks";
import { Boxes } from "./boxes";
import { around, estimateOf, nameOf, type Node, placeOf, type Sums, TRUNCATED } from "./calls";
import { percent } from "./format";
import { VERDICT_WORDS } from "./prose";
import { descending } from "./ranking";
import { Name } from "./text";
import { lookOf, type Shown, worthInWords } from "./worth";

/** The table has the functions with most samples; the others are found by searching. */
const LISTED = 40;

interface Props extends Shown {
  of: number;
  functions: Sums[];
  total: number[];
  found: Set<number> | null;
  onChoose(of: number): void;
}

export function Sandwich({ of, functions, total, found, onChoose, ...shown }: Props) {
  const { stacks, report, point } = shown;
  const { callers, callees } = useMemo(() => around(stacks, of, total), [stacks, of, total]);
  const whole = stacks.samples;
  const name = nameOf(stacks, of);
  const estimate = estimateOf(report, stacks, callees, point);
  const own = functions.find((sum) => sum.function === of)?.own ?? 0;
  const look = lookOf(shown, whole);
  const choose = (node: Node): void => onChoose(node.function);
  return (
    <div class="sandwich">
      <div class="calls-around">
        <h3>
          Around <Name text={name} />
        </h3>
        <p>
          On the stack of {percent(callees.total / whole, 1)} of the samples, {percent(own / whole, 1)} in its own code
          {name !== TRUNCATED && <>; {worthInWords(estimate)}</>}. Samples are counted here, and CPU time in the rows above.
        </p>
        <p class="legend">{callers.inside.length > 0 ? "Its callers: each calls the one below it." : "Nothing calls it."}</p>
        <Boxes look={look} focus={callers} found={null} upwards label="Callers" onChoose={choose} />
        <p class="legend">{callees.inside.length > 0 ? "What it calls: each is called by the one above it." : "It calls nothing."}</p>
        <Boxes look={look} focus={callees} found={null} label="Callees" onChoose={choose} />
      </div>
      <Functions {...shown} of={of} functions={found ? functions.filter((sum) => found.has(sum.function)) : functions} onChoose={onChoose} />
    </div>
  );
}

type Order = "own" | "total" | "gain";

function Functions({ of, functions, onChoose, ...shown }: Omit<Props, "total" | "found">) {
  const { stacks, report, point } = shown;
  const [order, setOrder] = useState<Order>("own");
  const listed = functions
    .map((sum) => {
      const estimate = estimateOf(report, stacks, { function: sum.function, lines: new Map() }, point);
      return { ...sum, estimate, gain: estimate?.effect ?? null };
    })
    .sort((a, b) => descending(a[order], b[order]))
    .slice(0, LISTED);
  const head = (column: Order, title: string, words: string) => (
    <th scope="col" aria-sort={order === column ? "descending" : "none"} title={title}>
      <button type="button" onClick={() => setOrder(column)}>
        {words}
        {order === column && " ▾"}
      </button>
    </th>
  );
  return (
    <div class="calls-list">
      <table>
        <thead>
          <tr>
            {head("own", "Samples in its own code", "self")}
            {head("total", "Samples with it on the stack", "total")}
            {head("gain", "What the point gains if it is 20 % faster", "gain")}
            <th scope="col">function</th>
          </tr>
        </thead>
        <tbody>
          {listed.map(({ function: nth, own, total, estimate }) => (
            <tr key={nth} aria-current={nth === of ? "true" : undefined}>
              <td class="number">{percent(own / stacks.samples, 1)}</td>
              <td class="number">{percent(total / stacks.samples, 1)}</td>
              <td class={`number verdict ${estimate?.verdict ?? ""}`} title={worthInWords(estimate)}>
                {estimate ? `${VERDICT_WORDS[estimate.verdict].sign} ${percent(estimate.effect)}` : ""}
              </td>
              <td>
                <button type="button" title={placeOf(stacks, nth) || undefined} onClick={() => onChoose(nth)}>
                  <Name text={nameOf(stacks, nth)} limit={60} />
                </button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {listed.length < functions.length && <p class="legend">{functions.length - listed.length} more: search for them.</p>}
    </div>
  );
}
