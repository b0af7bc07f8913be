// SPDX-License-Identifier: MIT
// What stands on the page, from top to bottom. A section is there where the run has left what it shows.

// The page is drawn from the JSON of report, run, trace and metrics alone. Pictures are in charts.js and timeline.js,
// two runs side by side in api/compare.c.

// Of what states joules: a rank, its part of an operation, the whole. Undefined, null: not measured there.
function joulesOf(parts) {
    const found = parts.map(part => part.joules).filter(joules => typeof joules === "number");
    return found.length > 0 ? formatNumber(sum(found)) : "";
}

// Of all programs of a text, to the end of the last turn.
function allSeconds(r) {
    return (r.before?.wall_seconds ?? 0) + r.wall_seconds;
}

function addTitle() {
    const problem = report?.problem;
    let title = "a run";
    if (comparison)
        title = `${comparison.a} beside ${comparison.b}`;
    else if (problem)
        title = `${problem.a} x ${problem.b}: ${formatShape(problem.c_shape)}`;
    else if (report)
        title = report.program ?? `a program of ${report.steps} step${report.steps === 1 ? "" : "s"}`;
    document.getElementById("title").textContent = title;
    document.title = `mpimatmul: ${title}`;
    const words = [];
    if (problem)
        words.push(`(${formatShape(problem.a_shape)}) (${formatShape(problem.b_shape)})`,
                   `${problem.a_dtype}, ${problem.b_dtype}`, `split by ${report.split}`);
    if (report)
        words.push(`${report.ranks.length} rank${report.ranks.length === 1 ? "" : "s"} on ${report.nodes} machine` +
                   (report.nodes === 1 ? "" : "s"));
    if (report?.before)
        words.push(`${report.before.programs + 1} programs in ${formatSeconds(allSeconds(report))}, to the end of ` +
                   "the last turn; what follows is of that turn");
    document.getElementById("subtitle").textContent = words.join(" \u00b7 ");
    if (report?.command)
        document.getElementById("origin").textContent = `${formatDate(report.written_at)} \u00b7 ${report.command}`;
    const version = (report ?? run ?? comparison)?.version ?? trace?.otherData?.version ?? "";
    document.getElementById("footer").textContent = `mpimatmul ${version}`;
}

function addTiles(tiles) {
    const body = add(addSection("summary", "In short"), "div", {class: "tiles"});
    for (const [value, name] of tiles) {
        const tile = add(body, "div", {class: "tile"});
        add(tile, "b", {}, value);
        add(tile, "span", {}, name);
    }
}

function addSummary() {
    const r = report, tiles = [[formatSeconds(r.wall_seconds), r.before ? "wall time of the last turn" : "wall time"],
                               [formatSeconds(r.startup_seconds), "before that: launch to warm-up"],
                               [formatRate(r.flops_per_second), "of what is calculated"]];
    if (r.before)
        tiles.unshift([formatSeconds(allSeconds(r)), `wall time of ${r.before.programs + 1} programs`]);
    if (r.efficiency > 0)
        tiles.push([formatShare(r.efficiency), "of the devices' measured speeds"]);
    if (r.predicted_seconds > 0)
        tiles.push([formatSeconds(r.predicted_seconds), "predicted"]);
    tiles.push([formatBytes(r.network_bytes), "between machines, by the plan"]);
    if (r.bytes_read !== undefined)
        tiles.push([formatBytes(r.bytes_read), "of operands read"], [formatBytes(r.bytes_written), "written"]);
    tiles.push([r.check.result, `check: ${r.check.lines_checked} lines, ${r.check.blocks_recomputed} blocks again`]);
    if (joulesOf(r.ranks))
        tiles.push([joulesOf(r.ranks) + " J", r.joules === null ? "of devices that are measured" : "of all devices"]);
    addTiles(tiles);
}

// What `run --json` says of a run.
function addRunSummary() {
    const r = run.run;
    addTiles([[formatSeconds(r.wall_seconds), "wall time"], [formatSeconds(r.startup_seconds), "before that"],
              [formatRate(r.flops_per_second), "of what is calculated"], [String(r.steps), "steps"],
              [r.verified ? "checked" : "not checked",
               `${r.lines_checked} lines, ${r.blocks_recomputed} blocks again`]]);
}

