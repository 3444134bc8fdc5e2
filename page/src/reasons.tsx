// Below the pieces of code, or above them where there is no progress point: why it is so, and what to type next.

import { Command } from "./command";
import type { Next } from "./model";
import { Prose } from "./text";

export function Reasons({ causes, next }: { causes: string[]; next: Next[] }) {
  // It is open.
  const steps = next.filter(({ step }) => step !== "open");
  if (causes.length === 0 && steps.length === 0) return null;
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
      {steps.length > 0 && (
        <section>
          <h2>{steps.some(({ step }) => step === "point") ? "Progress points to try" : "What next"}</h2>
          <ol>
            {steps.map(({ why, command }) => (
              <li key={command}>
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
