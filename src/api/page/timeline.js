// SPDX-License-Identifier: MIT
// The time line: a lane per thing that a rank does, on a canvas, since there may be many thousands of spans. What is
// narrower than a pixel is drawn once per pixel.

const LANE_GAP = 2, AXIS = 24;

// What is not told by its lane.
const SPAN_COLORS = {
    "set up": "setup", "wait for operands": "scatter", "wait for results to leave": "gather", "multiply": "compute",
    "check": "verify", "upload": "copy", "download": "copy", "commit": "commit",
};
const TIME_COLORS = [
    {name: "operation, with its waits", color: "speed"}, {name: "compute", color: "compute"},
    {name: "check", color: "verify"}, {name: "wait for operands", color: "scatter"},
    {name: "wait for results to leave", color: "gather"}, {name: "moves of values, blocks, panels", color: "move"},
    {name: "copies, files", color: "copy"}, {name: "set-up", color: "setup"}, {name: "commit", color: "commit"},
];

function spanColor(name, lane) {
    if (lane === "operations")
        return name.startsWith("move") ? "move" : "speed";
    if (SPAN_COLORS[name])
        return SPAN_COLORS[name];
    return /files|write-back/.test(lane) ? "copy" : "move";
}

// [{rank, name, spans: [{begin, end, name, color, args}]}] in order of ranks, by begin. Seconds.
function lanesOfTrace() {
    const lanes = new Map(), names = new Map();
    for (const event of trace.traceEvents)
        if (event.ph === "M" && event.name === "thread_name")
            names.set(`${event.pid}/${event.tid}`, event.args.name);
    for (const event of trace.traceEvents) {
        const key = `${event.pid}/${event.tid}`, name = names.get(key) ?? String(event.tid);
        if (event.ph !== "X")
            continue;
        if (!lanes.has(key))
            lanes.set(key, {rank: event.pid, order: event.tid, name, spans: []});
        lanes.get(key).spans.push({begin: event.ts / 1e6, end: (event.ts + event.dur) / 1e6, name: event.name,
                                   color: spanColor(event.name, name), args: event.args ?? {}});
    }
    for (const lane of lanes.values())
        lane.spans.sort((a, b) => a.begin - b.begin || b.end - a.end);
    return [...lanes.values()].sort((a, b) => a.rank - b.rank || a.order - b.order);
}

// Of a report without a trace.
function lanesOfReport() {
    return report.ranks.map((rank, i) => ({
        rank: rank.rank, name: "operations", spans: report.operations.map(operation => {
            const part = operation.ranks[i], name = operationName(operation);
            return {begin: part.begin_seconds, end: part.end_seconds, name, color: spanColor(name, "operations"),
                    args: {wait_us: 1e6 * part.wait_seconds, work_us: 1e6 * part.work_seconds,
                           check_us: 1e6 * part.check_seconds, shape: operation.shape,
                           placement: operation.placement}};
        }),
    }));
}

function argText(key, value) {
    if (key.endsWith("_us"))
        return `${key.slice(0, -3)}: ${formatSeconds(value / 1e6)}`;
    if (key === "bytes" || key.endsWith("_bytes"))
        return `${key.replaceAll("_", " ")}: ${formatBytes(value)}`;
    return `${key.replaceAll("_", " ")}: ${value}`;
}

function spanText(lane, span) {
    return [span.name, `rank ${lane.rank}, ${lane.name}`,
            `${formatSeconds(span.begin)} + ${formatSeconds(span.end - span.begin)}`,
            ...Object.entries(span.args).map(([key, value]) => argText(key, value))].join("\n");
}

class Timeline {
    constructor(parent, lanes) {
        this.lanes = lanes;
        this.begin = lanes.reduce((low, lane) => Math.min(low, lane.spans[0].begin), 0);
        this.end = lanes.reduce((high, lane) => lane.spans.reduce((most, one) => Math.max(most, one.end), high),
                                report?.wall_seconds || 1e-9);
        this.height = lanes.length > 400 ? 4 : lanes.length > 120 ? 8 : 15;
        this.place();
        this.addControls(parent);
        this.canvas = add(parent, "canvas", {tabindex: 0, role: "img", "aria-label": "time line of all lanes"});
        this.showAll();
        this.listen();
    }