function addWarnings() {
    const body = addSection("warnings", "Warnings");
    for (const line of report.warnings)
        add(body, "p", {}, line);
    if (report.faster)
        add(body, "p", {}, report.faster);
}

// ------------------------------------------------------------------------------------------ who did what

function addWork() {
    const body = addSection("work", "Who did what", "Seconds of each rank: they add up to the wall time. " +
        `Rank ${report.last_rank} ended last.`);
    const used = PHASES.filter(phase => report.ranks.some(rank => rank[phase.key] > 0));
    addLegend(body, used);
    addDrawing(add(body, "div"), (parent, width) => drawStacked(parent, width, {
        format: formatSeconds,
        rows: report.ranks.map(rank => ({
            label: rankName(rank),
            parts: used.map(phase => ({
                value: rank[phase.key], color: phase.color,
                tip: `${rankName(rank)}\n${phase.name}: ${formatSeconds(rank[phase.key])} ` +
                    `(${formatShare(rank[phase.key] / (report.wall_seconds || 1))})`,
            })),
        })),
    }));
    const details = add(body, "details");
    add(details, "summary", {}, "as a table");
    addTable(details, [
        {name: "rank", get: rank => rank.rank, number: true}, {name: "host", get: rank => rank.host},
        ...used.map(phase => ({name: phase.name, number: true, get: rank => formatSeconds(rank[phase.key])})),
    ], report.ranks);
}

// ----------------------------------------------------------------------------------- shares and speeds

// Of one product shares of the work; of a program, whose steps have shares of their own, seconds at work.
function addShares() {
    const isProduct = report.ranks.every(rank => rank.share !== undefined);
    const speeds = sum(report.ranks.map(rank => rank.calibrated_flops_per_second));
    const busy = rank => rank.compute_seconds + rank.copy_seconds + rank.verify_seconds;
    const body = addSection("shares", "Shares against speeds", isProduct
        ? "Where both bars of a rank are alike it has what its measured speed says; " +
          "what it computed of others' parts counts."
        : "Of a program: what part of the wall time each rank was at work, beside its part of all measured speeds.");
    addLegend(body, [{name: isProduct ? "share of the work" : "at work, of the wall time", color: "compute"},
                     {name: "share of the measured speeds", color: "speed"}]);
    addDrawing(add(body, "div"), (parent, width) => drawPairs(parent, width, {
        format: formatShare,
        rows: report.ranks.map(rank => {
            const work = isProduct ? rank.share : busy(rank) / (report.wall_seconds || 1);
            const speed = speeds > 0 ? rank.calibrated_flops_per_second / speeds : 0;
            const rate = speed > 0 ? formatRate(rank.calibrated_flops_per_second) : "not measured";
            const of = isProduct ? `of the work: ${rank.begin} to ${rank.end} of ${report.total} ${report.split}`
                : "of the time at work";
            return {label: rankName(rank), bars: [
                {value: work, color: "compute", text: formatShare(work),
                 tip: `${rankName(rank)}\n${formatShare(work)} ${of}`},
                {value: speed, color: "speed", text: rate, tip: `${rankName(rank)}\n${rate}`},
            ]};
        }),
    }));
}

function addRanks() {
    const columns = [
        {name: "rank", get: rank => rank.rank, number: true}, {name: "host", get: rank => rank.host},
        {name: "device", get: rank => rank.device}, {name: "name", get: rank => rank.device_name},
        {name: "kernels", get: rank => rank.kernels}, {name: "cores", get: rank => rank.cores},
        {name: "threads", get: rank => rank.threads, number: true},
        {name: "products", get: rank => rank.products, number: true},
        {name: "lines checked", get: rank => rank.lines_checked, number: true},
        {name: "wrong", get: rank => rank.lines_wrong, number: true},
        {name: "joules", get: rank => joulesOf([rank]), number: true},
        {name: "of", get: rank => (rank.joules_rank === rank.rank ? rank.joules_source : "")},
        {name: "remarks", get: rank => [rank.why, rank.note, rank.kernels_lack && `does not use ${rank.kernels_lack}`]
            .filter(Boolean).join("; ")},
    ];
    const empty = column => report.ranks.every(rank => column.get(rank) === "" || column.get(rank) === undefined);
    const body = addSection("ranks", "Ranks");
    addTable(body, columns.filter(column => !empty(column)), report.ranks);
    for (const line of report.unused_devices.split("\n").filter(Boolean))
        add(body, "p", {class: "note"}, line);
}

