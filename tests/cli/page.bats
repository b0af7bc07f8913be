#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154 # status, output and stderr are set by bats
# --html and report: a run as one HTML file, which the browser draws from the run's own data.
load helper

setup() {
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return 1
    "$MPIMATMUL" gen A.bin --dims 301x203 --kind integer --seed 1 -q
    "$MPIMATMUL" gen B.bin --dims 203x147 --kind integer --seed 2 -q
}

# browse PAGE ARGUMENTS...: starts a headless browser. Its console output is on stderr.
browse() {
    local page=$1
    shift
    command -v chromium > /dev/null || skip "chromium: not installed"
    run --separate-stderr timeout 60 chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
        --user-data-dir="$BATS_TEST_TMPDIR/chromium" --enable-logging=stderr "$@" "file://$PWD/$page" < /dev/null
    expect_status 0 || return 1
    if grep CONSOLE <<< "$stderr"; then
        return 1
    fi
}

# drawn PAGE [SCRIPT]: the page draws without console output. A copy of the page has a second
# script, which measures all drawn elements and ends with SCRIPT. Leaves the elements in dom.txt,
# and their sizes by section in sizes.json.
drawn() {
    {
        cat "$1"
        cat << 'MEASURE'
<script>
const found = {state: document.documentElement.dataset.state, back: getComputedStyle(document.body).backgroundColor,
               title: document.title, subtitle: document.getElementById("subtitle").textContent,
               origin: document.getElementById("origin").textContent,
               trouble: !document.getElementById("trouble").hidden};
for (const section of document.querySelectorAll("section")) {
    const one = found[section.id] = {text: section.textContent, width: section.clientWidth};
    for (const kind of ["svg", "rect", "path", "canvas", "td"])
        one[kind] = Array.from(section.querySelectorAll(kind), item => {
            const box = item.getBoundingClientRect();
            return [box.width, box.height, box.right];
        });
}
MEASURE
        printf '%s\n' "${2:-}"
        echo 'document.body.textContent = "@@@" + JSON.stringify(found) + "@@@";</script>'
    } > measured.html
    browse measured.html --dump-dom --window-size=1000,800 "${@:3}" || return 1
    tr -d '\n' <<< "$output" | sed "s/^.*@@@\(.*\)@@@.*$/\1/; s/&lt;/</g; s/&gt;/>/g; s/&amp;/\&/g" > sizes.json
}

# holds EXPRESSION...: each is true of the sizes s and of the report r.
holds() {
    python "$@" << 'PYTHON'
import json, os, sys
kinds = ("svg", "rect", "path", "canvas", "td")
s = json.load(open("sizes.json"))
r = json.load(open("r.json")) if os.path.exists("r.json") else None
sections = {name: part for name, part in s.items() if isinstance(part, dict)}
phases = [x[p + "_seconds"] for x in r["ranks"] for p in "setup scatter compute copy verify gather idle commit".split()
          if x[p + "_seconds"] > 0] if r else []
sizes = [(kind, *size) for part in sections.values() for kind in kinds for size in part[kind]]
for expression in sys.argv[1:]:
    assert eval(expression), (expression, {name: part.get("text", part) if name in sections else part
                                           for name, part in s.items()})
PYTHON
}

