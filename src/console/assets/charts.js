// Charts of the tables beside them: lines that differ in dashes as well as in colour, each with its
// name at its end. A chart says nothing that its table does not.
"use strict";
(() => {
  if (!window.uPlot) return;
  const DASHES = [[], [10, 4], [2, 3], [12, 3, 2, 3], [5, 2], [16, 3, 2, 3, 2, 3]];
  const HEIGHT = 260, DAY = 86400;
  const NAME_APART = 14, SAMPLE = 18;
  // How wide the names of a picture's lines may be.
  const room = (width) => Math.min(150, width * 0.3);
  const FONT = "12px system-ui, sans-serif";
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const short = (value) => value.toLocaleString(undefined, { maximumFractionDigits: value < 10 ? 2 : 0 });
  const long = (seconds) => {
    const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
    const [size, unit] = units.find(([size]) => seconds >= size) ?? [0.001, "ms"];
    return `${short(seconds / size)} ${unit}`;
  };
  const bytes = (count) => {
    const units = [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [1024, "KiB"], [1, "B"]];
    const [size, unit] = units.find(([size]) => count >= size) ?? [1, "B"];
    return `${short(count / size)} ${unit}`;
  };
  const WORDS = { count: short, seconds: (value) => value === 0 ? "0" : long(value), bytes };
  // Marks are whole where things are counted, and round minutes and hours where time is.
  const WHOLE = [...Array(15).keys()].flatMap((power) => [1, 2, 5].map((step) => step * 10 ** power));
  const DOUBLED = [...Array(50).keys()].map((power) => 2 ** power);
  const ROUND = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 432000, 864000, 1728000, 4320000, 8640000];

  // What the table says, oldest first.
  const read = (table) => {
    const heads = [...table.querySelectorAll("thead th.number")];
    const drawn = heads.flatMap((head, column) => head.hasAttribute("data-drawn") ? [column] : []);
    const rows = [...table.querySelectorAll("tbody tr")].reverse();
    const cells = rows.map((row) => row.querySelectorAll("td"));
    const value = (cell) => cell.dataset.value === undefined ? null : Number(cell.dataset.value);
    return {
      names: drawn.map((column) => heads[column].textContent),
      columns: [
        rows.map((row) => Date.parse(row.querySelector("time").dateTime) / 1000),
        ...drawn.map((column) => cells.map((row) => value(row[column]))),
      ],
      words: WORDS[table.dataset.unit],
      steps: { count: WHOLE, seconds: ROUND, bytes: DOUBLED }[table.dataset.unit],
    };
  };

  // Each line's name where the line ends, none over another, with a piece of the line before it.
  const nameLines = (plot) => {
    const { ctx } = plot, ratio = uPlot.pxRatio;
    const named = plot.series.slice(1).flatMap((series, index) => {
      const values = plot.data[index + 1];
      const last = values.findLastIndex((value) => value != null);
      return last < 0 ? [] : [{ series, at: plot.valToPos(values[last], "y", true) }];
    });
    named.sort((one, other) => one.at - other.at);
    const { top, height, left, width } = plot.bbox;
    const apart = NAME_APART * ratio;
    let free = top;
    for (const one of named) { one.at = Math.max(one.at, free); free = one.at + apart; }
    let last = top + height;
    for (const one of named.toReversed()) { one.at = Math.min(one.at, last); last = one.at - apart; }
    ctx.save();
    ctx.font = FONT.replace(/^\d+/, (size) => size * ratio);
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    ctx.fillStyle = colour("--ink");
    for (const { series, at } of named) {
      const x = left + width + 8 * ratio;
      ctx.strokeStyle = series.stroke();
      ctx.lineWidth = 2 * ratio;
      ctx.setLineDash(series.dash.map((length) => length * ratio));
      ctx.beginPath();
      ctx.moveTo(x, at);
      ctx.lineTo(x + SAMPLE * ratio, at);
      ctx.stroke();
      ctx.fillText(fitting(ctx, series.label, room(plot.width) * ratio), x + (SAMPLE + 5) * ratio, at);
    }
    ctx.restore();
  };
  const fitting = (ctx, name, width) => {
    if (ctx.measureText(name).width <= width) return name;
    const letters = [...name];
    // Names may differ at their ends alone, which stay.
    const end = letters.splice(-9).join("");
    while (letters.length > 1 && ctx.measureText(`${letters.join("")}…${end}`).width > width) letters.pop();
    return `${letters.join("")}…${end}`;
  };

  // What stands below the marks of the axis of time, in UTC as in the table.
  const times = (shown) => new Intl.DateTimeFormat(undefined, { timeZone: "UTC", ...shown });
  const clock = times({ hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const day = times({ day: "numeric", month: "short" });
  const month = times({ month: "short", year: "numeric" });
  const dates = (_, marks, axis, space, step) => marks.map((mark) => {
    const within = step < DAY && mark % DAY !== 0;
    return (within ? clock : step < 28 * DAY ? day : month).format(mark * 1000);
  });

  // Where points are too many to be marked, those are that no line leads to or from.
  const lonely = (plot, index, all) => {
    if (all) return null;
    const values = plot.data[index];
    const found = [...values.keys()].filter((at) => values[at] != null && values[at - 1] == null && values[at + 1] == null);
    return found.length > 0 ? found : null;
  };

  const options = ({ names, words, steps }, width) => {
    const axis = { stroke: colour("--ink-soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
    const around = (_, low, high) => low === high ? [low - DAY, high + DAY] : [low, high];
    return {
      width,
      height: HEIGHT,
      padding: [10, room(width) + SAMPLE + 15, 0, 0],
      cursor: { show: false },
      legend: { show: false },
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      scales: { x: { range: around }, y: { range: (_, low, high) => [Math.min(low, 0), Math.max(high * 1.08, steps[0])] } },
      axes: [{ ...axis, space: 64, values: dates }, { ...axis, size: 62, incrs: steps, values: (_, marks) => marks.map(words) }],
      series: [
        {},
        ...names.map((label, index) => ({
          label,
          stroke: colour(`--chart-${index + 1}`),
          dash: DASHES[index],
          width: 2,
          spanGaps: false,
          points: { size: 5, filter: lonely },
        })),
      ],
      hooks: { draw: [nameLines] },
    };
  };

  const drawn = new Map();
  const draw = () => {
    for (const figure of document.querySelectorAll(".figure")) {
      const place = figure.querySelector(".plot");
      const lines = read(figure.querySelector("table"));
      place.hidden = false;
      drawn.get(place)?.destroy();
      drawn.set(place, new uPlot(options(lines, place.clientWidth), lines.columns, place));
      place.dataset.drawn = lines.names.map((name, index) => `${name} ${DASHES[index].join(" ") || "solid"}`).join("; ");
    }
  };
  draw();
  let settled = 0;
  addEventListener("resize", () => { clearTimeout(settled); settled = setTimeout(draw, 150); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
