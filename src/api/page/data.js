// SPDX-License-Identifier: MIT
// What runs have left, as the page has it: `report`, `run`, `trace`, `metrics`, `comparison`, each of them null where
// it is not there; numbers as people read them.

function readData(id) {
    const element = document.getElementById(id);
    return element ? JSON.parse(element.textContent) : null;
}

const report = readData("report"), run = readData("run"), trace = readData("trace");
const metrics = readData("metrics"), comparison = readData("comparison");

// Kinds of seconds, in the order in which a rank's bar has them; `color` is a variable of the style.
const PHASES = [
    {key: "setup_seconds", name: "set-up", color: "setup"},
    {key: "scatter_seconds", name: "wait for operands", color: "scatter"},
    {key: "compute_seconds", name: "compute", color: "compute"},
    {key: "copy_seconds", name: "copy within the machine", color: "copy"},
    {key: "verify_seconds", name: "check", color: "verify"},
    {key: "gather_seconds", name: "wait for results to leave", color: "gather"},
    {key: "idle_seconds", name: "idle", color: "idle"},
    {key: "commit_seconds", name: "commit", color: "commit"},
];

function formatSeconds(seconds) {
    const size = Math.abs(seconds);
    if (size === 0)
        return "0 s";
    if (size < 1e-3)
        return +(seconds * 1e6).toPrecision(3) + " \u00b5s";
    if (size < 1)
        return +(seconds * 1e3).toPrecision(3) + " ms";
    return +seconds.toFixed(size < 100 ? 3 : 1) + " s";
}

// "2026-11-28T10:14:44Z", on every machine the same.
function formatDate(text) {
    return text.replace("T", " ").replace("Z", " UTC");
}

function formatBytes(bytes) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = 0;
    for (; bytes >= 1024 && unit < units.length - 1; unit++)
        bytes /= 1024;
    return (unit > 0 ? bytes.toFixed(1) : bytes) + " " + units[unit];
}

function formatRate(flops) {
    return flops >= 1e12 ? (flops / 1e12).toFixed(2) + " TFLOP/s" : (flops / 1e9).toFixed(1) + " GFLOP/s";
}

function formatShare(share) {
    return +(100 * share).toFixed(1) + " %";
}

function formatNumber(number) {
    return number === null ? "NaN" : String(+number.toPrecision(6));
}

// "61 x 203", without leading sizes of 1.
function formatShape(shape) {
    let first = 0;
    while (first < shape.length - 2 && shape[first] === 1)
        first++;
    return shape.slice(first).join(" x ");
}

function sum(list) {
    return list.reduce((total, one) => total + one, 0);
}

// Without the stack of a long list of arguments.
function largest(list, least = 0) {
    return list.reduce((most, one) => Math.max(most, one), least);
}

function rankName(rank) {
    return `rank ${rank.rank} \u00b7 ${rank.host} \u00b7 ${rank.device}`;
}

function operationName(operation) {
    return `${operation.operation} ${operation.value}`.trim();
}