@test "a product on three uneven ranks has bars, shares, lanes and memory of the right sizes" {
    local common=("$MPIMATMUL" mul A.bin B.bin -o C.bin --weights "0.6,0.3,0.1" --html p.html --report r.json
        --trace t.json -q)
    run --separate-stderr "${launch[@]}" -n 1 "${common[@]}" --device cpu \
        : -n 1 "${common[@]}" --device faulty:delay=20ms:cpu : -n 1 "${common[@]}" --device faulty:delay=40ms:cpu
    expect_quiet_success
    drawn p.html
    holds "s['state'] == 'drawn' and not s['trouble']" "s['title'] == 'mpimatmul: A.bin x B.bin: 301 x 147'" \
        "list(sections) == ['summary', 'work', 'shares', 'timeline', 'memory', 'operations', 'ranks']" \
        "all(width > 0 and height > 0 for kind, width, height, _ in sizes if kind in ('svg', 'rect', 'canvas'))"
    # One bar per phase of nonzero time, as long as that time; two per rank of shares; no element
    # leaves the page.
    holds "len(phases) == len(s['work']['rect'])" \
        "all(abs(bar[0] / sum(x[0] for x in s['work']['rect']) - seconds / sum(phases)) < 0.005
             for bar, seconds in zip(s['work']['rect'], phases))" \
        "sum(x[0] for x in s['work']['rect']) > 3 * 400" \
        "len(s['shares']['rect']) == 6" "s['timeline']['canvas'][0][0] > 800 and s['timeline']['canvas'][0][1] > 100" \
        "all(right <= 1000 for kind, _, _, right in sizes if kind != 'td')" \
        "abs(s['shares']['rect'][0][0] / s['shares']['rect'][2][0] -
            r['ranks'][0]['share'] / r['ranks'][1]['share']) < 0.02" \
        "len(s['memory']['path']) == 3"
    program report t.json r.json -o again.html
    expect_quiet_success
    [ "$output" = again.html ]
    cmp p.html again.html
    program report r.json -q
    expect_quiet_success
    drawn r.html 'document.querySelector("#work rect").dispatchEvent(new PointerEvent("pointermove"));
        found.tip = [document.getElementById("tip").textContent, document.getElementById("tip").hidden];
        document.querySelector("#work rect").dispatchEvent(new PointerEvent("pointerleave"));
        found.left = document.getElementById("tip").hidden;'  # of operations alone
    holds "s['tip'][0].split('\n')[1].startswith('set-up: ') and not s['tip'][1] and s['left']" \
        "'timeline' in s" "'with --trace' in s['timeline']['text']"
}

@test "the page has the data of the files and loads nothing else" {
    ranks 2 mul A.bin B.bin -o C.bin --device cpu --html p.html --report r.json --trace t.json -q
    expect_quiet_success
    python << 'PYTHON'
import json, re
page = open("p.html").read()
for name, file in (("report", "r.json"), ("trace", "t.json")):
    found, = re.findall(f'<script type="application/json" id="{name}">(.*?)</script>', page, re.S)
    assert json.loads(found) == json.load(open(file)), name
assert "content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\"" in page
assert not re.findall(r"<link|<img|<iframe|\bsrc=|\bhref=|\burl\(|@import|fetch\(|import\(|XMLHttp|WebSocket", page)
# a name, not an address
assert set(re.findall(r"\w+://[\w./]*", page)) == {"http://www.w3.org/2000/svg"}
PYTHON
    program report r.json -o -
    expect_quiet_success
    [[ "$output" == '<!DOCTYPE html>'* ]]
}

@test "names are shown as text, with any characters" {
    local name='x<script>alert(1)<!--.bin'
    cp A.bin "$name"
    ranks 2 mul "$name" B.bin -o C.bin --device cpu --html p.html --report r.json -q
    expect_quiet_success
    mkdir -p 'a</script><h1 id=evil>'
    cp A.bin 'a</script><h1 id=evil>/A.bin'
    program mul 'a</script><h1 id=evil>/A.bin' B.bin -o C.bin --device cpu --html q.html -q
    expect_quiet_success
    drawn p.html
    holds "s['state'] == 'drawn'" "'alert(1)' in s['title']"
    drawn q.html 'found.evil = document.getElementById("evil") !== null;'
    holds "s['state'] == 'drawn'" "not s['evil']" "'</script><h1 id=evil>' in s['title']"
}

