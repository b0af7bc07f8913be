#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154 # status, output, stderr and launch are set by bats and the helper
# run: texts of programs. A refusal gives the place and the name, and leaves no files behind.

load helper

@test "run: the example of attention prints values and placements" {
    script 'q, k, v = generate((8, 40, 64)), generate((8, 40, 64), seed=2), generate((8, 40, 64), seed=3)
s = softmax(q @ k.T / sqrt(64), causal=True)
save("out.npy", s @ v)
print("scores", s.shape, 64 ** 0.5)
print(s)'
    program run e.py
    expect_quiet_success
    expect_line 'scores (8, 40, 40) 8.0'
    [[ $output == *$'\ns: 8 x 40 x 40, '*'; min 0, max 1, mean 0.025'* ]]
    [ "$(head -c 128 out.npy | strings | grep -o "'shape': .*), }")" = "'shape': (8, 40, 64), }" ]
    expect_only_files e.py out.npy
}

@test "run: unfitting shapes are named in numpy's axes" {
    refuses 'q, k = generate((8, 4096, 64)), generate((8, 4096, 64), seed=2)
s = softmax(
    q @ k / sqrt(64))' \
        'e.py:3:5: cannot multiply q (8 x 4096 x 64) by k (8 x 4096 x 64): inner sizes 64 and 4096 differ' \
        'k.T swaps the last two axes'
    refuses 'x, y = generate((3, 4)), generate((2, 4))
z = x + y' 'e.py:2:5: cannot add x (3 x 4) and y (2 x 4): sizes 3 and 2 of axis -2 differ' 'sizes of 1 are broadcast'
    refuses 'x = reshape(generate((3, 4)), (5, -1))' \
        'e.py:1:5: what is reshaped (3 x 4) has 12 elements, which is no multiple of 5'
    refuses 'x = reshape(generate((3, 4)), (-1, -1))' 'e.py:1:5: only one size can be -1'
    refuses $'q, w = generate((3, 5, 4)), generate((3, 5, 6))\nx = attention(q, w, w)' \
        "e.py:2:5: cannot apply attention to 'q' (3 x 5 x 4) and 'w' (3 x 5 x 6): columns differ"
    refuses $'x, w = generate((3, 4)), generate((1, 3))\ny = rms_norm(x, w)' \
        "e.py:2:5: cannot apply rms_norm to 'x' (3 x 4) and 'w' (1 x 3): 'w' must be 1 x 4"
    refuses 'x, w = generate((3, 4)), generate((5, 6))
y = linear(x, w)' 'e.py:2:5: linear: x (3 x 4) and w (5 x 6) have rows of 4 and 6 elements'
    refuses 'x = generate((3, 4))[:, 4:]' 'e.py:1:25: the slice is empty: [4:4] of 4'
    refuses 'x = generate((3, 4))[3]' 'e.py:1:22: index 3 of an axis of 3: expected -3 to 2'
    refuses 'x = sum(generate((2, 3, 4)), axis=3)' 'e.py:1:35: axis 3 of 3 axes: expected -3 to 2'
    refuses 'x = generate((2, 3)) @ 2' "e.py:1:24: '@' is for matrices, not for a whole number"
}

