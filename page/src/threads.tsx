// What threads do while nothing is delayed: a strip for each kind of thread, where there are several.

import { share } from "./format";
import type { Threads as Group } from "./model";
import { printable } from "./printable";

/** More are only counted. */
const SHOWN = 12;
const [WIDTH, HEIGHT] = [200, 12];

/** In the order in which they are drawn: what a thread does, and the share of its time. */
const PARTS = [
  ["running", "runs"],
  ["for_threads", "waits for other threads"],
  ["external", "waits for something outside the program, or for a time"],
  ["runnable", "wants a CPU that others have"],
] as const;

/** Nothing where there was only one. */
export function Threads({ threads }: { threads: Group[] }) {
  if (threads.length === 0) return null;
  const more = threads.length - SHOWN;
  return (
    <section class="threads numbers" aria-label="what threads do while nothing is delayed">
      <h2>What threads do while nothing is delayed</h2>
      <table>
        <thead>
          <tr>
            <th>thread</th>
            <th aria-hidden="true" />
            {PARTS.map(([part, words]) => (
              <th class="number" key={part}>
                <svg class="strip" width={10} height={10} aria-hidden="true">
                  <rect class={part} width={10} height={10} />
                </svg>{" "}
                {words}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {threads.slice(0, SHOWN).map((group) => (
            <tr key={group.title}>
              <td>
                <code>{printable(group.title)}</code>
              </td>
              <td aria-hidden="true">
                <Strip group={group} />
              </td>
              {PARTS.map(([part]) => (
                <td class="number" key={part}>
                  {share(group[part])}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {more > 0 && <p class="legend">… and {more} more.</p>}
    </section>
  );
}

/** As wide as all of the time; what is not known is left blank. */
function Strip({ group }: { group: Group }) {
  let begin = 0;
  return (
    <svg class="strip" width={WIDTH} height={HEIGHT}>
      {PARTS.map(([part]) => {
        const x = begin;
        begin += group[part];
        return <rect class={part} key={part} x={x * WIDTH} width={group[part] * WIDTH} height={HEIGHT} />;
      })}
    </svg>
  );
}