@test "a program with a loop shows losses by turn, operations against their prediction, and lanes of the last turn" {
    script 'x = generate((50, 40), kind="integer", seed=1)
print("before", sum(x))
for i in loop(12):
    x = relu(x @ generate((40, 40), kind="identity", seed=2)) * 0.5
    print(i, sum(x), sum(x / (i - 3)))
save("y.npy", x)
print("after", mean(x), x)'
    for more in "" "--metrics m.jsonl"; do
        # shellcheck disable=SC2086 # two words or none
        ranks 2 run e.py --device cpu --html p.html --report r.json --trace t.json -q $more
        expect_status 0
        drawn p.html
        holds "s['state'] == 'drawn'" "len(s['metrics']['svg']) == 2" "len(s['metrics']['td']) == 3 * 3" \
            "'sum(x) (line 5)' in s['metrics']['text'] and 'mean(x)' in s['metrics']['text']" \
            "s['title'] == 'mpimatmul: e.py'" \
            "'13 programs in ' in s['subtitle'] and 'what follows is of that turn' in s['subtitle']" \
            "'wall time of 13 programs' in s['summary']['text']" \
            "s['origin'].endswith(' UTC \\u00b7 ' + r['command']) and s['origin'].startswith(r['written_at'][:10])" \
            "r['command'].startswith('mpimatmul run e.py --device cpu --html p.html')" "r['program'] == 'e.py'" \
            "len(s['prediction']['rect']) == 2 * min(16, len(r['operations'])) + 2 * (r['predicted_seconds'] > 0)" \
            "len(s['operations']['td']) == len(r['operations']) * (11 +
                any(x['joules'] is not None for o in r['operations'] for x in o['ranks']))"
    done
    [ "$(wc -l < m.jsonl)" -eq 27 ]
    program report m.jsonl t.json r.json -o again.html
    expect_quiet_success
    drawn again.html
    holds "s['state'] == 'drawn'" "len(s['metrics']['svg']) == 2" "'timeline' in s"
    python << 'PYTHON'  # as a live view reads them
import json
lines = [json.loads(line) for line in open("m.jsonl")]
assert [line["turn"] for line in lines if line["line"] == 5 and line["name"] == "sum(x)"] == list(range(12))
PYTHON
}

@test "joules are shown for the ranks that report them" {
    ranks 2 mul A.bin B.bin -o C.bin --device cpu --report r.json --trace t.json -q
    python << 'PYTHON'
import json
r = json.load(open("r.json"))
for rank in r["ranks"]:
    rank.update(joules=None, joules_source="packages 0", joules_rank=1)
for part in r["operations"][0]["ranks"]:
    part["joules"] = None
json.dump({**r, "joules": None}, open("none.json", "w"))
r["ranks"][1]["joules"] = r["joules"] = 12.25
r["operations"][0]["ranks"][1]["joules"] = 7.5
json.dump(r, open("r.json", "w"))
PYTHON
    program report r.json -o p.html -q
    expect_quiet_success
    drawn p.html 'found.rows = Array.from(document.querySelectorAll("#ranks tr"), row =>
        Array.from(row.children, cell => cell.textContent));'
    holds "'12.25 Jof all devices' in s['summary']['text']" "s['operations']['text'].endswith('7.5')" \
        "[row[s['rows'][0].index('joules')] for row in s['rows'][1:]] == ['', '12.25']" \
        "[row[s['rows'][0].index('of')] for row in s['rows'][1:]] == ['', 'packages 0']"
    program report none.json -o p.html -q
    drawn p.html
    holds "'joules' not in s['ranks']['text'] + s['operations']['text'] and ' J' not in s['summary']['text']"
}

@test "bytes between machines are a table of senders and receivers" {
    need_plain "refuse.so is loaded first, which the sanitizer does not take"
    run --separate-stderr "${launch[@]}" -n 3 env LD_PRELOAD="$BUILD/tests/refuse.so" MMUL_APART=1 \
        "$MPIMATMUL" mul A.bin B.bin -o C.bin --device cpu --io root --split rows --weights 0.5,0.25,0.25 \
        --html p.html --report r.json -q
    expect_quiet_success
    drawn p.html 'found.cells = Array.from(document.querySelectorAll("#bytes td"), cell => cell.textContent);'
    holds "s['state'] == 'drawn'" "len(s['cells']) == 9 and [s['cells'][4 * i] for i in range(3)] == [''] * 3" \
        "sum(row[0] for row in r['sent_bytes']) == 4 * 147 * (301 - r['ranks'][0]['end'])" \
        "[f'{r[\"sent_bytes\"][i][j] / 1024:.1f} KiB' for i in range(3) for j in range(3)
          if i != j and r['sent_bytes'][i][j] > 0] == [cell for cell in s['cells'] if cell not in ('', '0 B')]" \
        "sum(map(sum, r['sent_bytes'])) == r['network_bytes']"
}

