/**
 * In the page: the texts that stand out too little from what is behind them (WCAG 2: 4.5, and 3 for large ones). Colours
 * that are not opaque are laid over each other.
 */
export function contrast(selectors) {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], below) => [r, g, b].map((value, nth) => value * a + below[nth] * (1 - a));
  const behind = (element) => {
    const colour = rgba(getComputedStyle(element).backgroundColor);
    if (colour[3] === 1) return colour.slice(0, 3);
    return over(colour, element.parentElement ? behind(element.parentElement) : [255, 255, 255]);
  };
  const light = (colour) => {
    const [r, g, b] = colour.map((value) => {
      const part = value / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const pale = [];
  for (const element of document.querySelectorAll(selectors.flatMap((of) => [of, `${of} *`]).join(","))) {
    const ownText = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
    if (!ownText || element.matches(":disabled, :disabled *") || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const below = behind(element);
    const [a, b] = [light(over(rgba(element.closest("svg") ? style.fill : style.color), below)), light(below)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const isLarge = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.6 && style.fontWeight >= 700);
    if (ratio < (isLarge ? 3 : 4.5)) pale.push(`${element.tagName} "${element.textContent.slice(0, 30)}" ${ratio.toFixed(2)}`);
  }
  return [...new Set(pale)];
}
