// Text of the program that was measured, made safe to show; and sentences with names in them.

import { useState } from "preact/hooks";
import { type Part, parts, printable, shortened } from "./printable";

/** A browser shows no more of a title than this anyway. */
const TITLE = 1000;

const drawn = (found: Part[]) =>
  found.map(({ text, escaped }) => (escaped ? <span class="escape">{text}</span> : text));

/** A name on one line: kept apart from the text around it, and with its middle cut out if it is long. */
export function Name({ text, limit = 80 }: { text: string; limit?: number }) {
  const short = shortened(text, limit);
  const title = short === text ? undefined : printable(shortened(text, TITLE));
  return <bdi title={title}>{drawn(parts(short))}</bdi>;
}

/** A text that can be opened if it is long. */
export function Long({ text, limit, keepTabs = false }: { text: string; limit: number; keepTabs?: boolean }) {
  const [open, setOpen] = useState(false);
  const rest = text.length - limit;
  return (
    <bdi>
      {drawn(parts(open ? text : text.slice(0, limit), keepTabs))}
      {rest > 0 && (
        <button type="button" class="more" onClick={() => setOpen(!open)}>
          {open ? "show less" : `… ${rest} more characters`}
        </button>
      )}
    </bdi>
  );
}

/** A sentence: what stands between backticks is code, and lines do not end inside "20 %" or "± 2 %". */
export function Prose({ text }: { text: string }) {
  const pieces = text.split("`");
  return (
    <>
      {pieces.map((piece, nth) => {
        // A last backtick without a partner is just a backtick.
        if (nth % 2 === 0) return held(piece);
        if (nth === pieces.length - 1) return `\`${piece}`;
        return (
          <code>
            <Name text={piece} />
          </code>
        );
      })}
    </>
  );
}

const held = (text: string): string => printable(text).replace(/ (?=[%±])/g, "\u00a0").replace(/± /g, "±\u00a0");
