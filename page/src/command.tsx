// A command to type, with a button that copies it; and advice that may hold one.

import { useRef, useState } from "preact/hooks";
import { Long, Prose } from "./text";

/** Longer texts are cut, and can be opened. */
const TEXT = 600;
const SAID_MS = 2000;

export function Command({ text }: { text: string }) {
  const code = useRef<HTMLElement>(null);
  const [word, setWord] = useState("Copy");
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
      setWord("Copied");
    } catch {
      // Where a page may not write to the clipboard, the user can.
      if (code.current) getSelection()?.selectAllChildren(code.current);
      setWord("Selected: press Ctrl+C");
    }
    setTimeout(() => setWord("Copy"), SAID_MS);
  };
  return (
    <span class="command">
      <code ref={code}>
        <Long text={text} limit={TEXT} />
      </code>
      <button type="button" onClick={copy} aria-live="polite">
        {word}
      </button>
    </span>
  );
}

/** A command at the end of an advice, alone or after a colon. */
const COMMAND = /^(?:([\s\S]*: )|)((?:sudo |taskset -c \S+ )*whatif [a-z]+(?: (?:-|[A-Z])[^`]*)?)$/;

/** What an advice says, and the command that it ends with; null if there is none. */
export function split(advice: string): { words: string; command: string | null } {
  const found = advice.length > TEXT ? null : COMMAND.exec(advice);
  return found ? { words: found[1]?.trim() ?? "", command: found[2]! } : { words: advice, command: null };
}

export function Advice({ text }: { text: string }) {
  const { words, command } = split(text);
  return (
    <p class="advice">
      {words.length > TEXT ? <Long text={words} limit={TEXT} /> : <Prose text={words} />} {command && <Command text={command} />}
    </p>
  );
}
