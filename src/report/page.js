/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the charts, their legends and tables from the figures' JSON, and lets tables sort. Text goes into the page as
 * textContent only. */
"use strict";
(() => {
  /* The colours of Okabe and Ito, which the colour-blind can tell apart; on a dark ground black and blue are replaced.
   * The second eight were searched for: tests/scripts/test_colours.py says how far all are apart. */
  const LIGHT = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#666666",
    "#052bae", "#4d1d03", "#076725", "#95167d", "#172245", "#b0b86b", "#422b2d", "#dc0536"];
  const DARK = ["#56b4e9", "#f07020", "#35c79b", "#e29cc4", "#9ad2f5", "#f0b93a", "#ececf0", "#f0e442",
    "#306ef4", "#975f56", "#52fda3", "#c751a9", "#295b67", "#aa985e", "#6501f3", "#52570d"];
  const MARKERS = ["circle", "rect", "triangle", "rectRot", "cross", "star", "crossRot", "dash"];
  const DASHES = [[], [6, 3], [2, 2], [8, 3, 2, 3], [12, 4], [4, 4]];
  const WHISKERS_MOST = 400; /* more intervals hide the lines */
  const MARKERS_MOST = 2000; /* a line of more points is drawn by the extremes in each column of pixels */
  const SERIES_MOST = 60; /* more hide each other; the table has them all */
  const ROWS_AT_ONCE = 500;
  const BUTTONS_MOST = 12; /* of a legend, where each series has its own */
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const charts = [];
  let printing = false;

  const make = (name, text, attributes = {}) => {
    const element = document.createElement(name);
    if (text !== undefined) element.textContent = text;
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    return element;
  };
  const colours = () => (dark.matches && !printing ? DARK : LIGHT);
  const ink = () => (dark.matches && !printing ? { text: "#ececf0", line: "#3b3b45" } : { text: "#1c1c1e", line: "#d5d5dc" });
  const digits = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
  const whole = new Intl.NumberFormat("en");
  const show = (value) => (value === null || value === undefined ? "–" : (Number.isInteger(value) ? whole : digits).format(value));

  /* ---- figures ---- */

  const point = (list) => ({ x: list[0], y: list[1], low: list[2] ?? null, high: list[3] ?? null, status: list[4] || "", label: list[5] || "" });
  const xText = (figure, x) => (figure.x.scale === "names" ? figure.x.names[x] ?? "" : show(x));
  const isNoisy = (p) => p !== null && p.status === "noisy";
  const isBars = (figure) => figure.form === "bars" || figure.form === "stacks";

  /* A bar chart has a value for each name of the x axis; lines have points. */
  const dataset = (figure, series) => {
    const points = series.points.map(point);
    const common = { label: series.name, headroom: series, hidden: false };
    if (isBars(figure)) {
      const data = figure.x.names.map((_, i) => points.find((p) => p.x === i) ?? null);
      return { ...common, type: "bar", points: data, data: data.map((p) => (p ? p.y : null)), borderWidth: 1 };
    }
    const line = series.mark !== "points" && figure.form === "lines";
    return { ...common, type: "line", points, data: points, showLine: line, borderWidth: 2, tension: 0, clip: 8, spanGaps: false,
      pointRadius: series.mark === "plain" ? 0 : points.length <= MARKERS_MOST ? 3 : line ? 0 : 1.5, pointHoverRadius: 5 };
  };
  const paint = (chart) => {
    const palette = colours(), { text, line } = ink();
    for (const set of chart.data.datasets) {
      const { style } = set.headroom, colour = palette[set.headroom.colour % palette.length];
      set.borderColor = set.pointBorderColor = colour;
      const bar = set.type === "bar", noisy = set.points.map(isNoisy);
      set.backgroundColor = !bar ? colour + "40" : noisy.includes(true) ? noisy.map((is) => (is ? "transparent" : colour)) : colour;
      const filled = set.headroom.origin === "measured" ? colour : "transparent";
      set.pointBackgroundColor = noisy.includes(true) ? noisy.map((is) => (is ? "transparent" : filled)) : filled;
      set.pointStyle = MARKERS[style % MARKERS.length];
      set.borderDash = bar ? [] : DASHES[style % DASHES.length];
    }
    for (const scale of Object.values(chart.options.scales)) {
      scale.ticks.color = scale.title.color = text;
      scale.grid.color = line;
    }
  };
  const scale = (axis, figure) => {
    const options = { type: "linear", title: { display: axis.label !== "", text: axis.label }, ticks: {}, grid: {} };
    if (axis.scale === "names") return { ...options, type: "category", labels: axis.names, stacked: figure.form === "stacks" };
    if (axis.scale === "log2" || axis.scale === "log10") options.type = "logarithmic";
    if (axis.scale === "log2")
      options.afterBuildTicks = (s) => {
        const ticks = [];
        for (let e = Math.floor(Math.log2(s.min)); e <= Math.log2(s.max); e++) ticks.push({ value: 2 ** e });
        s.ticks = ticks.filter((t) => t.value >= s.min);
      };
    const leads = (value) => [1, 2, 5].some((lead) => Math.abs(Math.log10(value / lead) % 1) < 1e-9);
    if (options.type === "logarithmic") options.ticks.callback = (value) => (axis.scale === "log2" || leads(value) ? show(value) : "");
    if (axis.zero && options.type === "linear") options.beginAtZero = true;
    if (axis.most !== null) options.max = 20 * Math.round(axis.most / 20) || axis.most; /* a sum of readings may be 101 percent */
    options.stacked = figure.form === "stacks";
    return options;
  };

  const drawn = (figure) => figure.series.slice(0, SERIES_MOST);

  /* The axis reaches the ends of the intervals, and the rules, too. */
  const ends = (figure) => {
    const all = figure.series.flatMap((s) => s.points.map(point)).filter((p) => p.low !== null && p.high !== null);
    all.push(...figure.rules.filter((rule) => !rule.vertical).map((rule) => ({ low: rule.at, high: rule.at })));
    return all.length === 0 ? {} : { suggestedMin: least(all.map((p) => p.low)), suggestedMax: -least(all.map((p) => -p.high)) };
  };
  const least = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);

  const RULE_DASHES = [[6, 4], [2, 3], [9, 3, 2, 3], [14, 4]];
  const ruleDash = (rules, rule) => RULE_DASHES[Math.max(0, rules.filter((r) => r.label).indexOf(rule)) % RULE_DASHES.length];

  /* Intervals, bands between low and high, and rules, which Chart.js does not have. */
  const overlay = {
    id: "overlay",
    beforeDatasetsDraw(chart) {
      const { ctx, scales: { x, y } } = chart;
      chart.data.datasets.forEach((set, i) => {
        if (set.headroom.mark !== "band" || !chart.isDatasetVisible(i)) return;
        const points = set.points.filter((p) => p.low !== null && p.high !== null);
        ctx.save();
        ctx.fillStyle = set.backgroundColor;
        ctx.beginPath();
        points.forEach((p) => ctx.lineTo(x.getPixelForValue(p.x), y.getPixelForValue(p.low)));
        points.reverse().forEach((p) => ctx.lineTo(x.getPixelForValue(p.x), y.getPixelForValue(p.high)));
        ctx.fill();
        ctx.restore();
      });
    },
    afterDatasetsDraw(chart) {
      const { ctx, chartArea: area, scales: { x, y } } = chart;
      ctx.save();
      ctx.lineWidth = 1;
      chart.data.datasets.forEach((set, i) => {
        if (set.headroom.mark === "band" || set.points.length > WHISKERS_MOST || !chart.isDatasetVisible(i)) return;
        const meta = chart.getDatasetMeta(i);
        ctx.strokeStyle = set.type === "bar" ? ink().text : set.borderColor;
        ctx.fillStyle = ink().text;
        ctx.textAlign = "center";
        set.points.forEach((p, k) => {
          if (set.type === "bar" && p && p.y === null && meta.data[k]) ctx.fillText("–", meta.data[k].x, area.bottom - 4);
          if (!p || p.low === null || p.high === null || !meta.data[k]) return;
          const at = meta.data[k].x, low = y.getPixelForValue(p.low), high = y.getPixelForValue(p.high);
          ctx.beginPath();
          for (const end of [low, high]) { ctx.moveTo(at - 3, end); ctx.lineTo(at + 3, end); }
          ctx.moveTo(at, low);
          ctx.lineTo(at, high);
          ctx.stroke();
        });
      });
      ctx.strokeStyle = ink().text;
      for (const rule of chart.config._config.rules) { /* named in the legend, where nothing is in the way of text */
        const at = (rule.vertical ? x : y).getPixelForValue(rule.at);
        ctx.setLineDash(ruleDash(chart.config._config.rules, rule));
        ctx.beginPath();
        if (rule.vertical) { ctx.moveTo(at, area.top); ctx.lineTo(at, area.bottom); }
        else { ctx.moveTo(area.left, at); ctx.lineTo(area.right, at); }
        ctx.stroke();
      }
      ctx.restore();
    },
  };

  const of = (item) => (item.dataset.type === "bar" ? item.dataset.points[item.dataIndex] : item.raw);
  const hover = (figure) => ({
    title: (items) => (items.length ? `${figure.x.label && `${figure.x.label}: `}${xText(figure, of(items[0]).x)}` : ""),
    label: (item) => {
      const p = of(item);
      const spread = p.low !== null && p.high !== null ? ` (${show(p.low)} … ${show(p.high)})` : "";
      return `${item.dataset.label}: ${show(p.y)}${spread}${p.status ? `, ${p.status}` : ""}${p.label ? `, ${p.label}` : ""}`;
    },
  });

  const draw = (entry) => {
    if (entry.chart) return;
    const { figure, canvas } = entry;
    const bars = isBars(figure);
    entry.chart = new Chart(canvas, {
      type: bars ? "bar" : "line",
      rules: figure.rules,
      data: { labels: bars ? figure.x.names : undefined, datasets: drawn(figure).map((s) => dataset(figure, s)) },
      options: {
        animation: false, responsive: true, maintainAspectRatio: false, parsing: bars ? undefined : false, normalized: false,
        interaction: { mode: "nearest", intersect: false, axis: bars ? "x" : "xy" },
        scales: { x: scale(figure.x, figure), y: { ...scale(figure.y, figure), ...ends(figure) } },
        plugins: {
          legend: { display: false }, tooltip: { callbacks: hover(figure) },
          decimation: { enabled: figure.form === "lines", algorithm: "min-max", threshold: MARKERS_MOST },
        },
      },
      plugins: [overlay],
    });
    paint(entry.chart);
    entry.visible.forEach((on, i) => entry.chart.setDatasetVisibility(i, on));
    entry.chart.update();
    entry.canvas.dataset.drawn = "true";
  };

  /* ---- legends: buttons, so that the keyboard and screen readers reach them ---- */

  const SVG = "http://www.w3.org/2000/svg";
  const SHAPES = { /* of MARKERS, around (14, 6) */
    circle: "M18 6a4 4 0 1 0-8 0a4 4 0 1 0 8 0z", rect: "M10 2h8v8h-8z", triangle: "M14 1.5l5 9h-10z", rectRot: "M14 1l5 5-5 5-5-5z",
    cross: "M14 2v8M10 6h8", star: "M14 2v8M10 6h8M11 3l6 6M17 3l-6 6", crossRot: "M11 3l6 6M17 3l-6 6", dash: "M10 6h8",
  };
  /* What a chart draws: a bar, a line with its dashes, or a marker, which is filled where it was measured. */
  const sample = (figure, series) => {
    if (!isBars(figure) && series.mark !== "points") return stroke([0, 28], DASHES[series.style % DASHES.length], 4);
    const filled = isBars(figure) || series.origin === "measured";
    return drawing("path", { d: isBars(figure) ? "M8 1h12v10h-12z" : SHAPES[MARKERS[series.style % MARKERS.length]], "stroke-width": 1.5,
      fill: filled ? "currentColor" : "none" });
  };
  const drawing = (name, attributes) => {
    const svg = document.createElementNS(SVG, "svg"), shape = document.createElementNS(SVG, name);
    svg.setAttribute("viewBox", "0 0 28 12");
    svg.setAttribute("aria-hidden", "true");
    for (const key in attributes) shape.setAttribute(key, attributes[key]);
    svg.append(shape);
    return svg;
  };
  const stroke = (ends, dash, width) =>
    drawing("line", { x1: ends[0], x2: ends[1], y1: 6, y2: 6, "stroke-width": width, "stroke-dasharray": dash.join(" ") });
  const paintLegend = (entry) =>
    entry.legend.querySelectorAll("button svg > *").forEach((shape) => {
      const colour = colours()[entry.figure.series[shape.parentNode.dataset.series].colour % LIGHT.length];
      shape.setAttribute("stroke", colour);
      if (shape.getAttribute("fill") !== "none") shape.setAttribute("fill", colour);
    });
  const toggle = (entry, members, button) => {
    const on = !entry.visible[members[0]];
    button.setAttribute("aria-pressed", String(on));
    draw(entry);
    for (const i of members) {
      entry.visible[i] = on;
      entry.chart.setDatasetVisibility(i, on);
    }
    entry.chart.update();
  };
  /* "h/a = 8, bf16" and "h/a = 8, A100, read off" share a button where there are too many to find one. */
  const headOf = (name) => name.split(", ")[0];
  const groupsOf = (series) => {
    const groups = new Map();
    series.forEach(({ name }, i) => {
      const key = series.length > BUTTONS_MOST ? headOf(name) : i;
      groups.set(key, [...(groups.get(key) ?? []), i]);
    });
    return [...groups.values()];
  };
  const entryOf = (figure, i, from) => {
    const series = figure.series[i], svg = sample(figure, series);
    const origin = series.origin === "measured" || series.name.includes(series.origin) ? "" : ` (${series.origin})`;
    svg.dataset.series = i;
    return [svg, (series.name.slice(from) || figure.y.label) + origin];
  };
  const buttonOf = (entry, members) => {
    const { figure } = entry, button = make("button", undefined, { type: "button", "aria-pressed": "true" });
    const head = members.length > 1 ? `${headOf(figure.series[members[0]].name)}, ` : "";
    if (head) button.append(`${head.slice(0, -2)}: `);
    members.forEach((i, k) => button.append(k > 0 ? "  " : "", ...entryOf(figure, i, head.length)));
    button.addEventListener("click", () => toggle(entry, members, button));
    return button;
  };
  /* Why bars have no value; a line has a gap there, and the table says why. */
  const absences = (figure) => {
    const without = isBars(figure) ? drawn(figure).flatMap((series) => series.points.map(point)).filter((p) => p.y === null) : [];
    return [...new Set(without.map((p) => absence(p.status || "none")))];
  };
  const addLegend = (entry) => {
    entry.legend = make("ul", undefined, { class: "legend", "aria-label": "Series on and off" });
    for (const members of groupsOf(drawn(entry.figure))) {
      const item = make("li");
      item.append(buttonOf(entry, members));
      entry.legend.append(item);
    }
    for (const rule of entry.figure.rules.filter((r) => r.label)) {
      const item = make("li", undefined, { class: "rule" });
      item.append(stroke([0, 28], ruleDash(entry.figure.rules, rule), 1.5), rule.label);
      entry.legend.append(item);
    }
    if (drawn(entry.figure).some((series) => series.points.map(point).some(isNoisy)))
      entry.legend.append(make("li", "Hollow points and bars are noisy.", { class: "rule" }));
    const why = absences(entry.figure);
    if (why.length) entry.legend.append(make("li", `–: no value (${why.join(", ")})`, { class: "rule" }));
    paintLegend(entry);
    const left = entry.figure.series.length - SERIES_MOST;
    if (left > 0) entry.legend.append(make("li", `${left} more series are in the table.`));
    return entry.legend;
  };

  /* ---- each chart's table, made when it is opened ---- */

  const cell = (value) => {
    const number = typeof value === "number" || value === null;
    return make("td", number ? show(value) : value, number ? { class: "n", ...(value === null ? {} : { "data-v": value }) } : {});
  };
  const fill = (body, rows, from) => {
    const part = document.createDocumentFragment();
    for (const values of rows.slice(from, from + ROWS_AT_ONCE)) {
      const row = make("tr");
      row.append(...values.map(cell));
      part.append(row);
    }
    body.append(part);
  };
  const rowsOf = (figure) =>
    figure.series.flatMap((series) => series.points.map(point).map((p) =>
      [series.name || figure.y.label, figure.x.scale === "names" ? xText(figure, p.x) : p.x, p.y, p.low, p.high, p.status === "not_found" ? "not run" : p.status || "ok",
        figure.form === "stacks" ? "" : series.origin])); /* of a stack the column says it */
  const openTable = (figure, details) => {
    const table = make("table", undefined, { class: "sortable" }), head = make("tr"), body = make("tbody");
    const titles = ["series", figure.x.label, figure.y.label, "low", "high", "status", "origin"];
    const top = make("thead");
    titles.forEach((title, i) => head.append(make("th", title, { scope: "col", class: i >= 1 && i <= 4 ? "n" : "" })));
    top.append(head);
    table.append(make("caption", figure.title), top, body);
    const rows = rowsOf(figure);
    fill(body, rows, 0);
    const scroll = make("div", undefined, { class: "scroll" });
    scroll.append(table);
    details.append(scroll);
    sortable(table, () => { for (let n = body.rows.length; n < rows.length; n += ROWS_AT_ONCE) fill(body, rows, n); });
    if (rows.length > ROWS_AT_ONCE) {
      const more = make("button", `Show all ${rows.length} rows`, { type: "button" });
      more.addEventListener("click", () => {
        for (let n = body.rows.length; n < rows.length; n += ROWS_AT_ONCE) fill(body, rows, n);
        more.remove();
      });
      details.append(more);
    }
  };
  const addTable = (figure) => {
    const details = make("details"), count = figure.series.reduce((n, s) => n + s.points.length, 0);
    details.append(make("summary", `Table of the ${count} values`));
    details.addEventListener("toggle", () => {
      if (details.open && details.childElementCount === 1) openTable(figure, details);
    });
    return details;
  };

  /* ---- heatmaps: a table whose cells are coloured by the logarithm of their value, so that it needs no other ---- */

  const HEAT = [[255, 234, 70], [124, 123, 120], [0, 32, 76]]; /* cividis, which the colour-blind and grey prints order alike */
  const heat = (share) => {
    const at = Math.min(share * 2, 1.999), from = HEAT[Math.floor(at)], to = HEAT[Math.floor(at) + 1];
    return from.map((c, i) => Math.round(c + (to[i] - c) * (at % 1)));
  };
  const absence = (status) => (status === "not_found" ? "not run" : status.replaceAll("_", " "));
  const heatCell = (p, low, high) => {
    if (!p || p.y === null) return make("td", p && p.status ? absence(p.status) : "–", { class: "none" });
    const share = p.y > 0 && high > low ? Math.log(p.y / low) / Math.log(high / low) : 0;
    const colour = heat(share), bright = 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2];
    const td = make("td", (isNoisy(p) ? "~" : "") + (p.label || show(p.y)), { "data-v": p.y });
    td.style.backgroundColor = `rgb(${colour.join(",")})`;
    td.style.color = bright > 120 ? "#000000" : "#ffffff";
    return td;
  };
  const heatmap = (figure) => {
    const rows = figure.series.map((series) => series.points.map(point)), all = rows.flat();
    const places = [...new Set(all.map((p) => p.x))].sort((a, b) => a - b);
    const values = all.map((p) => p.y).filter((y) => y !== null && y > 0), low = least(values), high = -least(values.map((y) => -y));
    const table = make("table", undefined, { class: "heat" }), head = make("tr"), top = make("thead"), body = make("tbody");
    head.append(make("td"), ...places.map((x) => make("th", xText(figure, x), { scope: "col" })));
    top.append(head);
    figure.series.forEach((series, i) => {
      const row = make("tr");
      row.append(make("th", series.name, { scope: "row" }), ...places.map((x) => heatCell(rows[i].find((p) => p.x === x), low, high)));
      body.append(row);
    });
    const over = figure.x.label ? ` over ${figure.x.label}` : "";
    const marks = all.some(isNoisy) ? "; ~: noisy" : "";
    table.append(make("caption", `${figure.y.label}${over}; darker is more, on a logarithmic scale from ${show(low)} to ${show(high)}${marks}`), top, body);
    const scroll = make("div", undefined, { class: "scroll", tabindex: "0", role: "region", "aria-label": figure.title });
    scroll.append(table);
    return scroll;
  };

  /* ---- sorting ---- */

  const keyOf = (row, column) => {
    const td = row.cells[column];
    return td.dataset.v !== undefined ? Number(td.dataset.v) : td.textContent === "-" || td.textContent === "–" ? null : td.textContent;
  };
  /* Numbers before texts, and what is missing last in both directions. */
  const compare = (a, b, sign) => {
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a === "number" && typeof b === "number") return sign * (a - b);
    if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
    return sign * a.localeCompare(b, "en", { numeric: true });
  };
  const sort = (table, th) => {
    const up = th.getAttribute("aria-sort") !== "ascending", body = table.tBodies[0];
    table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
    th.setAttribute("aria-sort", up ? "ascending" : "descending");
    const rows = [...body.rows].map((row) => ({ row, key: keyOf(row, th.cellIndex) }));
    rows.sort((a, b) => compare(a.key, b.key, up ? 1 : -1));
    body.append(...rows.map((r) => r.row));
  };
  function sortable(table, before) {
    for (const th of table.querySelectorAll("thead th")) {
      const button = make("button", th.textContent, { type: "button" });
      th.replaceChildren(button);
      button.addEventListener("click", () => {
        if (before) before();
        sort(table, th);
      });
    }
  }

  /* ---- the page ---- */

  const start = (element) => {
    const figure = JSON.parse(element.querySelector("script").textContent);
    if (figure.form === "heatmap") {
      element.append(heatmap(figure), addTable(figure));
      return;
    }
    const canvas = make("canvas", undefined, { role: "img", "aria-label": `${figure.title}: ${figure.y.label}${figure.x.label && ` over ${figure.x.label}`}; the values are in the table below` });
    const box = make("div", undefined, { class: "canvas" });
    box.append(canvas);
    const entry = { element, figure, canvas, visible: figure.series.map(() => true) };
    element.append(box, addLegend(entry), addTable(figure));
    charts.push(entry);
  };
  const repaint = () =>
    charts.forEach((entry) => {
      paintLegend(entry);
      if (!entry.chart) return;
      paint(entry.chart);
      entry.chart.update();
    });

  document.querySelectorAll("figure.chart").forEach(start);
  document.querySelectorAll("table.sortable").forEach((table) => { if (!table.querySelector("th button")) sortable(table); });
  const watcher = new IntersectionObserver((seen) => {
    for (const { isIntersecting, target } of seen) {
      if (!isIntersecting) continue;
      draw(charts.find((entry) => entry.element === target));
      watcher.unobserve(target);
    }
  }, { rootMargin: "300px" });
  charts.forEach((entry) => watcher.observe(entry.element));
  dark.addEventListener("change", repaint);
  window.addEventListener("beforeprint", () => {
    printing = true;
    charts.forEach(draw);
    repaint();
    charts.forEach((entry) => entry.chart.resize());
  });
  window.addEventListener("afterprint", () => {
    printing = false;
    repaint();
    charts.forEach((entry) => entry.chart.resize());
  });
  document.documentElement.dataset.ready = "true";
})();
