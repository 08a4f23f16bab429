"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const darkness = matchMedia("(prefers-color-scheme: dark)");
let printing = false;
const drawn = new Set();

const dark = () => darkness.matches && !printing;
const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const faded = (colour, share) => colour + Math.round(255 * share).toString(16).padStart(2, "0");
const shades = {
  few: () => dark() ? [[0, "#1c2530"], [1, "#2f6ea5"]] : [[0, "#f4f8fb"], [1, "#7db8e8"]],  // numbers stay readable on all of these
  all: () => dark() ? [[0, "#1c2530"], [0.5, "#3f8fd0"], [1, "#e3f3ff"]] : [[0, "#f4f8fb"], [0.5, "#4a92c6"], [1, "#08306b"]],
};

function painted(trace) {
  if (trace.type === "image") return trace;
  const { colour, band, own, shades: heat, stroke } = trace.meta;
  if (heat) return { ...trace, colorscale: shades[heat]() };
  const look = (place) => data.looks[place][dark() ? "dark" : "light"];
  if (band !== undefined) return { ...trace, fillcolor: faded(look(band), 0.14) };
  const tone = own ? own[dark() ? 1 : 0] : look(colour);
  const made = { ...trace, line: { ...trace.line, color: tone }, marker: { ...trace.marker, color: tone } };
  if (stroke) made.marker.line = { ...trace.marker.line, color: tone };
  if (trace.error_x) made.error_x = { ...trace.error_x, color: tone };
  if (trace.error_y) made.error_y = { ...trace.error_y, color: ink("--ink") };
  return made;
}

function axis(given) {
  return {
    automargin: true, gridcolor: ink("--rule"), linecolor: ink("--rule"), zerolinecolor: ink("--rule"), tickcolor: ink("--rule"),
    ...given, title: { standoff: 8, ...given.title, font: { size: 12, color: ink("--faint") } },
  };
}

function laid(plot, width) {
  const given = plot.layout, lines = plot.data.filter((trace) => trace.showlegend !== false).map((trace) => trace.name || "");
  const folded = lines.map((name) => name.split("<br>"));
  const across = Math.max(1, Math.floor((width - 20) / (44 + 6.6 * Math.max(1, ...folded.flat().map((line) => line.length)))));
  const deep = Math.max(1, ...folded.map((name) => name.length));
  const legend = given.showlegend === false ? 0 : (6 + 16 * deep) * Math.ceil(lines.length / across) + 10;
  const pictures = plot.kind === "pictures", dots = plot.kind === "dots";
  const left = pictures ? 12 + 6 * Math.max(...given.yaxis.ticktext.flatMap((name) => name.split("<br>")).map((line) => line.length)) : dots ? 12 : 46;
  const body = plot.kind === "matrix" && plot.height > 200 ? Math.min(Math.max(width, 220), 340) : plot.kind === "plane" ? Math.min(width, 420)
    : pictures ? Math.min((width - left - 14) * plot.shape[0] / plot.shape[1], 420) + 36 : plot.height;
  return {
    ...given, width, height: body + legend, paper_bgcolor: ink("--page"), plot_bgcolor: ink("--page"),
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: ink("--ink") },
    margin: { l: left, r: 14, t: dots ? 6 : pictures ? 26 : 12, b: (pictures ? 10 : 44) + legend },
    xaxis: axis(given.xaxis), yaxis: axis(given.yaxis),
    shapes: (given.shapes || []).map((shape) => ({ ...shape, line: { ...shape.line, color: ink("--faint") } })),
    hoverlabel: { bgcolor: ink("--soft"), bordercolor: ink("--rule"), font: { color: ink("--ink"), size: 12 }, align: "left" },
    legend: { orientation: "h", x: 0, xanchor: "left", yref: "container", y: 0, yanchor: "bottom", font: { size: 12 } },
    dragmode: false, hovermode: "closest",
  };
}

function draw(place) {
  const box = document.getElementById("plot-" + place), plot = data.plots[place];
  const layout = laid(plot, box.clientWidth);
  box.style.minHeight = layout.height + "px";
  const hidden = (box.data || []).map((trace) => trace.visible);
  const traces = plot.data.map((trace, i) => ({ ...painted(trace), ...(hidden[i] ? { visible: hidden[i] } : {}) }));
  drawn.add(place);
  return Plotly.react(box, traces, layout, { displayModeBar: false, responsive: false, showTips: false });
}

const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (entry.isIntersecting) {
      seen.unobserve(entry.target);
      draw(Number(entry.target.dataset.plot));
    }
  }
}, { rootMargin: "600px 0px" });
const boxes = [...document.querySelectorAll("[data-plot]")];
const heights = boxes.map((box) => box.clientWidth && laid(data.plots[box.dataset.plot], box.clientWidth).height);
boxes.forEach((box, i) => {  // reserve the final heights, so that links scroll to the right place
  if (heights[i]) box.style.minHeight = heights[i] + "px";
  seen.observe(box);
});

const again = () => drawn.forEach(draw);
darkness.addEventListener("change", again);
let waiting;
let breadth = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === breadth) return;
  breadth = innerWidth;
  clearTimeout(waiting);
  waiting = setTimeout(again, 150);
});
addEventListener("beforeprint", () => { printing = true; again(); });
addEventListener("afterprint", () => { printing = false; again(); });

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.body.appendChild(document.createElement("textarea"));
    area.value = text;
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  const { copied, table, form, save, of } = button.dataset;
  if (save) {
    const place = Number(of), box = document.getElementById("plot-" + place);
    await draw(place);
    const name = box.dataset.name.replace(/[^\w+=.-]+/g, "_") || "figure";
    Plotly.downloadImage(box, { format: save, scale: save === "png" ? 3 : 1, width: box.clientWidth, height: box.layout.height, filename: name });
    return;
  }
  await copy(copied ?? data.tables[Number(table)][form]);
  button.dataset.called ??= button.textContent;
  button.textContent = "copied";
  setTimeout(() => { button.textContent = button.dataset.called; }, 1200);
});