@test "a page can show run --json's output, metrics alone or a trace alone" {
    script 'x = generate((5, 4), kind="integer", seed=1)
print("sum", sum(x), x)
save("y.npy", x)'
    "$MPIMATMUL" run e.py --device cpu --json --metrics m.jsonl --trace t.json < /dev/null > run.json
    program report run.json -q
    expect_quiet_success
    drawn run.html
    holds "s['state'] == 'drawn'" "json.load(open('run.json'))['printed'][0]['text'] in s['printed']['text']" \
        "'x: 5 x 4' in s['printed']['text'] and 'y.npy: 5 x 4' in s['printed']['text']"
    for file in m.jsonl t.json; do
        program report $file -o p.html -q
        expect_quiet_success
        drawn p.html
        holds "s['state'] == 'drawn'" "len(sections) == 1"
    done
}

@test "the page follows the reader's preference for light or dark, and is light on paper" {
    ranks 2 mul A.bin B.bin -o C.bin --device cpu --html p.html -q
    drawn p.html
    holds "s['back'] == 'rgb(255, 255, 255)'"
    drawn p.html '' --force-dark-mode
    holds "s['back'] == 'rgb(20, 23, 28)'"
    drawn p.html 'dispatchEvent(new Event("beforeprint")); found.back = getComputedStyle(document.body).backgroundColor;
        found.lines = document.querySelectorAll("svg").length; dispatchEvent(new Event("afterprint"));
        found.after = getComputedStyle(document.body).backgroundColor;' --force-dark-mode
    holds "s['back'] == 'rgb(255, 255, 255)'" "s['after'] == 'rgb(20, 23, 28)'" "s['lines'] > 2"
    browse p.html --print-to-pdf=p.pdf --force-dark-mode
    [ "$(head -c 5 p.pdf)" = %PDF- ]
}

@test "the time line zooms, and stays usable with fifty thousand spans" {
    python << 'PYTHON'
import json
events = []
for rank in range(5):
    for lane, name in enumerate(["operations", "device"]):
        events.append({"ph": "M", "name": "thread_name", "pid": rank, "tid": lane, "args": {"name": name}})
        events += [{"ph": "X", "name": "multiply" if i % 2 else "check", "pid": rank, "tid": lane, "ts": 10 * i,
                    "dur": 9, "args": {"rows": i}} for i in range(5000)]
json.dump({"traceEvents": events}, open("t.json", "w"))
PYTHON
    program report t.json -o p.html -q
    expect_quiet_success
    drawn p.html '
const line = new Timeline(add(document.body, "div"), lanesOfTrace()), canvas = line.canvas;
const at = seconds => { const box = canvas.getBoundingClientRect(); return box.left + line.placeX(seconds); };
const send = (kind, x, more) => canvas.dispatchEvent(new PointerEvent(kind, {clientX: x, pointerId: 1, ...more,
    clientY: canvas.getBoundingClientRect().top + line.lanes[1].top + 3}));
canvas.setPointerCapture = () => {};
found.all = [line.from, line.to];
canvas.dispatchEvent(new WheelEvent("wheel", {deltaY: -1000, clientX: at(0.025), clientY: 0}));
found.wheel = [line.from, line.to];
line.showAll();
const places = [at(0.01), at(0.0105), at(0.011)];
send("pointerdown", places[0]);
places.forEach(x => send("pointermove", x));
send("pointerup", places[2]);
found.dragged = [line.from, line.to];
send("pointermove", at(0.010515));
found.tip = document.getElementById("tip").textContent;
line.showAll();
found.spans = line.lanes.reduce((total, lane) => total + lane.spans.length, 0);'
    holds "s['state'] == 'drawn'" "s['spans'] == 50000" "s['all'][0] == 0 and abs(s['all'][1] - 0.049999) < 1e-9" \
        "s['wheel'][0] > 0.015 and s['wheel'][1] < 0.035" \
        "abs(s['dragged'][0] - 0.01) < 2e-4 and abs(s['dragged'][1] - 0.011) < 2e-4" \
        "s['tip'].split(chr(10)) == ['multiply', 'rank 0, device', '10.5 ms + 9 ' + chr(181) + 's', 'rows: 1051']"
}

@test "a page with invalid data says so" {
    echo '{"schema": "mpimatmul-report", "schema_version": 5, "ranks": 3}' > r.json
    program report r.json -o p.html -q
    expect_quiet_success
    command -v chromium > /dev/null || skip "chromium: not installed"
    run --separate-stderr timeout 60 chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --dump-dom \
        --user-data-dir="$BATS_TEST_TMPDIR/chromium" "file://$PWD/p.html" < /dev/null
    [[ "$output" == *'data-state="failed"'* && "$output" == *'this page could not be drawn as a whole: '* ]]
}

