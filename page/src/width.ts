// How wide an element is, so that drawings fill it and their letters keep their size.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { printing } from "./printing";

/** A page of A4 between its margins: browsers do not measure again before they print. */
const PAPER = 690;

/** A reference for the element and its width in pixels; `first` until it is known. */
export function useWidth(first: number) {
  const element = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(first);
  useLayoutEffect(() => {
    const of = element.current;
    if (!of) return;
    const measure = (): void => {
      if (of.clientWidth > 0) setWidth(of.clientWidth);
    };
    measure();
    const watch = new ResizeObserver(measure);
    watch.observe(of);
    return () => watch.disconnect();
  }, []);
  return [element, printing.value ? PAPER : width] as const;
}
