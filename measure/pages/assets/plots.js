// Reads the values of a plot under the pointer. The data: for each plot the place of its panel, the range and label of x, and lines of values.
"use strict";
(() => {
  const plots = JSON.parse(document.getElementById("plots-data").textContent);
  for (const [id, plot] of Object.entries(plots)) {
    const box = document.getElementById(id);
    const svg = box.querySelector("svg");
    const read = box.querySelector(".read");
    const rule = document.createElementNS("http://www.w3.org/2000/svg", "line");
    for (const [name, value] of Object.entries({y1: plot.top, y2: plot.bottom, stroke: "var(--faint)", visibility: "hidden"})) rule.setAttribute(name, value);
    svg.append(rule);
    const number = (value) => plot.percent ? `${(value * 100).toFixed(1)} %` : Number((plot.tens ? 10 ** value : value).toPrecision(4)).toString();
    const nearest = (points, step) => {
      let best = null;
      for (const point of points) if (best === null || Math.abs(point[0] - step) < Math.abs(best[0] - step)) best = point;
      return best;
    };
    svg.addEventListener("pointermove", (event) => {
      const frame = svg.getBoundingClientRect();
      const x = (event.clientX - frame.left) / frame.width * svg.viewBox.baseVal.width;
      const wanted = (x - plot.left) / (plot.right - plot.left) * (plot.high - plot.low) + plot.low;
      const found = plot.lines.map((line) => nearest(line.points, wanted)).filter(Boolean);
      if (!found.length) return;
      const step = nearest(found, wanted)[0];
      const at = plot.left + (step - plot.low) / (plot.high - plot.low) * (plot.right - plot.left);
      rule.setAttribute("x1", at);
      rule.setAttribute("x2", at);
      rule.setAttribute("visibility", "visible");
      const place = plot.names[Math.round(step) - 1] ?? `${plot.label} ${plot.powers ? 2 ** step : step}`;
      read.textContent = `${place}: ` + plot.lines.map((line) => nearest(line.points, step)).filter(Boolean).map((point) => number(point[1])).join(", ");
    });
    svg.addEventListener("pointerleave", () => {
      rule.setAttribute("visibility", "hidden");
      read.textContent = "";
    });
  }
})();