@test "run: unknown names, parameters and words are refused with the nearest one" {
    refuses 'x = generate((3, 4))
y = sofmax(x)' "e.py:2:5: unknown name 'sofmax'" "'softmax'?"
    refuses 'x = identity(3)' "e.py:1:5: unknown name 'identity'" 'eye(n)'
    refuses 'x = softmax(generate((3, 4)), casual=True)' "e.py:1:31: softmax has no parameter 'casual'" "'causal'?"
    refuses 'x = topk(generate((3, 4)))' "e.py:1:5: topk: argument 'k' is missing" 'topk(x, k)'
    refuses 'x = generate((3, 4)).shap' "e.py:1:5: a matrix has no '.shap': available are .T and .shape" '.shape?'
    refuses 'x = generate((3, 4)).mean()' 'e.py:1:5: methods are not supported' \
        'mean(x, axis=None, keepdims=True)'
    refuses 'x = gelu(generate((3, 4)), approximate="tan")' \
        "e.py:1:40: approximate 'tan' is unknown: expected none or tanh" '"tanh"?'
    flags='expected True, False, 1 or 0'
    refuses 'x = softmax(generate((3, 4)), causal=2)' "e.py:1:38: causal is 2, $flags"
    refuses 'x = softmax(generate((3, 4)), "yes")' "e.py:1:31: causal is a string, $flags"
    refuses 'x = rope(generate((3, 4)), interleaved=-1)' "e.py:1:40: interleaved is -1, $flags"
    refuses $'q = generate((3, 4))\nx = attention(q, q, q, causal=1.0)' "e.py:2:31: causal is a number, $flags"
    refuses 'x = place(generate((3, 4)), "row")' \
        "e.py:1:29: placement 'row' is unknown: expected rows, cols, cyclic, replicate or grid" '"rows"?'
}

@test "run: statements of Python that the language lacks are refused" {
    refuses 'while True:
    x = 1' 'e.py:1:1: a while loop is not supported' \
        'for i in loop(n): repeats, and if ...: break ends it'
    refuses 'import numpy' 'e.py:1:1: an import is not supported' 'all names are available without it'
    refuses 'x = [1, 2]' 'e.py:1:5: a list is not supported' 'a tuple: (a, b)'
    refuses 'x = 1; y = 2' "e.py:1:6: ';' is not supported" 'a line for each statement'
    refuses 'x = 1
x <<= 1' "e.py:2:3: '<<=' is not supported"
    refuses 'x = 1 if 2 else 3' 'e.py:1:7: x if ... else y is not supported: use an if statement'
    refuses 'x = 1 < 2 < 3' 'e.py:1:11: chained comparisons are not supported'
    refuses 'for x in "ab":
    y = x' 'e.py:1:10: cannot iterate over a string: expected range(...), loop(...) or a tuple'
    refuses 'def f(x):
    return f(x)
y = f(1)' 'e.py:2:12: f calls itself: recursion is not supported'
    refuses 'x = generate((3, 4))
if x > 1:
    y = 2' 'e.py:2:4: a condition must be a number, found a matrix' 'where(c, x, y) chooses element by element'
}

@test "run: texts that are not valid Python are refused" {
    refuses 'x = "abc' 'e.py:1:5: the string has no closing quote'
    refuses 'x = (1 +' 'e.py:2:1: expected a value, found the end of the text'
    refuses 'x = 2
  y = 3' 'e.py:2:3: expected a value, found an indented line'
    refuses 'x = 1 / 0' 'e.py:1:5: division by zero'
    refuses 'x = 2 ** 64' 'e.py:1:5: the result exceeds 64 bits'
    local shown_source
    # shellcheck disable=SC2034 # of expect_failure
    shown_source="    ..$(printf '%0112d' 0 | tr 0 '-').."$'\n'"$(printf '%62s' '')^"
    refuses "$(printf 'x = %0300d1' 0 | tr 0 '-')" 'e.py:1:105: this is nested more than 100 levels deep'
    unset shown_source
    refuses 'for i in range(10000000):
    x = i' 'e.py:1:1: the program evaluates more than 2000000 expressions and statements'
    refuses 'x = "a"
for i in range(20):
    x = x + x' 'e.py:3:9: a string must be shorter than 4096 bytes'
    refuses 'x = 3' 'e.py: the program makes or reads no matrix'
}

