// What can be opened; on paper it is.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { printing } from "./printing";

interface Props {
  class?: string;
  summary: ComponentChildren;
  children: ComponentChildren;
}

export function Disclosure({ class: kind, summary, children }: Props) {
  const [open, setOpen] = useState(false);
  return (
    <details
      class={kind}
      open={open || printing.value}
      onToggle={({ currentTarget }) => {
        if (!printing.peek()) setOpen(currentTarget.open);
      }}
    >
      <summary>{summary}</summary>
      {children}
    </details>
  );
}
