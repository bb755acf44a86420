// Charts: lines over steps with a common pointer, zoom and smoothing, and stacked bars. Chart.js draws; the tip is ours.

const charts = new Set(); // on the page
const pointer = { step: null, chart: null };
const zoom = { range: null }; // of steps, for all line charts

const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function clearCharts() {
    for (const chart of charts) chart.destroy();
    charts.clear();
    pointer.step = pointer.chart = null;
    hideTip();
}

// Draws when it comes into view.
const coming = new IntersectionObserver((entries) => {
    for (const entry of entries)
        if (entry.isIntersecting) {
            coming.unobserve(entry.target);
            entry.target.draw();
        }
}, { rootMargin: "300px" });

function plot(draw, tall) {
    const canvas = h("canvas", { role: "img" }), box = h("div", { class: tall ? "plot tall" : "plot" }, canvas);
    box.draw = () => { if (box.isConnected) charts.add(draw(canvas)); };
    coming.observe(box);
    return box;
}

// The pointer's line, and a mark at the top for each value that is no number.
const marks = {
    id: "marks",
    afterDatasetsDraw(chart) {
        const { ctx, chartArea: area, scales } = chart;
        if (!scales.x || !chart.lines) return;
        ctx.save();
        for (const line of chart.lines) {
            ctx.strokeStyle = line.color;
            ctx.lineWidth = 1.5;
            for (const [step, value] of line.points) {
                const x = scales.x.getPixelForValue(step), y = value === -Infinity ? area.bottom - 5 : area.top + 5;
                if (Number.isFinite(value) || x < area.left || x > area.right) continue;
                ctx.beginPath();
                ctx.moveTo(x - 3, y - 3), ctx.lineTo(x + 3, y + 3), ctx.moveTo(x - 3, y + 3), ctx.lineTo(x + 3, y - 3);
                ctx.stroke();
            }
        }
        if (pointer.step !== null) {
            const x = scales.x.getPixelForValue(pointer.step);
            if (x >= area.left && x <= area.right) {
                ctx.strokeStyle = variable("--faint");
                ctx.lineWidth = 1;
                ctx.setLineDash([3, 3]);
                ctx.beginPath();
                ctx.moveTo(x, area.top), ctx.lineTo(x, area.bottom);
                ctx.stroke();
                ctx.setLineDash([]);
                for (const line of chart.lines) {
                    const at = line.drawn.find(([step]) => step === pointer.step);
                    if (!at || !Number.isFinite(at[1])) continue;
                    ctx.fillStyle = line.color;
                    ctx.beginPath();
                    ctx.arc(x, scales.y.getPixelForValue(at[1]), 3.5, 0, 2 * Math.PI);
                    ctx.fill();
                }
            }
        }
        if (chart.dragged) {
            const [from, to] = chart.dragged;
            ctx.fillStyle = variable("--accent");
            ctx.globalAlpha = 0.14;
            ctx.fillRect(Math.min(from, to), area.top, Math.abs(to - from), area.bottom - area.top);
        }
        ctx.restore();
    },
};
Chart.register(marks);

// The first of 1, 2, 5, 10, 20 … (and 0.5, 0.2 …) that is not below.
function roundUp(least) {
    const power = 10 ** Math.floor(Math.log10(least));
    return power * [1, 2, 5, 10].find((step) => step * power >= least * (1 - 1e-9));
}

// Steps of bytes and seconds are round in the unit of the highest tick; all others Chart.js finds itself.
function stepOf(format, range, highest) {
    if (!unitOf(format, highest) || !(range > 0)) return undefined;
    const least = format === bytes ? 1 : format === mebibytes ? 1 / 1048576 : 0;
    const step = ({ size }) => Math.max(least, size * roundUp(range / 5 / size));
    const first = step(unitOf(format, highest));
    return step(unitOf(format, Math.ceil(highest / first) * first));
}

// As many digits as tell the ticks of an axis apart.
function tickLabel(format, log) {
    return (value, index, ticks) => {
        const gap = ticks.length > 1 ? Math.abs(ticks[1].value - ticks[0].value) : 0, highest = Math.max(...ticks.map((tick) => Math.abs(tick.value)));
        const digits = (step) => Math.min(9, Math.max(0, Math.ceil(-Math.log10(step) - 1e-9))), unit = unitOf(format, highest);
        if (log || !(gap > 0)) return trimmed(format(value));
        if (unit) return trimmed(fixed(value / unit.size, digits(gap / unit.size))) + "\u202f" + unit.name;
        if (format === number && highest >= 1e-3 && highest < 1e7) return trimmed(fixed(value, digits(gap)));
        return trimmed(format(value));
    };
}