// ---------------------------------------------------------------------------- predicted and measured

// Of the rank that it took longest.
function measuredSeconds(operation) {
    return largest(operation.ranks.map(part => part.end_seconds - part.begin_seconds));
}

function addPrediction() {
    const MOST = 16;
    const bar = (color, name, seconds, label) => ({
        value: seconds, color, text: formatSeconds(seconds), tip: `${label}\n${name} ${formatSeconds(seconds)}`,
    });
    const pair = (label, predicted, measured) => ({
        label, bars: [bar("speed", "predicted", predicted, label), bar("compute", "measured", measured, label)],
    });
    const body = addSection("prediction", "Prediction against measured",
        "Of an operation: seconds of the rank that it took longest, waits included. Those with most are shown.");
    addLegend(body, [{name: "predicted", color: "speed"}, {name: "measured", color: "compute"}]);
    if (report.predicted_seconds > 0)
        addDrawing(add(body, "div", {id: "whole"}), (parent, width) => drawPairs(parent, width, {
            format: formatSeconds, rows: [pair("the whole run", report.predicted_seconds, report.wall_seconds)],
        }));
    const rows = report.operations.map((operation, i) => ({
        i, label: `${i + 1} ${operationName(operation)}`, predicted: operation.predicted_seconds,
        measured: measuredSeconds(operation),
    }));
    rows.sort((a, b) => Math.max(b.predicted, b.measured) - Math.max(a.predicted, a.measured));
    const shown = rows.slice(0, MOST).sort((a, b) => a.i - b.i);
    if (rows.length > 1)
        addDrawing(add(body, "div"), (parent, width) => drawPairs(parent, width, {
            format: formatSeconds, rows: shown.map(row => pair(row.label, row.predicted, row.measured)),
        }));
}

function addOperations() {
    const details = add(addSection("operations", "Operations"), "details");
    const longest = key => operation => formatSeconds(largest(operation.ranks.map(part => part[key])));
    document.getElementById("operations").classList.add("long");
    add(details, "summary", {}, `all ${report.operations.length} as a table; seconds are those of the rank with most`);
    addTable(details, [
        {name: "step", get: operation => report.operations.indexOf(operation) + 1, number: true},
        {name: "operation", get: operation => operation.operation}, {name: "value", get: operation => operation.value},
        {name: "shape", get: operation => operation.shape}, {name: "placement", get: operation => operation.placement},
        {name: "predicted", get: operation => formatSeconds(operation.predicted_seconds), number: true},
        {name: "measured", get: operation => formatSeconds(measuredSeconds(operation)), number: true},
        {name: "wait", get: longest("wait_seconds"), number: true},
        {name: "work", get: longest("work_seconds"), number: true},
        {name: "check", get: longest("check_seconds"), number: true},
        {name: "network", get: operation => formatBytes(operation.network_bytes), number: true},
        ...(joulesOf(report.operations.flatMap(operation => operation.ranks))
            ? [{name: "joules", get: operation => joulesOf(operation.ranks), number: true}] : []),
    ], report.operations);
}

// ---------------------------------------------------------------------------------------- over time

function addTimeline(lanes) {
    const dropped = trace?.otherData?.dropped_events ?? 0;
    const body = addSection("timeline", "Time line", (trace ? "Lower halves of a lane lie within what is above them."
        : "Of operations alone: with --trace there are lanes of devices, copies and links, too.") +
        (dropped > 0 ? ` ${dropped} spans found no room and are missing.` : ""));
    const used = new Set(lanes.flatMap(lane => lane.spans.map(span => span.color)));
    addLegend(body, TIME_COLORS.filter(entry => used.has(entry.color)));
    const timeline = new Timeline(add(body, "div"), lanes);
    drawers.push(() => timeline.draw());
}

