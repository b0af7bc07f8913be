// SPDX-License-Identifier: MIT
// Pictures of SVG: bars in a row, bars in pairs, lines over time. Each takes plain lists and knows nothing of reports.

const ROW = 26, BAR = 16;

// The width of the widest of some words, as the pictures write them; long ones are cut.
function labelWidth(words, most) {
    const pen = document.createElement("canvas").getContext("2d");
    pen.font = "12px system-ui, 'DejaVu Sans', sans-serif";
    return Math.min(most, largest(words.map(word => pen.measureText(word).width)) + 12);
}

function addLabel(svg, word, x, y, width) {
    const text = add(svg, "text", {x, y}, word);
    add(text, "title", {}, word);
    for (let length = word.length; length > 3 && text.getComputedTextLength() > width - 10; length--)
        text.firstChild.data = word.slice(0, length - 1) + "\u2026";
}

// An axis of values below rows; formats them. Returns value -> x.
function addValueAxis(svg, {left, right, bottom, most, format, inBytes}) {
    const count = Math.max(2, Math.min(8, Math.floor((right - left) / 90)));
    const place = value => left + (right - left) * (most > 0 ? value / most : 0);
    for (const value of inBytes ? byteTicks(most, count) : ticks(0, most, count)) {
        add(svg, "line", {class: "grid", x1: place(value), x2: place(value), y1: 0, y2: bottom});
        const anchor = value === 0 ? "start" : place(value) > right - 30 ? "end" : "middle";
        add(svg, "text", {class: "dim", x: place(value), y: bottom + 15, "text-anchor": anchor}, format(value));
    }
    return place;
}

// rows: {label, parts: [{value, color, tip}], end}; parts lie behind each other, `end` is written behind them.
function drawStacked(parent, width, {rows, format}) {
    const left = labelWidth(rows.map(row => row.label), width / 3);
    const end = labelWidth(rows.map(row => row.end ?? ""), width / 4);
    const bottom = rows.length * ROW, right = width - end - 4;
    const svg = add(parent, "svg", {viewBox: `0 0 ${width} ${bottom + 22}`, role: "img"});
    const most = largest(rows.map(row => sum(row.parts.map(part => part.value))));
    const place = addValueAxis(svg, {left, right, bottom, most, format});
    rows.forEach((row, i) => {
        let at = 0;
        addLabel(svg, row.label, 0, i * ROW + 17, left);
        for (const part of row.parts) {
            if (part.value > 0)
                addTip(add(svg, "rect", {x: place(at), y: i * ROW + 5, height: BAR, fill: color(part.color),
                                         width: Math.max(place(at + part.value) - place(at), 0.5)}), part.tip);
            at += part.value;
        }
        if (row.end)
            add(svg, "text", {class: "dim", x: place(at) + 6, y: i * ROW + 17}, row.end);
    });
}

// rows: {label, bars: [{value, color, tip, text}]}; bars lie below each other.
function drawPairs(parent, width, {rows, format}) {
    const HEIGHT = 11, left = labelWidth(rows.map(row => row.label), width / 2.5);
    const step = row => row.bars.length * (HEIGHT + 2) + 10;
    const bottom = sum(rows.map(step)), end = labelWidth(rows.flatMap(row => row.bars.map(bar => bar.text)), 160);
    const svg = add(parent, "svg", {viewBox: `0 0 ${width} ${bottom + 22}`, role: "img"});
    const most = largest(rows.flatMap(row => row.bars.map(bar => bar.value)));
    const place = addValueAxis(svg, {left, right: width - end - 4, bottom, most, format});
    let y = 0;
    for (const row of rows) {
        addLabel(svg, row.label, 0, y + step(row) / 2 + 4, left);
        row.bars.forEach((bar, i) => {
            const top = y + 5 + i * (HEIGHT + 2);
            addTip(add(svg, "rect", {x: left, y: top, height: HEIGHT, fill: color(bar.color),
                                     width: Math.max(place(bar.value) - left, 0.5)}), bar.tip);
            add(svg, "text", {class: "dim", x: place(bar.value) + 6, y: top + HEIGHT - 1}, bar.text);
        });
        y += step(row);
    }
}

// The point of a sorted list whose x is nearest.
function nearest(points, x) {
    let low = 0, high = points.length - 1;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (points[middle].x < x)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && x - points[low - 1].x < points[low].x - x ? low - 1 : low;
}