function axes(format, log, [low, high], steps) {
    const ticks = { color: variable("--soft"), font: { size: 11 }, maxRotation: 0 };
    return {
        x: {
            type: "linear", min: (zoom.range || steps)[0], max: (zoom.range || steps)[1],
            grid: { display: false, drawBorder: false }, ticks: { ...ticks, precision: 0, maxTicksLimit: 7, autoSkipPadding: 14, includeBounds: false },
        },
        y: {
            type: log ? "logarithmic" : "linear", grid: { color: variable("--grid"), drawBorder: false, drawTicks: false },
            ticks: { ...ticks, padding: 8, maxTicksLimit: 6, callback: tickLabel(format, log), stepSize: log ? undefined : stepOf(format, high - low, high) },
        },
    };
}

const calm = { animation: false, responsive: true, maintainAspectRatio: false, normalized: true, parsing: false, events: [] };

// One metric of the runs shown. lines: [{label, color, points: [[step, value], …], faint?}]
function lineChart(canvas, { name, lines, format, window, log }) {
    const scarce = Math.max(...lines.map((line) => line.points.length)) <= 24;
    for (const line of lines) line.drawn = smooth(line.points, window || 1);
    const set = (line, points, alpha, width) => ({
        data: points.map(([x, y]) => ({ x, y: Number.isFinite(y) && !(log && y <= 0) ? y : NaN })), borderColor: line.color + alpha,
        backgroundColor: line.color + alpha, borderWidth: width, pointRadius: scarce && alpha === "" ? 2.5 : 0, borderJoinStyle: "round",
        clip: 6,
    });
    const sets = [], values = finite(lines.flatMap((line) => line.points.map(([, value]) => value))), low = Math.min(...values), high = Math.max(...values);
    const ends = lines.flatMap((line) => (line.points.length ? [line.points[0][0], last(line.points)[0]] : []));
    const steps = ends.length ? [Math.min(...ends), Math.max(...ends)] : [0, 1];
    if (steps[0] === steps[1]) steps[0]--, steps[1]++;
    for (const line of lines) {
        sets.push(set(line, line.drawn, "", 1.75));
        if (window > 1) sets.push(set(line, line.points, "48", 1));
    }
    const chart = new Chart(canvas, {
        type: "line", data: { datasets: sets },
        options: { ...calm, layout: { padding: { top: 6, right: 8 } }, scales: axes(format, log, [low, high], steps), plugins: { legend: { display: false }, tooltip: { enabled: false } } },
    });
    chart.lines = lines;
    chart.format = format;
    chart.steps = steps;
    canvas.setAttribute("aria-label", name + " by step");
    chart.draw(); // once more, with what the marks need
    listen(chart, canvas);
    return chart;
}

// ---- the pointer

function nearestStep(chart, x) {
    const value = chart.scales.x.getValueForPixel(x);
    let best = null;
    for (const line of chart.lines)
        for (const [step] of line.points)
            if (best === null || Math.abs(step - value) < Math.abs(best - value)) best = step;
    return best;
}

function redraw() {
    for (const chart of charts) if (chart.lines) chart.draw();
}

function pointAt(chart, event) {
    const box = chart.canvas.getBoundingClientRect(), x = event.clientX - box.left;
    const step = nearestStep(chart, x);
    if (step === null) return;
    if (step !== pointer.step) pointer.step = step, redraw();
    const rows = chart.lines.map((line) => {
        const raw = line.points.find(([at]) => at === step), drawn = line.drawn.find(([at]) => at === step);
        return raw && { line, raw: raw[1], drawn: drawn[1] };
    }).filter(Boolean).sort((a, b) => b.raw - a.raw);
    const smoothed = chart.lines.some((line) => line.drawn !== line.points);
    showTip(event.clientX, event.clientY, h("div", { class: "head" }, "step " + step.toLocaleString("en"), smoothed && " · mean, then value"),
        h("table", {}, rows.map(({ line, raw, drawn }) => h("tr", {},
            h("td", {}, h("span", { class: "run-name" }, h("span", { class: "dot", color: line.color }), h("span", { class: "name" }, line.label))),
            smoothed && h("td", { class: "num" }, chart.format(drawn)),
            h("td", { class: smoothed ? "num soft" : "num" }, chart.format(raw))))));
}

function unpoint() {
    hideTip();
    if (pointer.step === null) return;
    pointer.step = null;
    redraw();
}