    // Tops of lanes: a rank has a heading.
    place() {
        let y = AXIS, rank = -1;
        for (const lane of this.lanes) {
            if (lane.rank !== rank)
                y += 20;
            rank = lane.rank;
            lane.top = y;
            y += this.height + LANE_GAP;
        }
        this.bottom = y + 4;
        this.left = this.height < 12 ? 8 : labelWidth(this.lanes.map(lane => lane.name), 150) + 6;
    }

    addControls(parent) {
        const controls = add(parent, "div", {class: "controls"});
        for (const [name, act] of [["all", () => this.showAll()], ["+", () => this.zoom(0.5)],
                                   ["\u2212", () => this.zoom(2)], ["\u2190", () => this.pan(-0.25)],
                                   ["\u2192", () => this.pan(0.25)]])
            add(controls, "button", {type: "button"}, name).addEventListener("click", act);
        this.window = add(controls, "span");
        add(controls, "span", {class: "dim"},
            "wheel: zoom \u00b7 drag: zoom to what is marked \u00b7 double click: all");
    }

    show(from, to) {
        const width = Math.max(to - from, (this.end - this.begin) * 1e-7);
        this.from = Math.min(Math.max(from, this.begin), Math.max(this.begin, this.end - width));
        this.to = Math.min(this.from + width, this.end);
        this.draw();
    }

    showAll() {
        this.show(this.begin, this.end);
    }

    // share: where in the window what is under it stays.
    zoom(factor, share = 0.5) {
        const width = this.to - this.from, at = this.from + share * width;
        this.show(at - share * width * factor, at + (1 - share) * width * factor);
    }

    pan(share) {
        const by = share * (this.to - this.from);
        this.show(this.from + by, this.to + by);
    }

    placeX(seconds) {
        return this.left + (this.width - this.left - 8) * (seconds - this.from) / (this.to - this.from);
    }

    secondsAt(x) {
        return this.from + (this.to - this.from) * (x - this.left) / (this.width - this.left - 8);
    }

    draw() {
        const scale = Math.min(devicePixelRatio || 1, 32000 / this.bottom);
        const styles = getComputedStyle(document.documentElement);
        const known = {}, colorOf = name => known[name] ??= styles.getPropertyValue("--" + name).trim();
        this.width = Math.max(this.canvas.parentElement.clientWidth, 300);
        this.canvas.width = Math.round(this.width * scale);
        this.canvas.height = Math.round(this.bottom * scale);
        this.canvas.style.aspectRatio = `${this.width} / ${this.bottom}`;
        const pen = this.canvas.getContext("2d");
        pen.scale(scale, scale);
        pen.font = "12px system-ui, 'DejaVu Sans', sans-serif";
        this.drawAxis(pen, colorOf);
        let rank = -1;
        for (const lane of this.lanes) {
            pen.fillStyle = colorOf("text");
            if (lane.rank !== rank)
                pen.fillText(this.rankTitle(lane.rank), 0, lane.top - 5, this.width);
            rank = lane.rank;
            pen.fillStyle = colorOf("dim");
            if (this.height >= 12)
                pen.fillText(lane.name, 8, lane.top + 12, this.left - 14);
            this.drawLane(pen, lane, colorOf);
        }
        if (this.selected)
            this.drawSelected(pen, colorOf);
        this.window.textContent = `${formatSeconds(this.from)} to ${formatSeconds(this.to)}`;
    }

    rankTitle(number) {
        const rank = report?.ranks?.[number];
        return rank ? rankName(rank) : `rank ${number}`;
    }

