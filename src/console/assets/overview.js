// The overview's charts: lines that differ in dashes as well as in colour, drawn anew by themselves.
// Each has a table beside it that says the same.
"use strict";
(() => {
  const root = document.querySelector("[data-series]");
  if (!root || !window.uPlot) return;
  const DASHES = [[], [9, 4], [2, 3]];
  const HEIGHT = 190;
  // Seconds that the charts show, also where the server has not run for so long.
  const span = root.dataset.series.includes("span=day") ? 86400 : 3600;
  const style = () => {
    const of = getComputedStyle(document.documentElement);
    return (name) => of.getPropertyValue(name).trim();
  };
  const short = (value) => value == null ? "—" : value.toLocaleString(undefined, { maximumFractionDigits: value < 10 ? 2 : 0 });

  const drawn = new Map();
  const columns = (series, chart) => {
    const value = (value, at) => value == null ? null : chart.is_count ? value / Math.max(series.seconds[at], 0.001) : value;
    return [series.at, ...chart.lines.map((line) => line.values.map(value))];
  };
  const options = (chart, width) => {
    const colour = style();
    const axis = { stroke: colour("--ink-soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
    return {
      width,
      height: HEIGHT,
      cursor: { y: false, drag: { x: false, y: false } },
      scales: { x: { range: () => { const now = Date.now() / 1000; return [now - span, now]; } }, y: { range: (_, low, high) => [0, Math.max(high * 1.1, 1)] } },
      axes: [axis, { ...axis, size: 56, values: (_, marks) => marks.map(short) }],
      series: [
        { label: "Until", value: (_, at) => at == null ? "—" : new Date(at * 1000).toLocaleTimeString() },
        ...chart.lines.map((line, index) => ({
          label: line.name,
          stroke: colour(`--chart-${index + 1}`),
          dash: DASHES[index],
          width: 2,
          points: { show: false },
          spanGaps: false,
          value: (_, value) => short(value),
        })),
      ],
      legend: { markers: { dash: (_, index) => ["solid", "dashed", "dotted"][index - 1] ?? "solid", width: 2 } },
    };
  };
  const draw = (series, afresh) => {
    for (const chart of series.charts) {
      const place = root.querySelector(`[data-chart="${CSS.escape(chart.id)}"]`);
      if (!place) continue;
      const data = columns(series, chart);
      const plot = drawn.get(chart.id);
      if (plot && !afresh) { plot.setData(data); continue; }
      plot?.destroy();
      drawn.set(chart.id, new uPlot(options(chart, place.clientWidth), data, place));
    }
  };

  let latest = null;
  const refresh = async () => {
    if (document.hidden) return;
    try {
      const answer = await fetch(root.dataset.series, { headers: { "HX-Request": "true" } });
      if (!answer.ok || !answer.headers.get("content-type")?.includes("json")) return;
      const first = latest === null;
      latest = await answer.json();
      draw(latest, first);
    } catch { /* The server is away: the charts stand still until it is back. */ }
  };
  refresh();
  setInterval(refresh, 10000);
  document.addEventListener("visibilitychange", refresh);
  const again = () => { if (latest) draw(latest, true); };
  let settled = 0;
  addEventListener("resize", () => { clearTimeout(settled); settled = setTimeout(again, 150); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
})();