function addMemory() {
    const COLORS = ["compute", "scatter", "copy", "verify", "gather", "commit", "move", "setup"];
    const end = report.wall_seconds, series = [];
    report.ranks.forEach((rank, i) => {
        for (const [key, name, dashes] of [["memory_bytes", "", "none"], ["device_bytes", ", device", "5 3"]]) {
            const points = report.operations.map(({ranks}) => ({x: ranks[i].begin_seconds, y: ranks[i][key]}));
            if (points.some(point => point.y > 0))
                series.push({name: `rank ${rank.rank}${name}`, color: COLORS[i % COLORS.length], dashes,
                             points: [{...points[0], x: 0}, ...points, {x: end, y: points.at(-1).y}]});
        }
    });
    const body = addSection("memory", "Memory over time",
        "What each rank has of its machine's memory (dashes: of its device's) while an operation goes on: values, " +
        "its part of the shared segment, its own. By the plan, which sizes all of it; files that are used where they " +
        "lie are not in it.");
    addLegend(body, series.filter(one => one.dashes === "none").slice(0, 16));
    addDrawing(add(body, "div"), (parent, width) => drawLines(parent, width, {
        series, formatX: formatSeconds, formatY: formatBytes, stepped: true, inBytes: true,
    }));
}

// ------------------------------------------------------------------------------------------ machines

function addBytes() {
    const names = report.sent_bytes.map((_, node) => report.ranks.find(rank => rank.node === node)?.host ?? `${node}`);
    const body = addSection("bytes", "Bytes between machines", "Measured: rows send, columns receive. In all " +
        `${formatBytes(sum(report.sent_bytes.flat()))}; the plan has said ${formatBytes(report.network_bytes)}. ` +
        "Checksums and words of a few bytes are not in it.");
    addHeat(body, {names, cells: report.sent_bytes, format: formatBytes, corner: "from \\ to"});
}

// ------------------------------------------------------------------------------------- what was printed

// A picture for each value that was printed several times: by its line in the text and its name.
function addMetrics() {
    const groups = new Map();
    for (const one of metrics) {
        const key = `${one.line} ${one.name}`, y = "value" in one ? one.value : one.mean;
        if (!groups.has(key))
            groups.set(key, {name: one.name + ("value" in one ? "" : ", mean"), line: one.line, points: []});
        groups.get(key).points.push({turn: one.turn, seconds: one.seconds, y});
    }
    const body = addSection("metrics", "What was printed, over time",
        "By the turns of the loop, where each turn printed it once; else by seconds.");
    const charts = add(body, "div", {class: "charts"}), single = [];
    for (const {name, line, points} of groups.values()) {
        const byTurn = points.every((point, i) => point.turn !== null && (i === 0 || point.turn > points[i - 1].turn));
        if (points.length === 1 || points.every(point => point.y === null)) {
            single.push({name, line, value: points.at(-1).y});
            continue;
        }
        const chart = add(charts, "div");
        const first = formatNumber(points[0].y), last = formatNumber(points.at(-1).y);
        add(chart, "h3", {}, `${name} (line ${line}): ${first} \u2192 ${last}`);
        const lineOf = points.map(({turn, seconds, y}) => ({x: byTurn ? turn : seconds, y}));
        addDrawing(add(chart, "div"), (parent, width) => drawLines(parent, width, {
            series: [{name, color: "compute", points: lineOf}], formatY: formatNumber,
            formatX: byTurn ? turn => `turn ${Math.round(turn)}` : formatSeconds,
        }));
    }
    if (single.length > 0)
        addTable(body, [{name: "line", get: one => one.line, number: true},
                        {name: "printed once", get: one => one.name},
                        {name: "value", get: one => formatNumber(one.value), number: true}], single);
}

function addPrinted() {
    const body = addSection("printed", "What was printed and saved");
    const matrix = one => `${one.name}: ${one.shape.join(" x ")}, ${one.placement}, ` +
        `min ${formatNumber(one.min)}, max ${formatNumber(one.max)}, mean ${formatNumber(one.mean)}`;
    for (const one of run.printed)
        add(body, "pre", {}, one.text ?? matrix(one));
    for (const one of run.saved)
        add(body, "p", {class: "note"}, `${one.file}: ${one.shape.join(" x ")}`);
}

// ------------------------------------------------------------------------------------- two runs

// By the unit that the name of a number ends in.
function formatBy(what, number) {
    if (number === null)
        return "";
    if (what.endsWith("flops_per_second"))
        return formatRate(number);
    if (what.endsWith("_seconds"))
        return formatSeconds(number);
    if (/(^|_)bytes(_|$)/.test(what))
        return formatBytes(number);
    return what === "share" || what === "efficiency" ? formatShare(number) : formatNumber(number);
}