function setZoom(range) {
    zoom.range = range;
    for (const chart of charts) {
        if (!chart.lines) continue;
        [chart.options.scales.x.min, chart.options.scales.x.max] = range || chart.steps;
        chart.update("none");
    }
    document.dispatchEvent(new Event("zoomed"));
}

function listen(chart, canvas) {
    const at = (event) => event.clientX - canvas.getBoundingClientRect().left;
    canvas.addEventListener("pointermove", (event) => {
        if (chart.dragged) chart.dragged[1] = at(event), chart.draw();
        pointAt(chart, event);
    });
    canvas.addEventListener("pointerdown", (event) => {
        pointAt(chart, event);
        if (event.pointerType !== "mouse" || event.button !== 0) return;
        canvas.setPointerCapture(event.pointerId);
        chart.dragged = [at(event), at(event)];
    });
    canvas.addEventListener("pointerup", () => {
        if (!chart.dragged) return;
        const [from, to] = chart.dragged.map((x) => chart.scales.x.getValueForPixel(x)), wide = Math.abs(chart.dragged[1] - chart.dragged[0]) > 8;
        chart.dragged = null;
        if (wide) setZoom([Math.ceil(Math.min(from, to)), Math.max(Math.floor(Math.max(from, to)), Math.ceil(Math.min(from, to)) + 1)]);
        else chart.draw();
    });
    canvas.addEventListener("pointerleave", unpoint);
    canvas.addEventListener("dblclick", () => setZoom(null));
}

// ---- stacked bars

// labels: of the bars; sets: [{label, color, values}]; lying: bars from left to right.
function barChart(canvas, { name, labels, sets, format, lying, head = String }) {
    const ticks = { color: variable("--soft"), font: { size: 11 }, maxRotation: 0 };
    const highest = Math.max(...labels.map((_, index) => sets.reduce((sum, set) => sum + set.values[index], 0)));
    const value = { stacked: true, grid: { color: variable("--grid"), drawBorder: false, drawTicks: false }, ticks: { ...ticks, padding: 6, maxTicksLimit: 6, callback: tickLabel(format, false), stepSize: stepOf(format, highest, highest) } };
    const gap = roundUp(labels.length / 9); // standing bars have numbers, and show the round ones
    const label = { stacked: true, grid: { display: false, drawBorder: false }, ticks: { ...ticks, color: lying ? variable("--ink") : ticks.color, autoSkip: false, callback: (_, index) => (lying || labels[index] % gap === 0 ? labels[index] : null) } };
    const chart = new Chart(canvas, {
        type: "bar",
        data: {
            labels, datasets: sets.map((set) => ({
                data: set.values, backgroundColor: set.color, label: set.label, barPercentage: lying ? 0.8 : 1,
                categoryPercentage: lying ? 0.9 : labels.length > 60 ? 1 : 0.9,
            })),
        },
        options: {
            ...calm, parsing: undefined, normalized: false, indexAxis: lying ? "y" : "x", layout: { padding: { right: 8 } },
            scales: lying ? { x: value, y: label } : { x: label, y: value }, plugins: { legend: { display: false }, tooltip: { enabled: false } },
        },
    });
    canvas.setAttribute("aria-label", name);
    canvas.addEventListener("pointermove", (event) => {
        const box = canvas.getBoundingClientRect();
        const scale = lying ? chart.scales.y : chart.scales.x;
        const index = scale.getValueForPixel(lying ? event.clientY - box.top : event.clientX - box.left);
        if (index < 0 || index >= labels.length) return hideTip();
        const rows = sets.filter((set) => set.values[index] > 0), total = rows.reduce((sum, set) => sum + set.values[index], 0);
        showTip(event.clientX, event.clientY, h("div", { class: "head" }, head(labels[index])),
            h("table", {}, rows.map((set) => h("tr", {},
                h("td", {}, h("span", { class: "run-name" }, h("span", { class: "swatch", color: set.color }), set.label)),
                h("td", { class: "num" }, format(set.values[index])), h("td", { class: "num soft" }, percent(set.values[index] / total)))),
            h("tr", {}, h("td", {}, "together"), h("td", { class: "num" }, format(total)), h("td", {}))));
    });
    canvas.addEventListener("pointerleave", hideTip);
    return chart;
}

function legend(sets) {
    return h("div", { class: "controls legend" }, sets.map((set) =>
        h("span", { class: "control" }, h("span", { class: "swatch", color: set.color }), set.label)));
}