    drawAxis(pen, colorOf) {
        const places = ticks(this.from, this.to, Math.max(2, Math.floor(this.width / 130)));
        for (const seconds of places) {
            const x = this.placeX(seconds);
            pen.fillStyle = colorOf("line");
            pen.fillRect(x, AXIS - 6, 1, this.bottom);
            pen.fillStyle = colorOf("dim");
            pen.textAlign = x > this.width - 50 ? "right" : x < this.left + 30 ? "left" : "center";
            pen.fillText(formatSeconds(seconds), x, 12);
        }
        pen.textAlign = "left";
    }

    // Spans that hold others are first and fill the lane; those within are lower.
    drawLane(pen, lane, colorOf) {
        const right = this.width - 8, height = this.height;
        let drawn = -1, around = -Infinity;
        for (const span of lane.spans) {
            if (span.begin > this.to)
                break;
            const inside = span.begin < around && span.end <= around;
            if (!inside)
                around = span.end;
            if (span.end < this.from)
                continue;
            const begin = Math.max(this.placeX(span.begin), this.left), end = Math.min(this.placeX(span.end), right);
            if (end - begin < 1 && Math.floor(begin) === drawn)
                continue;
            drawn = end - begin < 1 ? Math.floor(begin) : drawn;
            pen.fillStyle = colorOf(span.color);
            const gap = end - begin > 4 ? 1 : 0; // between two that follow each other
            pen.fillRect(begin, lane.top + (inside ? height / 2 : 0), Math.max(end - begin - gap, 1),
                         inside ? height / 2 : height);
        }
    }

    drawSelected(pen, colorOf) {
        const [a, b] = this.selected;
        pen.globalAlpha = 0.25;
        pen.fillStyle = colorOf("accent");
        pen.fillRect(Math.min(a, b), AXIS, Math.abs(b - a), this.bottom);
        pen.globalAlpha = 1;
    }

    // The innermost span at a point, or the nearest within two pixels.
    find(x, y) {
        const lane = this.lanes.find(one => y >= one.top && y < one.top + this.height + LANE_GAP);
        if (!lane || x < this.left - 2)
            return null;
        const at = this.secondsAt(x), near = 2 * (this.to - this.from) / this.width;
        let found = null;
        for (const span of lane.spans) {
            if (span.begin > at + near)
                break;
            if (span.end >= at - near)
                found = span;
        }
        return found && spanText(lane, found);
    }

    listen() {
        const canvas = this.canvas, placeOf = event => {
            const box = canvas.getBoundingClientRect(), scale = this.width / box.width;
            return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
        };
        canvas.addEventListener("wheel", event => {
            const [x] = placeOf(event);
            event.preventDefault();
            if (Math.abs(event.deltaX) > Math.abs(event.deltaY))
                this.pan(event.deltaX / this.width);
            else
                this.zoom(1.0015 ** event.deltaY, Math.min(1, Math.max(0, (x - this.left) / (this.width - this.left))));
        }, {passive: false});
        canvas.addEventListener("pointerdown", event => {
            this.selected = [placeOf(event)[0], placeOf(event)[0]];
            canvas.setPointerCapture(event.pointerId);
        });
        canvas.addEventListener("pointermove", event => {
            const [x, y] = placeOf(event);
            if (this.selected) {
                this.selected[1] = x;
                this.draw();
            }
            showTip(event, this.selected ? "" : this.find(x, y));
        });
        canvas.addEventListener("pointerup", () => {
            const [a, b] = (this.selected ?? [0, 0]).map(x => this.secondsAt(x));
            const far = this.selected && Math.abs(this.selected[1] - this.selected[0]) > 4;
            this.selected = null;
            if (far)
                this.show(Math.min(a, b), Math.max(a, b));
        });
        canvas.addEventListener("pointerleave", event => showTip(event, ""));
        canvas.addEventListener("dblclick", () => this.showAll());
        canvas.addEventListener("keydown", event => {
            const act = {ArrowLeft: () => this.pan(-0.25), ArrowRight: () => this.pan(0.25),
                         "+": () => this.zoom(0.5), "-": () => this.zoom(2), Home: () => this.showAll()}[event.key];
            if (act) {
                event.preventDefault();
                act();
            }
        });
    }
}