function numberColumns() {
    return [{name: "A", get: row => formatBy(row.what, row.a), number: true},
            {name: "B", get: row => formatBy(row.what, row.b), number: true},
            {name: "B / A", get: row => (row.ratio === null ? "" : row.ratio.toFixed(2)), number: true}];
}

// rows: {label, a, b}, seconds.
function addBeside(id, title, rows, note) {
    const body = addSection(id, title, note);
    const bar = (color, name, seconds, label) => ({
        value: seconds ?? 0, color, text: formatBy("_seconds", seconds),
        tip: `${label}\n${name}: ${formatBy("_seconds", seconds)}`,
    });
    addLegend(body, [{name: comparison.a, color: "speed"}, {name: comparison.b, color: "compute"}]);
    addDrawing(add(body, "div"), (parent, width) => drawPairs(parent, width, {
        format: formatSeconds, rows: rows.map(row => ({
            label: row.label, bars: [bar("speed", "A", row.a, row.label), bar("compute", "B", row.b, row.label)],
        })),
    }));
}

function addComparison() {
    const c = comparison, words = row => row.what.replaceAll("_", " "), any = row => row.a || row.b;
    const setting = addSection("different", "What differs in the setting");
    if (c.different.length === 0)
        add(setting, "p", {}, "Nothing: sizes, types, ranks, machines, devices, kernels.");
    else
        addTable(setting, [{name: "", get: row => row.what}, {name: `A: ${c.a}`, get: row => row.a},
                           {name: `B: ${c.b}`, get: row => row.b}], c.different);
    if (c.printed_the_same !== undefined)
        add(setting, "p", {}, `What they printed is ${c.printed_the_same ? "the same" : "different"}.`);
    const seconds = c.numbers.filter(row => row.what.endsWith("_seconds") && any(row));
    addBeside("seconds", "Seconds", seconds.map(row => ({...row, label: words(row).replace(" seconds", "")})),
              "Of phases those of the rank that ended last.");
    const apart = row => Math.abs(row.b - row.a);
    const most = [...c.operations].sort((x, y) => apart(y) - apart(x)).slice(0, 16);
    if (most.length > 1)
        addBeside("operations", "Operations that differ most", most.sort((x, y) => x.step - y.step)
            .map(row => ({...row, label: `${row.step} ${operationName(row)}`})),
                  "Seconds of the rank that each took longest, waits included.");
    addTable(addSection("numbers", "Numbers"), [{name: "", get: words}, ...numberColumns()], c.numbers.filter(any));
    const ranks = c.ranks.flatMap(rank => rank.numbers.filter(any).map(row => ({...row, rank: rank.rank})));
    if (ranks.length > 0)
        addTable(addSection("ranks", "Ranks"), [{name: "rank", get: row => row.rank, number: true},
                                                {name: "", get: words}, ...numberColumns()], ranks);
}

// ---------------------------------------------------------------------------------------- the page

function build() {
    addTitle();
    if (comparison)
        addComparison();
    if (report)
        addSummary();
    else if (run)
        addRunSummary();
    if (report && (report.warnings.length > 0 || report.faster))
        addWarnings();
    if (metrics?.length > 0)
        addMetrics();
    if (run)
        addPrinted();
    if (report) {
        addWork();
        addShares();
    }
    const lanes = trace ? lanesOfTrace() : report?.operations.length > 0 ? lanesOfReport() : [];
    if (lanes.length > 0)
        addTimeline(lanes);
    if (report && (report.predicted_seconds > 0 || report.operations.length > 1))
        addPrediction();
    if (report?.operations.length > 0 && report.operations[0].ranks[0].memory_bytes !== undefined)
        addMemory();
    if (report?.sent_bytes?.length > 1)
        addBytes();
    if (report?.operations.length > 0)
        addOperations();
    if (report)
        addRanks();
}

// Paper has light colours, whatever the screen has.
function setPaper(isPaper) {
    document.documentElement.toggleAttribute("data-paper", isPaper);
    drawAll();
}

addEventListener("error", event => {
    const trouble = document.getElementById("trouble");
    trouble.hidden = false;
    trouble.textContent = `this page could not be drawn as a whole: ${event.message}`;
    document.documentElement.dataset.state = "failed";
});
addEventListener("resize", drawAll);
addEventListener("beforeprint", () => setPaper(true));
addEventListener("afterprint", () => setPaper(false));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
build();
if (document.documentElement.dataset.state !== "failed")
    document.documentElement.dataset.state = "drawn";
