// Draws each timeline of the page. The data: lanes with columns of numbers, times in nanoseconds (see measure/pages/trace_view.h).
"use strict";
for (const root of document.querySelectorAll(".timeline")) (() => {
  const data = JSON.parse(document.getElementById(`${root.id}-data`).textContent);
  const texts = data.view.texts;
  const end = Math.max(data.view.length, 1);
  const canvas = root.querySelector("canvas");
  const context = canvas.getContext("2d");
  const scroller = root.querySelector(".lanes");
  const heightBox = root.querySelector(".height");
  const tip = root.querySelector(".tip");
  const details = root.querySelector(".details");
  const search = root.querySelector("input");
  const found = root.querySelector(".found");
  const button = (name) => root.querySelector(`[data-do=${name}]`);

  const AXIS = 26, RANK = 26, BAR = 18, THIN = 8, GAP = 4, STRIP = 14, SHORTEST = 50;
  const FONT = "12px system-ui, sans-serif";

  // --- the data

  const lanes = data.view.lanes.map((lane) => {
    const count = lane.start.length;
    const start = new Float64Array(count), stop = new Float64Array(count);
    let at = 0;
    for (let i = 0; i < count; i++) {
      at += lane.start[i];
      start[i] = at;
      stop[i] = at + lane.length[i];
    }
    const rows = Array.from({length: lane.rows}, () => []);
    for (let i = 0; i < count; i++) rows[lane.row ? lane.row[i] : 0].push(i);
    return {...lane, count, start, stop, rows: rows.map((row) => Int32Array.from(row))};
  });
  const known = new Map(data.ranks.map((rank) => [rank.rank, rank]));
  const ranks = [];
  for (const lane of lanes) {
    let rank = ranks[ranks.length - 1];
    if (!rank || rank.rank !== lane.rank) {
      rank = {rank: lane.rank, lanes: [], folded: false, title: `rank ${lane.rank}`, about: "", ...known.get(lane.rank)};
      ranks.push(rank);
    }
    rank.lanes.push(lane);
  }

  // --- colours

  const palette = data.view.palette;
  // Dark letters where they can be read better.
  const letters = (colour) => {
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
    return r * 0.299 + g * 0.587 + b * 0.114 > 120 ? "#000" : "#fff";
  };
  const textColours = data.view.colors.map((number) => palette[number]);
  for (const lane of lanes) lane.colour = palette[lane.color];  // undefined: each event has that of its name
  let theme;
  const readTheme = () => {
    const style = getComputedStyle(document.documentElement);
    theme = {};
    for (const name of ["ground", "card", "ink", "faint", "grid", "accent"]) theme[name] = style.getPropertyValue(`--${name}`).trim();
  };

  // --- the places of ranks and lanes

  const view = {from: 0, to: end};
  let width = 0, height = 0, gutter = 0, narrow = false, places = [], total = 0;
  let matches = null, matching = [], at = -1;  // of the search: by text, then every event
  let selected = null, hovered = null;
  let drawn = 0;

  const thickness = (lane) => (!lane.spans ? BAR : lane.rows.length > 40 ? 4 : lane.rows.length > 3 ? THIN : 12);

  const place = () => {
    narrow = width < 640;
    context.font = FONT;
    // No Math.max(...): there may be more lanes than a call takes arguments.
    const widest = lanes.reduce((most, lane) => Math.max(most, context.measureText(lane.title.slice(0, 60)).width), 60);
    gutter = narrow ? 0 : Math.min(220, 26 + widest);
    places = [];
    let y = AXIS;
    for (const rank of ranks) {
      places.push({y, height: RANK, rank});
      y += RANK;
      if (rank.folded) continue;
      for (const lane of rank.lanes) {
        const top = narrow ? STRIP : 0;
        const rows = lane.rows.length * thickness(lane);
        places.push({y, height: top + rows + GAP, lane, top: y + top, thick: thickness(lane)});
        y += top + rows + GAP;
      }
      y += 4;
    }
    total = y + 4;
    heightBox.style.height = `${total}px`;
    height = Math.min(scroller.clientHeight || total, total);
    const scale = window.devicePixelRatio || 1;
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    context.setTransform(scale, 0, 0, scale, 0, 0);
  };

  const across = (time) => gutter + (time - view.from) / (view.to - view.from) * (width - gutter);
  const timeAt = (x) => view.from + (x - gutter) / (width - gutter) * (view.to - view.from);

  // --- drawing

  const timeText = (ns) => {
    const [unit, size] = ns >= 1e9 ? ["s", 1e9] : ns >= 1e6 ? ["ms", 1e6] : ns >= 1e3 ? ["µs", 1e3] : ["ns", 1];
    const value = ns / size;
    return `${value >= 100 || size === 1 ? Math.round(value) : value.toPrecision(3)} ${unit}`;
  };
  // A time since the start, as exactly as the view needs it.
  const momentText = (ns, step) => {
    const size = end >= 1e9 && step >= 1e6 ? [1e9, "s"] : step >= 1e4 || view.to >= 1e8 ? [1e6, "ms"] : step >= 10 ? [1e3, "µs"] : [1, "ns"];
    const digits = Math.max(0, Math.ceil(-Math.log10(step / size[0]) - 1e-9));
    return `${(ns / size[0]).toFixed(Math.min(digits, 9))} ${size[1]}`;
  };
  const bytesText = (bytes) => {
    let unit = 0;
    while (bytes >= 1024 && unit < 4) { bytes /= 1024; unit++; }
    return `${unit === 0 ? bytes : bytes.toPrecision(3)} ${["bytes", "KiB", "MiB", "GiB", "TiB"][unit]}`;
  };

  const cut = (text, room) => {
    if (context.measureText(text).width <= room) return text;
    let low = 0, high = Math.min(text.length, 200);
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (context.measureText(text.slice(0, middle) + "…").width <= room) low = middle; else high = middle - 1;
    }
    return low > 1 ? text.slice(0, low) + "…" : "";
  };

  const drawAxis = () => {
    const rough = (view.to - view.from) / Math.max(2, (width - gutter) / 110);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((factor) => factor * power >= rough) * power;
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "center";
    for (let i = Math.ceil(view.from / step); i * step <= view.to; i++) {
      const x = across(i * step);
      if (x < gutter - 0.5) continue;
      context.fillStyle = theme.grid;
      context.fillRect(Math.round(x), AXIS - 6, 1, height);
      const text = momentText(i * step, step);
      const half = context.measureText(text).width / 2;
      if (x - half < gutter + 1 || x + half > width - 2) continue;
      context.fillStyle = theme.faint;
      context.fillText(text, x, AXIS - 11);
    }
    context.textAlign = "left";
  };

  // The first event of a row that ends after a time; the stops of a row grow.
  const firstAfter = (lane, row, time) => {
    let low = 0, high = row.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (lane.stop[row[middle]] < time) low = middle + 1; else high = middle;
    }
    return low;
  };

  const isMatch = (lane, i) => matches[lane.name[i]] || (lane.note && matches[lane.note[i]]);

  const drawRow = (lane, row, y, thick) => {
    const scale = (width - gutter) / (view.to - view.from);
    let column = -1, longest = -1, covered = 0, colour = "", faded = false;  // of the events that share a pixel
    const flush = () => {
      if (column < 0) return;
      // The less of its time a pixel is busy, the fainter it is.
      context.globalAlpha = faded ? 0.18 : 0.3 + 0.7 * Math.min(1, covered);
      context.fillStyle = colour;
      context.fillRect(column, y + 0.5, 1, thick - 1);
      drawn++;
      column = -1;
    };
    for (let k = firstAfter(lane, row, view.from); k < row.length; k++) {
      const i = row[k];
      if (lane.start[i] > view.to) break;
      const x = Math.max(gutter + (lane.start[i] - view.from) * scale, gutter);
      const right = Math.min(gutter + (lane.stop[i] - view.from) * scale, width);
      const own = lane.colour || textColours[lane.name[i]];
      const off = matches !== null && !isMatch(lane, i);
      if (right - x < 1) {
        if (Math.floor(x) !== column) {
          flush();
          column = Math.floor(x);
          longest = -1;
          covered = 0;
          faded = true;
        }
        const length = lane.stop[i] - lane.start[i];
        covered += right - x;
        if ((faded && !off) || (off === faded && length > longest)) { longest = length; colour = own; faded = off; }
        continue;
      }
      flush();
      context.globalAlpha = off ? 0.18 : 1;
      context.fillStyle = own;
      context.fillRect(x, y + 0.5, Math.max(1, right - x - (right - x > 3 ? 0.6 : 0)), thick - 1);
      drawn++;
      if (thick >= 14 && right - x > 28 && !off) {
        const text = cut(texts[lane.name[i]], right - x - 8);
        context.fillStyle = letters(own);
        context.fillText(text, x + 4, y + thick - 5);
      }
    }
    flush();
    context.globalAlpha = 1;
  };

  const outline = (mark, line) => {
    const box = mark && places.find((each) => each.lane === mark.lane);
    if (!box) return;
    const y = box.top + (mark.lane.row ? mark.lane.row[mark.index] : 0) * box.thick - scroller.scrollTop;
    const x = Math.max(across(mark.lane.start[mark.index]), gutter), right = Math.min(across(mark.lane.stop[mark.index]), width);
    if (right < gutter || x > width || y + box.thick < AXIS) return;
    context.strokeStyle = theme.ink;
    context.lineWidth = line;
    context.strokeRect(x - 0.5, y, Math.max(2, right - x), box.thick);
  };

  const draw = () => {
    drawn = 0;
    const top = scroller.scrollTop;
    context.fillStyle = theme.ground;
    context.fillRect(0, 0, width, height);
    drawAxis();
    context.font = FONT;
    context.save();
    context.beginPath();
    context.rect(0, AXIS, width, height - AXIS);
    context.clip();
    for (const box of places) {
      const y = box.y - top;
      if (y + box.height < AXIS || y > height) continue;
      if (box.rank) {
        context.fillStyle = theme.card;
        context.fillRect(0, y, width, box.height);
        context.fillStyle = theme.ink;
        context.font = "600 " + FONT;
        context.fillText(cut(`${box.rank.folded ? "▸" : "▾"} ${box.rank.title}`, width - 16), 8, y + 17);
        context.font = FONT;
        continue;
      }
      const first = Math.max(0, Math.floor((AXIS + top - box.top) / box.thick));
      const last = Math.min(box.lane.rows.length, Math.ceil((height + top - box.top) / box.thick));
      for (let row = first; row < last; row++) drawRow(box.lane, box.lane.rows[row], box.top - top + row * box.thick, box.thick);
      context.fillStyle = narrow ? theme.faint : theme.ink;
      context.fillText(cut(box.lane.title, (narrow ? width : gutter) - 20), narrow ? 8 : 16, narrow ? y + 11 : y + 13);
    }
    outline(hovered, 1);
    outline(selected, 2);
    context.restore();
    if (!lanes.length) {
      context.fillStyle = theme.faint;
      context.fillText("no events", 16, AXIS + 20);
    }
    root.dataset.drawn = drawn;
    root.dataset.from = view.from;
    root.dataset.to = view.to;
  };
  let asked = false;
  const redraw = () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; draw(); });
  };

  // --- moving and zooming

  const show = (from, to) => {
    const span = Math.min(Math.max(to - from, SHORTEST), end * 1.04);
    const middle = (from + to) / 2;
    view.from = Math.max(-end * 0.02, Math.min(middle - span / 2, end * 1.02 - span));
    view.to = view.from + span;
    redraw();
  };
  const zoom = (factor, x = gutter + (width - gutter) / 2) => {
    const time = timeAt(x);
    const span = Math.min(Math.max((view.to - view.from) / factor, SHORTEST), end * 1.04);
    const share = (time - view.from) / (view.to - view.from);
    show(time - share * span, time - share * span + span);
  };
  const pan = (pixels) => {
    const time = pixels / (width - gutter) * (view.to - view.from);
    show(view.from + time, view.to + time);
  };
  const showAll = () => show(-end * 0.005, end * 1.005);
  const showEvent = ({lane, index}) => {
    const length = Math.max(lane.stop[index] - lane.start[index], SHORTEST);
    show(lane.start[index] - length, lane.stop[index] + length);
    reveal(lane, index);
  };
  // Scrolls to a row.
  const reveal = (lane, index) => {
    const rank = ranks.find((each) => each.rank === lane.rank);
    if (rank.folded) { rank.folded = false; place(); }
    const box = places.find((each) => each.lane === lane);
    const y = box.top + (lane.row ? lane.row[index] : 0) * box.thick;
    if (y < scroller.scrollTop + AXIS || y + box.thick > scroller.scrollTop + height) scroller.scrollTop = y - height / 2;
  };

  // --- what lies where

  const boxAt = (y) => (y < AXIS ? undefined : places.find((box) => y + scroller.scrollTop >= box.y && y + scroller.scrollTop < box.y + box.height));
  const eventAt = (x, y) => {
    const box = boxAt(y);
    if (!box || !box.lane || x < gutter) return null;
    const lane = box.lane;
    const number = Math.floor((y + scroller.scrollTop - box.top) / box.thick);
    if (number < 0 || number >= lane.rows.length) return null;
    const reach = 3 / (width - gutter) * (view.to - view.from);
    const time = timeAt(x);
    const row = lane.rows[number];
    let best = null, distance = reach;
    for (let k = firstAfter(lane, row, time - reach); k < row.length && lane.start[row[k]] <= time + reach; k++) {
      const i = row[k];
      const far = Math.max(lane.start[i] - time, time - lane.stop[i], 0);
      if (best === null || far < distance) { best = {lane, index: i}; distance = far; }
      if (far === 0) break;
    }
    return best;
  };

  const facts = ({lane, index}) => {
    const list = [["phase", lane.title], ["took", timeText(lane.stop[index] - lane.start[index])], ["from", lane.start[index] >= 1e10 ? `${(lane.start[index] / 1e9).toFixed(6)} s` : `${(lane.start[index] / 1e6).toFixed(3)} ms`]];
    if (lane.bytes && lane.bytes[index] >= 0) list.push(["bytes", `${bytesText(lane.bytes[index])}`]);
    if (lane.tensors && lane.tensors[index] >= 0) list.push(["tensors", `${lane.tensors[index]}`]);
    if (lane.batch && lane.batch[index] >= 0) list.push(["batch", `${lane.batch[index]}`]);
    if (lane.note && lane.note[index]) list.push(["note", texts[lane.note[index]]]);
    return list;
  };
  const titleOf = (lane) => ranks.find((rank) => rank.rank === lane.rank).title;
  const element = (tag, text) => {
    const made = document.createElement(tag);
    made.textContent = text;
    return made;
  };

  const showTip = (mark, x, y) => {
    hovered = mark;
    tip.hidden = !mark;
    if (mark) {
      const list = facts(mark).filter(([name]) => name !== "batch");
      tip.replaceChildren(element("b", texts[mark.lane.name[mark.index]] || "(no name)"), element("span", titleOf(mark.lane) + ", " + list.slice(0, 2).map(([, text]) => text).join(", ")));
      for (const [name, text] of list.slice(3)) tip.append(element("div", name === "note" || name === "bytes" ? text.slice(0, 300) : `${name}: ${text}`));
      const left = Math.min(x + 14, root.clientWidth - tip.offsetWidth - 4);
      tip.style.left = `${Math.max(4, left)}px`;
      const below = scroller.offsetTop + y + 18;
      tip.style.top = `${below + tip.offsetHeight > root.clientHeight ? Math.max(2, below - tip.offsetHeight - 30) : below}px`;
    }
    redraw();
  };

  const select = (mark) => {
    selected = mark;
    if (mark) {
      const list = document.createElement("dl");
      for (const [name, text] of [["rank", titleOf(mark.lane)], ...facts(mark)]) {
        const item = document.createElement("div");
        item.append(element("dt", name), element("dd", text));
        list.append(item);
      }
      details.replaceChildren(element("b", texts[mark.lane.name[mark.index]] || "(no name)"), list);
    }
    redraw();
  };
  // The event before or after the selected one, in its lane.
  const step = (by) => {
    if (!selected && lanes.length) return select({lane: lanes[0], index: 0});
    if (!selected) return;
    const index = selected.index + by;
    if (index < 0 || index >= selected.lane.count) return;
    select({lane: selected.lane, index});
    const {start, stop} = selected.lane;
    if (stop[index] < view.from || start[index] > view.to) {
      const half = (view.to - view.from) / 2;
      show(start[index] - half, start[index] + half);
    }
    reveal(selected.lane, index);
  };

  // --- search

  const find = (words) => {
    const wanted = words.trim().toLowerCase();
    matching = [];
    at = -1;
    matches = wanted ? texts.map((text) => text.toLowerCase().includes(wanted)) : null;
    if (matches) {
      for (const lane of lanes) for (let i = 0; i < lane.count; i++) if (isMatch(lane, i)) matching.push({lane, index: i});
      matching.sort((a, b) => a.lane.start[a.index] - b.lane.start[b.index]);
    }
    found.textContent = matches ? `${matching.length.toLocaleString("en")} found` : "";
    button("before").disabled = button("after").disabled = !matching.length;
    redraw();
  };
  const goTo = (by) => {
    if (!matching.length) return;
    at = at < 0 ? (by > 0 ? 0 : matching.length - 1) : (at + by + matching.length) % matching.length;
    found.textContent = `${(at + 1).toLocaleString("en")} of ${matching.length.toLocaleString("en")}`;
    select(matching[at]);
    showEvent(matching[at]);
  };

  // --- mouse, touch, keys

  const spot = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const fingers = new Map();
  let moved = 0, spread = 0;

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button > 0) return;
    fingers.set(event.pointerId, spot(event));
    canvas.setPointerCapture(event.pointerId);
    moved = 0;
    spread = 0;
    canvas.classList.add("dragging");
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = spot(event);
    const before = fingers.get(event.pointerId);
    if (!before) return event.pointerType === "mouse" ? showTip(eventAt(x, y), x, y) : undefined;
    fingers.set(event.pointerId, [x, y]);
    moved += Math.abs(x - before[0]) + Math.abs(y - before[1]);
    if (fingers.size === 2) {
      const [a, b] = [...fingers.values()];
      const apart = Math.max(20, Math.abs(a[0] - b[0]));
      if (spread) zoom(apart / spread, (a[0] + b[0]) / 2);
      spread = apart;
      return;
    }
    if (moved < 4) return;
    pan(before[0] - x);
    if (event.pointerType === "mouse") scroller.scrollTop += before[1] - y;
    showTip(null);
  });
  const lift = (event) => {
    if (!fingers.delete(event.pointerId)) return;
    canvas.classList.remove("dragging");
    if (event.type !== "pointerup" || moved >= 4 || fingers.size) return;
    const [x, y] = spot(event);
    const box = boxAt(y);
    if (box && box.rank) {
      box.rank.folded = !box.rank.folded;
      place();
      return redraw();
    }
    const mark = eventAt(x, y);
    if (mark) select(mark);
  };
  canvas.addEventListener("pointerup", lift);
  canvas.addEventListener("pointercancel", lift);
  canvas.addEventListener("pointerleave", () => showTip(null));
  canvas.addEventListener("dblclick", (event) => {
    const mark = eventAt(...spot(event));
    if (mark) showEvent(mark);
  });
  // Two fingers zoom instead of the browser's own zoom.
  canvas.addEventListener("touchmove", (event) => { if (event.touches.length > 1) event.preventDefault(); }, {passive: false});
  scroller.addEventListener("wheel", (event) => {
    const sideways = event.shiftKey ? event.deltaY || event.deltaX : Math.abs(event.deltaX) > Math.abs(event.deltaY) ? event.deltaX : 0;
    if (sideways) {
      event.preventDefault();
      return pan(sideways);
    }
    if (!event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return;
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : 1;
    zoom(Math.exp(-Math.max(-300, Math.min(300, event.deltaY * lines)) * 0.003), spot(event)[0]);
  }, {passive: false});
  scroller.addEventListener("scroll", redraw);

  const KEYS = {ArrowLeft: () => pan(-80), a: () => pan(-80), ArrowRight: () => pan(80), d: () => pan(80), "+": () => zoom(1.5),
    "=": () => zoom(1.5), w: () => zoom(1.5), "-": () => zoom(1 / 1.5), s: () => zoom(1 / 1.5), 0: showAll, Home: showAll,
    ArrowUp: () => { scroller.scrollTop -= 40; }, ArrowDown: () => { scroller.scrollTop += 40; }, ",": () => step(-1), ".": () => step(1),
    n: () => goTo(1), p: () => goTo(-1), Enter: () => selected && showEvent(selected), Escape: () => canvas.blur()};
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(KEYS, event.key)) return;
    event.preventDefault();
    KEYS[event.key]();
  });
  search.addEventListener("input", () => find(search.value));
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") goTo(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") { search.value = ""; find(""); }
  });
  button("before").addEventListener("click", () => goTo(-1));
  button("after").addEventListener("click", () => goTo(1));
  button("in").addEventListener("click", () => zoom(1.8));
  button("out").addEventListener("click", () => zoom(1 / 1.8));
  button("all").addEventListener("click", showAll);

  // --- start

  new ResizeObserver(() => {
    if (scroller.clientWidth === width) return;
    width = scroller.clientWidth;
    place();
    redraw();
  }).observe(scroller);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readTheme(); redraw(); });
  readTheme();
  width = scroller.clientWidth;
  place();
  showAll();
})();
