/**
 * In the page: texts that are printed over each other, and what sticks out of the window. Only what can be seen counts: what a box with a
 * scroll bar cuts off does not.
 */
export function overprint() {
  const SLACK = 3;
  const seen = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  /** The part of `rect` that no box around `element` cuts off; null if nothing is left. */
  const visible = (element, { left, top, right, bottom }) => {
    for (let box = element; box && box !== document.body; box = box.parentElement) {
      const { overflowX, overflowY } = getComputedStyle(box);
      if (overflowX === "visible" && overflowY === "visible") continue;
      const edge = box.getBoundingClientRect();
      [left, right] = [Math.max(left, edge.left), Math.min(right, edge.right)];
      [top, bottom] = [Math.max(top, edge.top), Math.min(bottom, edge.bottom)];
    }
    return right - left > 1 && bottom - top > 1 ? { left, top, right, bottom } : null;
  };
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const element = node.parentElement;
    if (!node.data.trim() || element.matches("script, style, noscript") || !element.checkVisibility()) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const rect of range.getClientRects()) {
      const shown = visible(element, rect);
      if (shown) seen.push({ ...shown, node, text: node.data.trim().slice(0, 40) });
    }
  }
  const troubles = new Set();
  for (const { left, right, text } of seen) {
    if (left < -1 || right > document.documentElement.clientWidth + 1) troubles.add(`"${text}" sticks out`);
  }
  seen.sort((a, b) => a.top - b.top);
  for (const [nth, one] of seen.entries()) {
    for (let at = nth + 1; at < seen.length && seen[at].top < one.bottom - SLACK; at++) {
      const other = seen[at];
      const wide = Math.min(one.right, other.right) - Math.max(one.left, other.left);
      const high = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
      if (wide > SLACK && high > SLACK && other.node !== one.node) troubles.add(`"${one.text}" and "${other.text}"`);
    }
  }
  return [...troubles];
}
