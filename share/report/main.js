// The page: its parts, the runs to choose from, the theme, and reading itself again.

const anyRun = (has) => runs.some(has);
const parts = [
    { id: "comparison", title: "Comparison", show: comparison, there: Boolean(data.summary) },
    { id: "overview", title: "Overview", show: overview, there: true },
    { id: "curves", title: "Curves", show: curves, there: true, count: metricNames.length },
    { id: "rollouts", title: "Rollouts", show: rollouts, there: true, count: runs.reduce((sum, run) => sum + (run.rollouts ? run.rollouts.reward.length : 0), 0) },
    { id: "validation", title: "Validation", show: validation, there: true },
    { id: "memory", title: "Memory", show: memory, there: true },
    { id: "time", title: "Time", show: timing, there: true },
    { id: "settings", title: "Settings", show: settings, there: true },
    { id: "environment", title: "Environment", show: environment, there: true },
].filter((part) => part.there);

const chosenPart = () => parts.find((part) => "#" + part.id === location.hash) || parts[0];

function showPart() {
    const part = chosenPart(), place = document.getElementById("part");
    clearCharts();
    place.replaceChildren();
    for (const link of document.getElementById("tabs").children) {
        if (link.hash !== "#" + part.id) { link.removeAttribute("aria-current"); continue; }
        link.setAttribute("aria-current", "page");
        link.parentElement.scrollLeft = link.offsetLeft - (link.parentElement.clientWidth - link.offsetWidth) / 2; // where not all have room
    }
    place.className = "part-" + part.id;
    document.getElementById("runs").hidden = runs.length < 2 || part.id === "comparison"; // which tells of all
    part.show(place);
    keep();
}

function showTabs() {
    document.getElementById("tabs").replaceChildren(...parts.map((part) => h("a", { href: "#" + part.id }, part.title,
        part.count > 0 && h("span", { class: "count" }, part.count.toLocaleString("en")))));
}

function showRuns() {
    const place = document.getElementById("runs");
    place.replaceChildren(...runs.map((run) => h("button", {
        class: "chip", type: "button", color: run.color, "aria-pressed": String(!state.hidden[run.name]), title: run.folder,
        onclick: (event) => {
            if (state.hidden[run.name]) delete state.hidden[run.name];
            else state.hidden[run.name] = true;
            event.currentTarget.setAttribute("aria-pressed", String(!state.hidden[run.name]));
            showPart();
        },
    }, h("span", { class: "dot" }), h("span", {}, run.name))));
}

function showNotes() {
    const list = runs.flatMap((run) => run.notes.map((note) => (runs.length > 1 ? run.name + ": " : "") + note));
    if (!list.length) return;
    document.getElementById("notes").append(h("details", { class: "notes", open: list.length <= 3 },
        h("summary", {}, list.length === 1 ? "One thing to know about these files" : list.length + " things to know about these files"), h("ul", {}, list.map((note) => h("li", {}, note)))));
}

// ---- theme

const sun = "M12 8a4 4 0 1 0 0 8a4 4 0 1 0 0-8M12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.4 1.4M17.6 17.6L19 19M5 19l1.4-1.4M17.6 6.4L19 5";
const moon = "M20 14.5A8.5 8.5 0 1 1 9.5 4a7 7 0 0 0 10.5 10.5z";

function setTheme(theme, chosen) {
    document.documentElement.dataset.theme = theme;
    if (chosen) try { localStorage.setItem("whet-theme", theme); } catch (error) { /* no storage: for this time only */ }
    const button = document.getElementById("theme"), other = theme === "dark" ? "light" : "dark";
    button.replaceChildren(svg(theme === "dark" ? sun : moon));
    button.title = "Switch to the " + other + " theme";
    button.setAttribute("aria-label", button.title);
    button.onclick = () => { setTheme(other, true), showRuns(), showPart(); };
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => {
    let chosen = null;
    try { chosen = localStorage.getItem("whet-theme"); } catch (error) { /* none */ }
    if (!chosen) setTheme(event.matches ? "dark" : "light", false), showRuns(), showPart();
});

// ---- a page that is written again while the run goes on

function readAgain() {
    if (!(data.refresh > 0)) return;
    document.getElementById("live").hidden = false;
    document.getElementById("live").title = "reads itself again every " + data.refresh + " s";
    const busy = () => document.hidden || /^(INPUT|SELECT)$/.test(document.activeElement.tagName) || String(getSelection()) !== "" || !tip.hidden;
    setInterval(() => {
        if (busy()) return;
        state.scroll = scrollY;
        keep();
        location.reload();
    }, 1000 * data.refresh);
}

// ---- begin

const title = data.title || runs.map((run) => run.name).join(", ");
document.title = title + " – whet report";
document.getElementById("title").textContent = title;
document.getElementById("footer").textContent = "Written by whet report, " + new Date(data.generated).toLocaleString() + ". Charts: Chart.js " + Chart.version + " (MIT).";
Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
history.scrollRestoration = "manual";
setTheme(document.documentElement.dataset.theme, false);
showTabs();
showRuns();
showNotes();
showPart();
scrollTo(0, state.scroll);
state.scroll = 0;
addEventListener("hashchange", () => { showPart(); scrollTo(0, 0); });
addEventListener("pagehide", keep);
readAgain();