@test "files unfit for a page are refused with a line that gives the reason" {
    ranks 2 mul A.bin B.bin -o C.bin --device cpu --report r.json --trace t.json -q
    program report none.json
    expect_failure 66 "cannot open 'none.json': No such file or directory"
    program report .
    expect_failure 66 "cannot read '.': not a regular file"
    program report A.bin -o p.html
    expect_status 65
    [[ "$stderr" == "mpimatmul: 'A.bin' is not valid JSON: line 1, column "* ]]
    echo '{"schema": "mpimatmul-plan"}' > plan.json
    program report plan.json
    expect_failure 65 "'plan.json' is not a report, trace or metrics file of a run" \
        "--report, --trace and --metrics of mul and run write them"
    echo '{"schema": "mpimatmul-report", "schema_version": 9}' > new.json
    program report new.json
    expect_failure 65 "'new.json' has schema version 9, expected 5"
    head -c 300 r.json > cut.json
    program report cut.json
    expect_status 65
    [[ "$stderr" == "mpimatmul: 'cut.json' is not valid JSON: line "*", column "*": "* ]] || { show; return 1; }
    printf '%s\n' '{"turn":0,"line":1,"name":"x","value":1.0,"seconds":1.0}' '' '{"turn":1,"line":1,"na' > m.jsonl
    program report m.jsonl
    expect_failure 65 "'m.jsonl' is not valid JSON: line 3, column 22: premature end of input near '\"na'"
    printf '%s\n' '{"turn":0,"line":1,"name":"x","value":1.0,"seconds":1.0}' '{"turn":1}' > m.jsonl
    program report m.jsonl
    expect_failure 65 "'m.jsonl': line 2 is not a line of metrics"
    program report r.json t.json r.json
    expect_failure 65 "'r.json' is a report, and the page already has one"
    program report r.json -o r.json
    expect_failure 73 "cannot write the page to 'r.json': it is one of the inputs"
    program report r.json -o none/p.html
    expect_failure 73 "cannot write the page to 'none/p.html': No such file or directory"
    program report r.json -o /dev/full
    expect_failure 74 "cannot write '/dev/full': No space left on device"
    program report
    expect_failure 64 "report: expected at least 1 operand, found 0" "mpimatmul report RUN [FILE...] [options]"
    [ ! -e p.html ] && [ ! -e r.html ]
}

@test "an unwritable page is refused before the work" {
    ranks 2 mul A.bin B.bin -o D.bin --html none/p.html
    expect_failure 73 "cannot write the page to 'none/p.html': No such file or directory"
    for name in A.bin D.bin; do
        program mul A.bin B.bin -o D.bin --html $name
        expect_failure 73 "cannot write the page to '$name': it is one of the matrices"
    done
    program mul A.bin B.bin -o D.bin --report r.json --html r.json
    expect_failure 73 "cannot write the page to 'r.json': it is the report"
    program mul A.bin B.bin -o D.bin --trace r.json --html r.json
    expect_failure 73 "cannot write the page to 'r.json': it is the trace"
    [ ! -e D.bin ]
    script 'save("D.bin", load("A.bin") @ load("B.bin"))'
    program run e.py --html none/p.html
    expect_failure 73 "cannot write the page to 'none/p.html': No such file or directory"
    program run e.py --html e.py
    expect_failure 73 "cannot write the page to 'e.py': it is the program's or one of its files"
    program run e.py --metrics m.jsonl --html m.jsonl
    expect_failure 73 "cannot write the page to 'm.jsonl': it is the metrics"
    [ ! -e D.bin ]
    program run e.py --check --html p.html -q
    expect_quiet_success
    [ ! -e p.html ]
    program run e.py --device faulty:fail=1:cpu --no-fallback --html p.html -q
    expect_status 69
    [ ! -e p.html ]
    MPIMATMUL_HTML=p.html "$MPIMATMUL" mul A.bin B.bin -o C.bin --bias B.bin --device cpu -q < /dev/null || true
    MPIMATMUL_HTML=p.html "$MPIMATMUL" transpose A.bin -o C.bin --device cpu -q < /dev/null
    [ -s p.html ]
}
