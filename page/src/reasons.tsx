// Below the pieces of code: why it is so, and what to type next.

import { Command } from "./command";
import type { Next } from "./model";
import { Prose } from "./text";

export function Reasons({ causes, next }: { causes: string[]; next: Next[] }) {
  if (causes.length === 0 && next.length === 0) return null;
  return (
    <div class="reasons">
      {causes.length > 0 && (
        <section>
          <h2>Why</h2>
          <ul>
            {causes.map((cause) => (
              <li key={cause}>
                <Prose text={cause} />
              </li>
            ))}
          </ul>
        </section>
      )}
      {next.length > 0 && (
        <section>
          <h2>What next</h2>
          <ol>
            {next.map(({ step, why, command }) => (
              <li key={step}>
                <Prose text={`${why[0]?.toUpperCase() ?? ""}${why.slice(1)}:`} />
                <Command text={command} />
              </li>
            ))}
          </ol>
        </section>
      )}
    </div>
  );
}
