// The source around a region, as it was when it was measured, with what other lines of it are worth.

import { share as shareText, interval, plusMinus, percent } from "./format";
import type { WholeRegion } from "./model";
import { printable, shortened } from "./printable";
import { VERDICT_WORDS } from "./prose";
import type { Row } from "./ranking";
import { change, rowsByFile } from "./state";
import { Long, Name } from "./text";

/** Longer lines are cut, and can be opened. */
const LINE = 400;

export interface ListedLine {
  number: number;
  text: string;
  /** The region's own line. */
  own: boolean;
  /** The line regions here, the best first. */
  rows: Row[];
}

/** The lines of the region's snippet, with the line regions among `others` that fall into it. */
export function lines({ snippet, line, image }: WholeRegion, others: Row[]): ListedLine[] {
  if (!snippet) return [];
  const here = new Map<number, Row[]>();
  for (const row of others) {
    const { kind, line, image: of } = row.region;
    if (kind !== "line" || line === null || of.path !== image.path || of.build_id !== image.build_id) continue;
    here.set(line, [...(here.get(line) ?? []), row]);
  }
  const texts = snippet.text.split(/\r?\n/);
  if (texts.at(-1) === "") texts.pop();
  return texts.map((text, nth) => {
    const number = snippet.first_line + nth;
    return { number, text, own: number === line, rows: here.get(number) ?? [] };
  });
}

export function Listing({ region }: { region: WholeRegion }) {
  const { file } = region;
  const found = lines(region, file === null ? [] : (rowsByFile.value.get(file) ?? []));
  if (found.length === 0) return <p>The source of this region is not in the recording.</p>;
  const hottest = Math.max(0, ...found.flatMap(({ rows }) => rows.map((row) => row.region.share ?? 0)));
  return (
    <section>
      <h3>
        Source: <Name text={file ?? "unknown"} limit={100} />
      </h3>
      <div class="listing" tabIndex={0} role="group" aria-label="Source">
        <table>
          <thead>
            <tr>
              <th scope="col" title="Share of all CPU time">
                share
              </th>
              <th scope="col" title="How much less time the point takes if the line takes 20 % less">
                gain
              </th>
              <th scope="col">line</th>
              <th scope="col">source</th>
            </tr>
          </thead>
          <tbody>
            {found.map(({ number, text, own, rows: [row] }) => (
              <tr key={number} class={own ? "own" : undefined} aria-current={own ? "location" : undefined}>
                <td class="number">{row && <Heat share={row.region.share} hottest={hottest} />}</td>
                <td class="number">{row && <Gain row={row} />}</td>
                <td class="number">
                  {own && "▶ "}
                  {number}
                </td>
                <td>
                  <pre>
                    <Long text={text} limit={LINE} keepTabs />
                  </pre>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

/** The share as a number and a bar; the hottest line of the snippet has a full one. */
function Heat({ share, hottest }: { share: number | null; hottest: number }) {
  const width = hottest > 0 ? (100 * (share ?? 0)) / hottest : 0;
  return (
    <span class="heat">
      <span class="bar" style={{ width: `${width}%` }} />
      <span>{shareText(share)}</span>
    </span>
  );
}

/** What the line is worth at 20 %; leads to it. */
function Gain({ row: { key, label, estimate } }: { row: Row }) {
  const { sign, word } = VERDICT_WORDS[estimate.verdict];
  const known = interval(estimate.effect, estimate.effect_lo, estimate.effect_hi);
  return (
    <button
      type="button"
      class={`verdict ${estimate.verdict}`}
      title={`${word}${known ? `: ${plusMinus(known)}` : ""}`}
      aria-label={`${printable(shortened(label, 80))}: ${word}, gain ${percent(estimate.effect)}`}
      onClick={() => change({ region: key })}
    >
      {sign} {percent(estimate.effect)}
    </button>
  );
}
