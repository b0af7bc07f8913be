// SPDX-License-Identifier: MIT
// Elements, and what all pictures share: axes, legends, the tip at the pointer. All text goes in as text, never as
// HTML.

const SVG = "http://www.w3.org/2000/svg";

function add(parent, name, attributes = {}, text = null) {
    const isSvg = parent instanceof SVGElement || name === "svg";
    const element = isSvg ? document.createElementNS(SVG, name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes))
        element.setAttribute(key, value);
    if (text !== null)
        element.textContent = text;
    parent.append(element);
    return element;
}

function color(name) {
    return `var(--${name})`;
}

// A section with a heading and, below it, a remark about what is to be seen.
function addSection(id, title, note = "") {
    const section = add(document.getElementById("main"), "section", {id});
    add(section, "h2", {}, title);
    const body = add(section, "div");
    if (note)
        add(section, "p", {class: "note"}, note);
    return body;
}

function addLegend(parent, entries) {
    const legend = add(parent, "div", {class: "legend"});
    for (const entry of entries) {
        const item = add(legend, "span");
        add(item, "i", {style: `background:${color(entry.color)}`});
        item.append(entry.name);
    }
}

// columns: {name, get(row), number}; what get returns is shown as it is.
function addTable(parent, columns, rows) {
    const table = add(add(parent, "div", {class: "scroll"}), "table");
    const head = add(add(table, "thead"), "tr");
    for (const column of columns)
        add(head, "th", column.number ? {class: "number"} : {}, column.name);
    const body = add(table, "tbody");
    for (const row of rows) {
        const line = add(body, "tr");
        for (const column of columns)
            add(line, "td", column.number ? {class: "number"} : {}, column.get(row));
    }
    return table;
}

// Steps of 1, 2 or 5 times a power of ten, so many at most, up to `most`.
function ticks(least, most, count) {
    const raw = (most - least) / count || 1, power = 10 ** Math.floor(Math.log10(raw));
    const step = power * [1, 2, 5, 10].find(times => times * power >= raw * 0.999);
    const found = [];
    for (let i = Math.ceil(least / step - 1e-9); i * step <= most + step * 1e-9; i++)
        found.push(i * step);
    return found;
}

// The same of bytes, in powers of two.
function byteTicks(most, count) {
    const step = 2 ** Math.ceil(Math.log2(most / count || 1));
    const found = [];
    for (let at = 0; at <= most; at += step)
        found.push(at);
    return found;
}

function showTip(event, text) {
    const tip = document.getElementById("tip");
    tip.hidden = !text;
    if (!text)
        return;
    tip.textContent = text;
    const box = tip.getBoundingClientRect(), far = 14;
    const right = event.clientX + far + box.width < innerWidth;
    const below = event.clientY + far + box.height < innerHeight;
    tip.style.left = Math.max(0, right ? event.clientX + far : event.clientX - far - box.width) + "px";
    tip.style.top = Math.max(0, below ? event.clientY + far : event.clientY - far - box.height) + "px";
}

// What an element of a picture says at the pointer; without one, and to who reads aloud, its title.
function addTip(element, text) {
    element.addEventListener("pointermove", event => showTip(event, text));
    element.addEventListener("pointerleave", event => showTip(event, ""));
    element.setAttribute("aria-label", text);
}

// What is drawn for the width that there is is drawn again when that changes, and for paper.
const drawers = [];

function addDrawing(parent, draw) {
    drawers.push(() => {
        parent.replaceChildren();
        draw(parent, Math.max(parent.clientWidth, 300));
    });
    drawers.at(-1)();
}

function drawAll() {
    for (const draw of drawers)
        draw();
}
