// Time by program, where several ran as one; what threads do; and the time of Go's runtime.

import { duration, share } from "./format";
import type { ProgramTime, Report } from "./model";
import { printable } from "./printable";
import { Prose } from "./text";
import { Threads } from "./threads";

/** More are only counted. */
const SHOWN = 20;

export function Times({ report }: { report: Report }) {
  return (
    <>
      <Programs programs={report.programs ?? []} />
      <Threads threads={report.threads ?? []} />
      {report.go && <p class="go">{ofGo(report.go)}</p>}
    </>
  );
}

/** A sentence. */
const ofGo = (go: NonNullable<Report["go"]>): string =>
  `Go's garbage collector took ${share(go.collector_share)} of the CPU time, the rest of its runtime ${share(go.runtime_share)}.`;

/** Nothing where there was only one. */
function Programs({ programs }: { programs: ProgramTime[] }) {
  if (programs.length === 0) return null;
  const more = programs.length - SHOWN;
  return (
    <section class="programs numbers" aria-label="CPU time by program">
      <h2>CPU time by program</h2>
      <table>
        <thead>
          <tr>
            <th>program</th>
            <th class="number">share</th>
            <th class="number">CPU time</th>
            <th />
          </tr>
        </thead>
        <tbody>
          {programs.slice(0, SHOWN).map((program) => (
            <tr key={`${program.title} ${program.obstacle}`}>
              <td>
                <code>{printable(program.title)}</code>
              </td>
              <td class="number">{share(program.share)}</td>
              <td class="number">{duration(program.cpu_ns)}</td>
              <td>{program.obstacle !== null && <Prose text={obstacle(program.obstacle)} />}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {more > 0 && <p class="legend">… and {more} more.</p>}
    </section>
  );
}

const obstacle = (why: string): string => `at least; not followed (${printable(why)}): counts as the world`;
