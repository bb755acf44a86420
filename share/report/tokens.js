// An answer as text whose tokens are coloured by log-probability. How they are told apart: src/run/report_samples.h.

const digits = new Map([..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"].map((digit, value) => [digit, value]));

function lengthsOf(text) {
    const lengths = [];
    let sum = 0;
    for (const digit of text) {
        sum += digits.get(digit);
        if (digits.get(digit) < 63) lengths.push(sum), sum = 0;
    }
    return lengths;
}

function logprobsOf(text) {
    const values = [];
    for (let i = 0; i + 1 < text.length; i += 2) {
        const code = 64 * digits.get(text[i]) + digits.get(text[i + 1]);
        values.push(code === 4095 ? NaN : code === 4094 ? -Infinity : -40 * (code / 4000) ** 2);
    }
    return values;
}

// Control characters are shown as pictures and those that turn the direction of text by name; line feeds and tabs stay.
const visible = (text) => text.replace(/[\u0000-\u0008\u000b-\u001f\u007f]/g, (character) =>
    String.fromCharCode(character === "\u007f" ? 0x2421 : 0x2400 + character.charCodeAt(0)))
    .replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, (character) => "‹U+" + character.charCodeAt(0).toString(16).toUpperCase() + "›");

// 0 (probability 1) to 9 (probability e^-5 or less).
const heat = (logprob) => (Number.isNaN(logprob) ? "n" : Math.min(9, Math.round(-logprob * 1.8)));

// The answer's tokens as elements, the text alone where they are not told apart.
function tokensView(text, marks, logprobs, coloured) {
    const lengths = lengthsOf(marks), values = logprobsOf(logprobs), view = h("div", { class: "answer" });
    if (!coloured || !lengths.length || lengths.length !== values.length) {
        view.append(visible(text));
        return view;
    }
    let at = 0;
    lengths.forEach((length, index) => {
        const piece = text.slice(at, at + length);
        at += length;
        const shown = visible(piece), feed = /\n/.test(piece);
        view.append(h("span", {
            class: "t t" + heat(values[index]) + (feed ? " feed" : "") + (length ? "" : " none"), "data-i": index, "data-p": values[index], "data-t": piece,
        }, shown));
    });
    if (at < text.length) view.append(visible(text.slice(at)));
    const point = (event) => {
        const token = event.target.closest(".t");
        if (!token) return hideTip();
        const logprob = Number(token.dataset.p), piece = token.dataset.t;
        showTip(event.clientX, event.clientY, h("div", { class: "mono" }, piece ? JSON.stringify(piece) : "(no text: a special token, or part of a character)"),
            h("table", {}, h("tr", {}, h("td", { class: "soft" }, "probability"), h("td", { class: "num" }, percent(Math.exp(logprob)))),
                h("tr", {}, h("td", { class: "soft" }, "log-probability"), h("td", { class: "num" }, number(logprob))),
                h("tr", {}, h("td", { class: "soft" }, "token"), h("td", { class: "num" }, Number(token.dataset.i) + 1 + " of " + lengths.length))));
    };
    view.addEventListener("pointermove", point);
    view.addEventListener("pointerdown", point);
    view.addEventListener("pointerleave", hideTip);
    return view;
}

const heatLegend = () => h("span", { class: "control heat-legend" }, "probability",
    [["1", 0], ["0.6", 1], ["0.3", 2], ["0.1", 4], ["0.02", 7], ["0.007", 9]].map(([text, level]) => h("span", { class: "t t" + level }, text)));

const roleTitles = { system: "System", user: "Question", assistant: "Earlier answer", tool: "Tool" };
function promptView(messages) {
    return messages.map(([role, text]) => h("div", { class: "message" }, h("div", { class: "role" }, roleTitles[role] || role), h("div", { class: "answer" }, visible(text))));
}

function rewardPill(reward, low, high) {
    const value = real(reward);
    const level = !Number.isFinite(value) ? "none" : value >= high ? "full" : value > low ? "part" : "zero";
    return h("span", { class: "pill " + level }, value === null ? "unscored" : number(value));
}