// So many points that a line of that width looks the same: of each pixel's the least and the largest.
function thin(points, width) {
    if (points.length <= 4 * width)
        return points;
    const kept = [], each = points.length / width;
    for (let i = 0; i < width; i++) {
        const some = points.slice(Math.floor(i * each), Math.floor((i + 1) * each)).filter(one => one.y !== null);
        if (some.length === 0)
            continue;
        const low = some.reduce((a, b) => (b.y < a.y ? b : a)), high = some.reduce((a, b) => (b.y > a.y ? b : a));
        kept.push(...(low.x < high.x ? [low, high] : [high, low]));
    }
    return kept;
}

// y null: a gap. stepped: a value holds until the next one.
function linePath(points, stepped, placeX, placeY) {
    let path = "", before = null;
    for (const point of points) {
        const x = placeX(point.x).toFixed(1), y = point.y === null ? 0 : placeY(point.y).toFixed(1);
        if (point.y !== null)
            path += before === null ? `M${x} ${y}` : stepped ? `H${x}V${y}` : `L${x} ${y}`;
        before = point.y;
    }
    return path;
}

// series: {name, color, dashes, points: [{x, y}] by x}. inBytes: from 0 on.
function drawLines(parent, width, {series, formatX, formatY, stepped, inBytes, height = 220}) {
    const all = series.flatMap(one => one.points).filter(point => point.y !== null);
    const least = inBytes ? 0 : all.reduce((low, one) => Math.min(low, one.y), Infinity);
    let most = all.reduce((high, one) => Math.max(high, one.y), -Infinity);
    if (most === least)
        most = least + (Math.abs(least) || 1) * 0.1;
    const begin = all.reduce((low, one) => Math.min(low, one.x), Infinity);
    let end = all.reduce((high, one) => Math.max(high, one.x), -Infinity);
    if (end === begin)
        end = begin + 1;
    const values = inBytes ? byteTicks(most, 5) : ticks(least, most, 5);
    const left = labelWidth(values.map(formatY), 110), right = width - 16, bottom = height - 24, top = 8;
    const placeX = x => left + (right - left) * (x - begin) / (end - begin);
    const placeY = y => bottom - (bottom - top) * (y - least) / (most - least);
    const svg = add(parent, "svg", {viewBox: `0 0 ${width} ${height}`, role: "img"});
    for (const value of values) {
        add(svg, "line", {class: "grid", x1: left, x2: right, y1: placeY(value), y2: placeY(value)});
        add(svg, "text", {class: "dim", x: left - 6, y: placeY(value) + 4, "text-anchor": "end"}, formatY(value));
    }
    for (const x of ticks(begin, end, Math.max(2, Math.floor(width / 110))))
        add(svg, "text", {class: "dim", x: placeX(x), y: height - 6,
                          "text-anchor": placeX(x) > right - 24 ? "end" : "middle"}, formatX(x));
    for (const one of series)
        add(svg, "path", {class: "line", stroke: color(one.color), "stroke-dasharray": one.dashes ?? "none",
                          d: linePath(thin(one.points, width), stepped, placeX, placeY)});
    const mark = add(svg, "line", {class: "grid", y1: top, y2: bottom, visibility: "hidden"});
    svg.addEventListener("pointermove", event => {
        const at = (event.clientX - svg.getBoundingClientRect().left) * width / svg.clientWidth;
        const x = begin + (end - begin) * (at - left) / (right - left);
        const index = one => nearest(one.points, x);
        const shown = stepped ? Math.min(Math.max(x, begin), end) : series[0].points[index(series[0])].x;
        mark.setAttribute("x1", placeX(shown));
        mark.setAttribute("x2", placeX(shown));
        mark.setAttribute("visibility", "visible");
        showTip(event, [formatX(shown), ...series.slice(0, 12).map(one => {
            let i = index(one);
            if (stepped && i > 0 && one.points[i].x > x)
                i--;
            return `${one.name}: ${one.points[i].y === null ? "NaN" : formatY(one.points[i].y)}`;
        })].join("\n"));
    });
    svg.addEventListener("pointerleave", event => {
        mark.setAttribute("visibility", "hidden");
        showTip(event, "");
    });
}

// A table of numbers with colours: rows send, columns receive.
function addHeat(parent, {names, cells, format, corner}) {
    const table = add(add(parent, "div", {class: "scroll"}), "table");
    const head = add(table, "tr"), most = largest(cells.flat());
    add(head, "th", {}, corner);
    for (const name of names)
        add(head, "th", {class: "number"}, name);
    cells.forEach((row, from) => {
        const line = add(table, "tr");
        add(line, "th", {}, names[from]);
        row.forEach((value, to) => {
            const share = most > 0 ? value / most : 0;
            add(line, "td", {class: "heat", style: `background:rgb(var(--heat), ${(0.5 * share).toFixed(3)})`},
                from === to ? "" : format(value));
        });
    });
    return table;
}