@test "run: a text of a single save, of a new matrix, runs" {
    need_numpy
    printf '0123456789abcdef' > letters.txt
    while IFS='|' read -r made numpy; do
        echo "save(\"o.npy\", $made)" > e.py
        run --separate-stderr "$MPIMATMUL" run e.py --device reference < /dev/null
        expect_status 0
        py -c "import numpy as np; x = np.load('o.npy'); want = $numpy
assert x.dtype == want.dtype and np.array_equal(x, np.atleast_2d(want)), (x, want)"
        rm o.npy
    done << 'END'
arange(3)|np.arange(3, dtype='i4')
arange(1, 3, 0.5)|np.arange(1, 3, 0.5)
zeros((2, 3))|np.zeros((2, 3), 'f4')
generate((3, 3), kind="identity")|np.eye(3, dtype='f4')
END
    echo 'save("o.npy", batch(tokens("letters.txt"), 3, 15, seed=1, turn=0)[1])' > e.py
    ranks 2 run e.py
    expect_status 0
    py -c "import numpy as np; assert np.array_equal(np.load('o.npy'), [np.arange(1, 16)] * 3)"
}

@test "run: a long sum does not count as deep nesting" {
    need_numpy
    python > e.py <<'END'
print('x = generate((3, 4), kind="integer", seed=1)')
print("n =", " - ".join(str(i) for i in range(2000)))
print('save("y.npy",', " + ".join(["x"] * 200), "- x * (1 - 2 - 3 ** 2 ** 1))")
print('save("x.npy", x)')
print('print(n, 7 - (2 - (3 - 4)) - 5, log(x - 9))')
END
    program run e.py
    expect_quiet_success
    [[ $output == '-1999000 -1 log(x - 9): 3 x 4, '*'; min nan, max nan, mean nan'$'\n'* && $output != *-nan* ]]
    python <<'END'
import numpy as np
assert (np.load("y.npy") == 210 * np.load("x.npy")).all()
END
}

