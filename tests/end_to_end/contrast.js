// Returns every visible text whose contrast with what lies behind it is below 4.5 (WCAG 2.1), pictures and tables apart.
() => {
  const channels = (text) => {
    const found = text.match(/[\d.]+/g).map(Number);
    return found.length < 4 ? [...found, 1] : found;
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const luminance = (colour) => {
    const linear = colour.slice(0, 3).map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const apart = 'svg, canvas, [disabled], [aria-disabled="true"], .js-plotly-plot, [data-testid="stDataFrame"]';
  // The numbers of a slider float outside of what they are inside of; icons are pictures.
  const floating = '[data-testid="stSlider"], [data-testid="stIconMaterial"]';
  const poor = [];
  for (const element of document.querySelectorAll('[data-testid="stApp"] *')) {
    if (element.closest(apart) || element.closest(floating) || !element.offsetParent) continue;
    const own = [...element.childNodes].filter((node) => node.nodeType === 3 && node.textContent.trim());
    const style = getComputedStyle(element);
    if (!own.length || style.visibility === 'hidden' || style.opacity === '0') continue;
    const layers = [];
    let opacity = 1;
    for (let up = element; up; up = up.parentElement) {
      layers.push(channels(getComputedStyle(up).backgroundColor));
      opacity *= Number(getComputedStyle(up).opacity);
    }
    let ground = [255, 255, 255, 1];
    for (const layer of layers.reverse()) ground = over(layer, ground);
    const ink = channels(style.color);
    ink[3] *= opacity;
    const [one, other] = [luminance(over(ink, ground)), luminance(ground)];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < 4.5) poor.push(`${ratio.toFixed(2)}: ${own[0].textContent.trim().slice(0, 60)}`);
  }
  return poor;
}