@test "run: an error in data has its place in the text, on any rank" {
    need_numpy
    python <<< 'import numpy as np
np.save("ids.npy", np.array([[0, 3], [1, 2], [2, 11], [0, 0]], np.int32))'
    script 'table = generate((11, 4))
def look(ids):
    return take(table + 1,
                ids)

save("y.npy", look(load("ids.npy")))'
    local count
    for count in 1 3; do
        ranks "$count" run e.py
        expect_status 65
        [[ $stderr == "mpimatmul: "*"e.py:3:12: cannot read row 11 of 'table + 1', which has 11 rows
        return take(table + 1,
               ^" ]]
        [ "${#stderr_lines[@]}" -eq 3 ]
        expect_only_files e.py ids.npy
    done
    mkdir -p a-folder-with-a-long-name/that-is-in-another-one-with-a-long-name/as-it-happens
    mv e.py a-folder*/*/*/
    program run a-folder*/*/*/e.py
    [[ $stderr == 'mpimatmul: ..'*'/as-it-happens/e.py:3:12: cannot read row 11 of '* ]]
}

@test "run: NAME=VALUE replaces literals at the top only" {
    script 'rows = 3
kind = "uniform"
x = generate((rows, 4), kind=kind)
save(f"{kind}-{rows}.npy", x)'
    program run e.py rows=5 kind=integer
    expect_quiet_success
    [ "$(head -c 128 integer-5.npy | strings | grep -o "'shape': .*), }")" = "'shape': (5, 4), }" ]
    expect_only_files e.py integer-5.npy
    program run e.py rowss=5
    expect_failure 64 "'rowss=5': no line of 'e.py' assigns a number or string to 'rowss'" "'rows'?"
    program run e.py n=5
    expect_failure 64 "'n=5': no line of 'e.py' assigns a number or string to 'n'" "it has 'rows', 'kind'"
    program run e.py rows=five
    expect_failure 64 "'rows=five': expected a number after '='"
    program run e.py rows
    expect_failure 64 "run: expected NAME=VALUE, found 'rows'" 'mpimatmul run FILE [NAME=VALUE...] [options]'
    program run none.py
    expect_failure 66 "cannot open 'none.py': No such file or directory"
}

@test "run: missing files, files that are also written, and missing folders are refused" {
    script 'x = load("none.npy")'
    program run e.py
    expect_failure 66 "e.py:1:5: cannot open 'none.npy': No such file or directory"
    script 'x = generate((3, 4))
save("one.npy", x)
save("none/two.npy", x)'
    program run e.py
    expect_failure 73 "e.py:3:1: cannot create 'none/two.npy': No such file or directory"
    expect_only_files e.py
    refuses 'x = generate((3, 4))
save("x.npy", x)
y = load("x.npy")' "e.py:3:5: cannot load 'x.npy': line 2 saves it"
    "$MPIMATMUL" gen x.npy --dims 3x4 --quiet
    script 'save("x.npy", load("x.npy") * 2)'
    program run e.py
    expect_status 73
    [[ $stderr == *"e.py:1:1: "* ]]
    expect_only_files e.py x.npy
}

@test "run: a program may use more files than the shell's limit" {
    script 'x = generate((64, 64), kind="integer")
save("x.npy", x)
for i in range(1100):
    save(f"x{i}.npy", x @ (x + i))'
    (ulimit -S -n 1024 && "${launch[@]}" -n 2 "$MPIMATMUL" run e.py --quiet < /dev/null)
    python <<'END'
import numpy as np
x = np.load("x.npy")
assert all((np.load(f"x{i}.npy") == x @ (x + i)).all() for i in range(1100))
END
}

@test "run: a failing assert_close ends with 79 and one line on several ranks, and saves no file" {
    script 'x = generate((30, 40))
save("x.npy", x)
assert_close(x, x * 1, 0)
assert_close(x, x + 0.5, 0.25)'
    local count
    for count in 1 3; do
        ranks "$count" run e.py
        expect_failure 79 'e.py:4:1: not close: the largest difference 0.5 exceeds the tolerance 0.25'
        expect_only_files e.py
    done
}

@test "run --check: the plan is printed and no file is written" {
    script 'x = generate((300, 400))
y = relu(x @ x.T)
save("y.npy", y)'
    ranks 2 run e.py --check
    expect_status 0
    [[ $output == *'x @ x.T'*'matmul'*'300 x 300'* ]]
    local most=' per node, the run itself '
    [[ $output == *'2 ranks on 1 node: '*$' over the network,\nvalues take '*"$most"*', predicted '*' s'* ]]
    expect_only_files e.py
}

@test "run --check: rows of values with similar long names differ" {
    local long=a_name_of_a_matrix_that_goes_on_and_on_and_on_and_on_and_on_until_it_says_what_it_means_which_is
    mkdir -p "$long/$long"
    "$MPIMATMUL" gen "$long/$long/first.npy" --dims 5x5
    "$MPIMATMUL" gen "$long/$long/other.npy" --dims 5x5
    script "x = load(\"$long/$long/first.npy\")
y = load(\"$long/$long/other.npy\")
${long}_one = relu(x @ y)
${long}_two = relu(y @ x)
p = abs(${long}_one[0:3, 0:2] @ ${long}_two[0:2] + 1.5)
save(\"z.npy\", abs(${long}_one[0:3, 0:2] @ ${long}_two[0:2] + 2.5) + p)"
    program run e.py --check
    expect_quiet_success
    local end
    for end in first.npy other.npy is_one is_two '[0:2] + 1.5' '[0:2] + 2.5'; do
        # A value with a row of its own: its beginning, two dots, its end.
        grep -q -E "^[^ ]+.*\.\..*${end//[[+.]/\\&} " <<< "${output%%step *}" || { echo "$end"; show; return 1; }
    done
}

@test "run: reductions along the axis of a file with one axis give numpy's results" {
    need_numpy
    python << 'END'
import numpy as np
np.save("v.npy", np.arange(5, dtype="f4"))
np.save("m.npy", np.arange(15, dtype="f4").reshape(3, 5))
END
    local axis name
    for name in sum mean max min; do
        for axis in 0 1; do
            script "x = load(\"v.npy\")
print($name(x, axis=$axis))"
            program run e.py
            expect_failure 65 "e.py:2:$((16 + ${#name})): $name along axis $axis of a one-axis array, $(
                )which is stored as a row (1 x 5)" "axis=-1 runs along its elements"
            ! PYTHONPATH=$REPO/tests py -c "from reference import *
$name(load('v.npy'), axis=$axis)" 2> /dev/null || return 1
        done
    done
    local row
    for row in "14 0 " "22 0 , 0" "27 1 , axis=1"; do
        script "x, y = load(\"v.npy\"), load(\"m.npy\")
print(concat((y, x)${row:5}))"
        program run e.py
        expect_failure 65 "e.py:2:${row:0:2}: concat along axis ${row:3:1} of a one-axis array, $(
            )which is stored as a row (1 x 5)" "axis=-1 joins the elements, axis=-2 stacks the rows"
        ! PYTHONPATH=$REPO/tests py -c "from reference import *
concat((load('m.npy'), load('v.npy'))${row:5})" 2> /dev/null || return 1
    done
    # An operation by element on a row has one axis, too. Other results have numpy's axes.
    script 'x = load("v.npy")
print(mean(x * 2, axis=0))'
    program run e.py
    expect_failure 65 "e.py:2:24: mean along axis 0 of a one-axis array, which is stored as a row (1 x 5)" \
        "axis=-1 runs along its elements"
    script 'x, y = load("v.npy"), load("m.npy")
save("a.npy", mean(y, axis=0))
save("b.npy", mean(x, axis=-1))
save("c.npy", mean(reshape(x, (1, 5)) * 2, axis=0))
save("joined.npy", concat((x, x), axis=-1))
save("below.npy", concat((y, x), axis=-2))
save("d.npy", mean(x))'
    program run e.py
    expect_quiet_success
    python << 'END'
import numpy as np
v, m = np.load("v.npy"), np.load("m.npy")
for name, expected in ("a", m.mean(0, keepdims=True)), ("b", [[2]]), ("c", [v * 2]), ("d", [[2]]), (
        "joined", [np.concatenate((v, v))]), ("below", np.vstack((m, v))):
    assert np.array_equal(np.load(name + ".npy"), expected), name
END
}

@test "run: memory of a long loop does not grow with its length" {
    script 'n = 60
x = generate((500, 500))
for i in range(n):
    x = tanh(x + 0.5)
save("x.npy", x)'
    program run e.py --check
    local short=${output##*values take }
    program run e.py n=600 --check
    [ "${output##*values take }" != "$output" ]
    local long=${output##*values take }
    [ "${short%% per*}" = "${long%% per*}" ]
}

@test "run: log, trace and report of two ranks agree" {
    need_numpy
    script 'x = generate((300, 200), kind="integer", seed=1)
y = relu(x @ x.T)
save("y.npy", y)
best, where = topk(y, 2)
save("where.npy", where)'
    ranks 2 run e.py --log log --trace trace.json --report report.json --device cpu
    expect_quiet_success
    expect_only_files e.py y.npy where.npy log trace.json report.json
    python "$REPO/include/mpimatmul_report.schema.json" << 'PYTHON_END'
import json
import sys
import numpy as np
places = np.load("where.npy")
assert places.dtype == np.int32 and places[0, 0] == np.load("y.npy")[0].argmax()
report, trace = json.load(open("report.json")), json.load(open("trace.json"))
rows = [line.rstrip("\n").split("\t") for line in open("log")]
head, rows = rows[0], [dict(zip(rows[0], row)) for row in rows[1:]]
assert head == "begin end seconds rank phase operation value shape placement part_bytes network_bytes".split()
assert {row["rank"] for row in rows} == {"0", "1"} and {"matmul + relu", "topk"} <= {row["operation"] for row in rows}
products = [row for row in rows if row["operation"] == "matmul + relu"]
assert {row["phase"] for row in products} >= {"compute", "check"} and products[0]["shape"] == "300 x 300"
for rank in report["ranks"]:  # a rank's work adds up to the wall time
    seconds = sum(rank[phase + "_seconds"] for phase in (
        "setup", "scatter", "compute", "copy", "verify", "gather", "idle", "commit"))
    assert abs(seconds - report["wall_seconds"]) < 1e-6
    spans = [o["ranks"][rank["rank"]] for o in report["operations"]]
    for span in spans:
        parts = span["wait_seconds"] + span["work_seconds"] + span["check_seconds"]
        assert abs(parts - (span["end_seconds"] - span["begin_seconds"])) < 1e-6
    assert all(x["end_seconds"] <= y["begin_seconds"] + 1e-9 for x, y in zip(spans, spans[1:]))
events = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["tid"] == 0]
assert len(events) == 2 * len(report["operations"]) and {e["pid"] for e in events} == {0, 1}
try:
    import jsonschema
except ImportError:
    sys.exit()
jsonschema.validate(report, json.load(open(sys.argv[1])))
PYTHON_END
    program run e.py --log y.npy
    expect_failure 73 "cannot write the log to 'y.npy': it is the program's or one of its files"
    program run e.py --log x --trace x
    expect_failure 73 "cannot write the trace to 'x': it is the log"
    program run e.py --log none/x
    expect_failure 73 "cannot write the log to 'none/x': No such file or directory"
    program run e.py --log -
    expect_failure 73 "cannot write the log to '-': only matrices go to stdout" "./- names a file called '-'"
}

@test "run: names appear in tables and errors, and values beyond float32 are reported" {
    need_numpy
    python <<< 'import numpy as np; np.save("x.npy", np.array([[1e300, 1.0]]))'
    script 'a, b = generate((3, 2)), generate((3, 2), seed=2)
c = load("x.npy") * (a - b)
save("c.npy", c)'
    program run e.py --dtype float32
    expect_status 0
    [ "$stderr" = "mpimatmul: warning: 'x.npy': values beyond float32 were read as infinite" ]
    program run e.py --check --dtype float32
    expect_status 0
    grep -q -E '^a  +generate +3 x 2$' <<< "$output"
    grep -q -E '^c  +multiply +x.npy, \(a - b\) +3 x 2$' <<< "$output"
}

@test "run: float64 is used if all inputs have it, else float32" {
    need_numpy
    python << 'PYTHON_END'
import numpy as np
rng = np.random.default_rng(1)
for name in "xy":
    np.save(name + ".npy", rng.standard_normal((7, 5)))
np.save("z.npy", rng.standard_normal((7, 5)).astype("f4"))
np.save("i.npy", np.array([[2 ** 24 + 1, 3, 0]]))
np.save("j.npy", np.array([6, 0, 3]))
PYTHON_END
    script 'x, y, z, i, j = load("x.npy"), load("y.npy"), load("z.npy"), load("i.npy"), load("j.npy")
save("alone.npy", tanh(x * y + 1) / 3)
save("kinds.npy", where(x > 0, x, generate((7, 5), seed=4)) + tanh(generate((7, 5))))
save("rows.npy", take(x, j) - sum(softmax(y[0:3, :]), axis=-2))
save("whole.npy", x[0:1, 0:3] * i)
save("places.npy", argmax(x))
save("product.npy", relu(x @ y.T) @ place(generate((7, 5), kind="integer"), "rows"))
save("half.npy", x @ z.T)
save("mixed.npy", x + z)
save("float.npy", z * 2)
save("drawn.npy", tanh(generate((7, 5))))
assert_close(x - x / 3 * 3, x * 0, 1e-15)
print(x / 3)'
    cat > judge.py << 'PYTHON_END'
import numpy as np
x, y, z, i, j = (np.load(name + ".npy") for name in "xyzij")
g = lambda seed: np.load(f"g{seed}.npy").astype("f8")
n = np.load("n.npy").astype("f8")
e = np.exp(y[:3] - y[:3].max(-1, keepdims=True))
for name, expected, dtype in (("alone", np.tanh(x * y + 1) / 3, "f8"),
                              ("kinds", np.where(x > 0, x, g(4)) + np.tanh(g(1)), "f8"),
                              ("rows", x[j] - (e / e.sum(-1, keepdims=True)).sum(-2), "f8"),
                              ("whole", x[:1, :3] * i, "f8"), ("product", np.maximum(x @ y.T, 0) @ n, "f8"),
                              ("half", x @ z.T, "f4"), ("places", x.argmax(-1)[:, None], "i4"),
                              ("mixed", x + z, "f4"), ("float", z * 2, "f4"), ("drawn", np.tanh(g(1)), "f4")):
    made = np.load(name + ".npy")
    assert made.dtype == dtype, (name, made.dtype)
    assert np.abs(made - expected).max() <= np.abs(expected).max() * (2e-7 if dtype == "f4" else 1e-15), name
PYTHON_END
    program gen g1.npy --dims 7x5 --seed 1
    program gen g4.npy --dims 7x5 --seed 4
    program gen n.npy --dims 7x5 --kind integer --seed 1
    for n in 1 3; do
        ranks "$n" run e.py
        expect_status 0
        [ "$stderr" = "mpimatmul: notice: 'x.npy' is float64 and is read as float32" ]
        python judge.py
    done
    program run e.py --check
    expect_status 0
    grep -q -E '^x.npy  +load +7 x 5 float64$' <<< "$output"
    grep -q -E 'add +x.npy, z.npy +7 x 5$' <<< "$output"
}

@test "run: --dtype float32 reads float64 as float32, and a .bin cannot hold float64" {
    need_numpy
    python <<< 'import numpy as np; np.save("x.npy", np.arange(6.0).reshape(2, 3) / 3)'
    script 'save("y.npy", load("x.npy") * 2)'
    program run e.py --dtype float32
    expect_quiet_success
    python <<< 'import numpy as np; y = np.load("y.npy"); assert y.dtype == np.float32
assert (y == np.load("x.npy").astype("f4") * 2).all()'
    program run e.py
    expect_quiet_success
    python <<< 'import numpy as np; assert (np.load("y.npy") == np.load("x.npy") * 2).all()'
    program map neg x.npy -o y.bin
    expect_failure 64 "cannot write 'y.bin' as float64: .bin has no such type
  hint: --dtype float32 computes in float32"
    program map neg x.npy -o y.bin --dtype float32
    expect_status 0
    program run e.py --dtype float16
    expect_failure 64 "--dtype: 'float16' is invalid, expected one of auto|float32"
}

@test "a range of a tensor is not written, and the error has its place in the text" {
    "$MPIMATMUL" gen A.bin --dims 4x4 --quiet
    printf '%s\n' 'a = load("A.bin")' 'save("m.npz:a[0:1]", a)' > p.py
    local line="'m.npz:a[0:1]': only a whole tensor can be written, not a range of one"
    program run p.py
    expect_failure 64 "p.py:2:1: cannot write $line" "'m.npz:a'"
    program run --check p.py
    expect_failure 64 "p.py:2:1: cannot write $line" "'m.npz:a'"
    program mul A.bin A.bin -o 'm.npz:a[0:1]'
    expect_failure 64 "cannot write $line" "'m.npz:a'"
    program convert A.bin 'm.safetensors:b[:-1]'
    expect_failure 64 "cannot write ${line//'m.npz:a[0:1]'/'m.safetensors:b[:-1]'}" "'m.safetensors:b'"
    expect_only_files A.bin p.py
    program convert A.bin 'm.npz:a[b]'
    expect_quiet_success
}

@test "of a NAME=VALUE of 100,000 characters both ends are shown" {
    local long
    long=$(printf '7%.0s' {1..100000})
    printf '%s\n' 'N = 3' 'print(N)' > p.py
    program run p.py "N=1${long}3"
    expect_failure 64 "'N=1${long::26}..${long::28}3': expected a number after '='"
    program run p.py "A${long}Z=3"
    expect_failure 64 "'A${long::28}..${long::26}Z=3': no line of 'p.py' assigns a number or $(
        )string to 'A${long::28}..${long::28}Z'" "it has 'N'"
    program run p.py "A${long}Z"
    expect_failure 64 "run: expected NAME=VALUE, found 'A${long::28}..${long::28}Z'" \
        "mpimatmul run FILE [NAME=VALUE...] [options]"
}
