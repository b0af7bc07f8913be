#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154 # status, output, stderr and launch are set by bats and the helper
# run and the one-line commands: options that apply to all operations, and options that do not.

load helper

chain='x, w = load("X.bin"), load("W.bin")
y = relu(x @ w)
save("Y.npy", y @ w)
print(y)
print("sides", 300, y.shape)'

@test "run: options of a single product are refused with the reason" {
    echo "$chain" > e.py
    program run e.py --split cols
    expect_failure 64 'run: --split is for a single product: use place(x, "cols") in a program'
    program run e.py --transpose-a
    expect_failure 64 "run: --transpose-a belongs to mul: use x.T in a program"
    program add X.bin W.bin --dry-run
    expect_failure 64 "add: --dry-run is called --check here"
    program map relu X.bin --format=npy
    expect_failure 64 "map: --format is not needed: the file's ending chooses the format"
    program run e.py --wieghts 1
    expect_failure 64 "run: unknown option '--wieghts', did you mean '--weights'?"
}

@test "run: --json has the printed and saved values, and with --check the plan" {
    need_numpy
    "$MPIMATMUL" gen X.bin --dims 40x30 --kind integer --seed 1 -q
    "$MPIMATMUL" gen W.bin --dims 30x30 --kind integer --seed 2 -q
    echo "$chain" > e.py
    ranks 2 run e.py --json
    expect_quiet_success
    printf '%s' "$output" > printed.json
    python <<'END'
import json
run = json.load(open("printed.json"))["run"]
# Two products, relu, and least, largest and mean for print: of rows, then of all.
assert run["flops"] == 2 * (2 * 40 * 30 * 30) + 40 * 30 + 3 * (40 * 30 + 40), run
assert abs(run["flops_per_second"] * run["wall_seconds"] / run["flops"] - 1) < 1e-9, run
assert run["verified"] and run["lines_checked"] > 0 and run["blocks_recomputed"] == 0, run
assert run["wall_seconds"] > 0 and run["startup_seconds"] > 0 and run["steps"] > 2, run
END
    ranks 2 run e.py --check --json --device cpu --weights 0.75,0.25
    expect_quiet_success
    printf '%s' "$output" > plan.json
    program map relu X.bin -o R.npy --json
    expect_quiet_success
    printf '%s' "$output" > line.json
    python <<'END'
import json
import numpy as np
printed, plan, line = (json.load(open(name + ".json")) for name in ("printed", "plan", "line"))
matrix, text = printed["printed"]
y = np.maximum(np.fromfile("X.bin", "f4")[5:].reshape(40, 30) @ np.fromfile("W.bin", "f4")[5:].reshape(30, 30), 0)
assert matrix["name"] == "y" and matrix["shape"] == [40, 30] and matrix["max"] == y.max()
assert np.array_equal(matrix["corner"], y[:4, :6]) and abs(matrix["mean"] - y.mean()) < 1e-3
assert text == {"text": "sides 300 (40, 30)"}
assert printed["saved"] == [{"file": "Y.npy", "shape": [40, 30]}]
assert line["saved"] == [{"file": "R.npy", "shape": [40, 30]}] and line["printed"] == []
assert [rank["rank"] for rank in plan["ranks"]] == [0, 1]
steps = plan["steps"]
assert all(len(step["memory_bytes"]) == len(step["device_bytes"]) == 2 for step in steps)
# y has rows on both ranks until its last read, three quarters on the first: multiples of 64 bytes
made = next(step for step in steps if step["value"] == "y" and step["operation"] == "matmul + relu")
assert made["placement"] == "rows 0 30 40" and made["memory_bytes"][1] >= 10 * 30 * 4
# Speeds are not measured for so small a program, but its seconds are predicted
assert made["seconds"] > 0
# Memory beside the values exists for the whole run: the segment, and each rank's own
node, = plan["nodes"]
totals = [sum(step["memory_bytes"]) for step in steps]
assert node["values_bytes"] == plan["memory_bytes"] >= 40 * 30 * 4 and node["run_bytes"] >= 1 << 20
assert min(totals) + 2 >= node["run_bytes"] and max(totals) <= node["values_bytes"] + node["run_bytes"]
assert max(totals) >= node["run_bytes"] + 40 * 30 * 4
END
}

# valid SCHEMA FILE...: the schema accepts the files and no field that it does not describe.
valid() {
    py - "$REPO/include/mpimatmul_$1.schema.json" "${@:2}" << 'END'
import json, sys, jsonschema
schema = json.load(open(sys.argv[1]))
jsonschema.Draft7Validator.check_schema(schema)
for name in sys.argv[2:]:
    jsonschema.validate(json.load(open(name)), schema)
END
}

@test "run --json, --check --json and --report match their schemas" {
    py -c 'import jsonschema' 2> /dev/null || skip "python3-jsonschema is not installed"
    "$MPIMATMUL" gen X.bin --dims 40x30 --kind integer --seed 1 -q
    "$MPIMATMUL" gen W.bin --dims 30x30 --kind integer --seed 2 -q
    export MPIMATMUL_SHARD_DIR=$PWD/s
    echo "$chain" > a.py
    # Stacks, NaN and infinities, several outputs, a kept set, a search; a grid and an unsaved
    # value.
    printf '%s\n' 's = generate((2, 3, 8, 9))' 'print("a", 1, log(s) / 0, s @ s.T)' 'save("m.npz:a", s)' \
        'save("m.npz:b", sum(s, axis=None))' 'save("kept:s", exp(s))' > b.py
    printf '%s\n' 'x = place(load("X.bin"), "grid")' 'v, i = topk(x @ load("W.bin"), 3)' 'save("i.npy", i)' \
        'print(place(v, "replicate"))' > c.py
    echo 'y = generate((5, 5))' > d.py
    for file in a b c d; do
        run --separate-stderr "${launch[@]}" --oversubscribe -n 3 "$MPIMATMUL" run $file.py --json --device cpu \
            --report $file.report
        expect_status 0
        printf '%s' "$output" > $file.printed
        run --separate-stderr "${launch[@]}" --oversubscribe -n 3 "$MPIMATMUL" run $file.py --check --json --device cpu
        expect_status 0
        printf '%s' "$output" > $file.plan
    done
    program map relu X.bin -o T.npy --json
    expect_quiet_success
    printf '%s' "$output" > t.printed
    valid run ./*.printed
    valid program_plan ./*.plan
    valid report ./*.report
    # Damaged files are refused, so the schemas can fail.
    sed 's/"saved"/"stored"/' a.printed > wrong
    run valid run wrong
    expect_status 1
    sed 's/"replicate"/"everywhere"/; s/"rows /"lines /' a.plan > wrong
    run valid program_plan wrong
    expect_status 1
}

@test "run --check: the memory of each step, and the peak of each rank and device" {
    "$MPIMATMUL" devices --json | grep -q '"0:0"' || skip "opencl: no device 0:0"
    echo 'x = generate((512, 1024))
y = place(relu(x @ x.T), "rows")
save("y.npy", tanh(y @ y))' > e.py
    run --separate-stderr "${launch[@]}" -n 1 "$MPIMATMUL" run e.py --check --device cpu --weights equal : \
        -n 1 "$MPIMATMUL" run e.py --check --device 0:0 --weights equal
    expect_quiet_success
    grep -q -E '^step +operation +value +from +placement +network +seconds +memory$' <<< "$output"
    grep -q -E '^rank +host +device +memory +in step +device memory +in step$' <<< "$output"
    # Parts of y are 512 KiB, of x 1 MiB. A card has tiles of a product, a CPU none.
    [ "$(grep -c -E '^ +[01] +[^ ]+ .* MiB +[0-9]+ ' <<< "$output")" -eq 2 ]
    grep -q -E '^ +0 .* - +-$' <<< "$output"
    grep -q -E '^ +1 .* MiB +[0-9]+$' <<< "$output"
}

@test "run --check --quiet prints the plan and errors without notices" {
    printf 'x = generate((9, 5))\nsave("o.npy", x @ x.T)\nfor i in range(2):\n    print(sum(x))\n' > e.py
    echo 'nobody: rows' > p.yaml
    run --separate-stderr "$MPIMATMUL" run e.py --device reference --check --placement p.yaml
    expect_status 0
    [ "$stderr" = "mpimatmul: notice: 'nobody' in 'p.yaml' matches no name of the program" ]
    local told=$output
    [[ $told == "value "*"x  "*"matmul"*"1 rank on 1 node: "* ]]
    run --separate-stderr "$MPIMATMUL" run e.py --device reference --check --placement p.yaml --quiet
    expect_quiet_success
    [ "$output" = "$told" ]
    run --separate-stderr "$MPIMATMUL" run e.py --device reference --check --quiet --memory 1KiB
    [ "$status" -ne 0 ] && [ -z "$output" ] && [[ $stderr == "mpimatmul: "* ]]
    [ ! -e o.npy ]
}

@test "run: a run keeps to --memory or names a sufficient size" {
    need_numpy
    need_plain "the sanitizer's own memory counts"
    # x is 61 MiB and comes in pieces. w, y and y - 1 are 6 MiB each. Without a limit a grid would
    # have all of x.
    "$MPIMATMUL" gen X.bin --dims 4001x4003 --kind integer --seed 1 -q
    "$MPIMATMUL" gen W.bin --dims 4003x401 --kind integer --seed 2 -q
    echo 'x, w = load("X.bin"), load("W.bin")
y = x @ w
save("Y.npy", y)
save("Z.npy", y - 1)' > e.py
    run "$PYTHON" "$REPO/tests/lib/memory.py" 90 "${launch[@]}" -n 2 "$MPIMATMUL" run e.py --memory 90MiB \
        --device faulty:delay=0.5s:cpu --weights equal
    expect_status 0
    "$MPIMATMUL" mul X.bin W.bin -o C.npy --device cpu -q
    cmp Y.npy C.npy
    python <<< 'import numpy as np; assert (np.load("Z.npy") == np.load("Y.npy") - 1).all()'
    rm Y.npy Z.npy
    ranks 2 run e.py --memory 30MiB
    expect_status 71
    local needed="mpimatmul: cannot fit the program's values: "
    [[ $stderr == "$needed"*" MiB, and "*" MiB of work space, needed on '"*"', where the limit of 30.0 MiB leaves "* ]]
}

# The memory that a refusal proposes suffices and is not exceeded. Much less is refused. The second
# program has sums that both checks could use, the third one tiles of its own.
@test "run: a refusal proposes a sufficient memory size, and the run keeps to it" {
    need_numpy
    need_plain "the sanitizer's own memory counts"
    "$MPIMATMUL" gen X.bin --dims 2001x2003 --kind integer --seed 1 -q
    "$MPIMATMUL" gen W.bin --dims 2003x401 --kind integer --seed 2 -q
    echo 'x, w = load("X.bin"), load("W.bin")
y = x @ w
save("Y.npy", y)
save("Z.npy", gelu(y / 64 - 1))' > products.py
    echo 'x = generate((1001, 800), kind="integer", seed=3)
w = generate((800, 2003), kind="integer", seed=4)
v = generate((800, 1005), kind="integer", seed=5)
save("Y.npy", x @ w)
save("Z.npy", relu(x @ v))' > twice.py
    echo 'x = generate((4001, 130), kind="integer", seed=3)
y = generate((5003, 130), kind="integer", seed=4)
v, i = topk(x @ y.T, 5)
save("Y.npy", v)
save("Z.npy", i)' > search.py
    local name enough
    for name in products twice search; do
        ranks 2 run "$name.py" --device cpu --weights equal
        expect_quiet_success
        mkdir -p "$name"
        mv Y.npy Z.npy "$name"
        ranks 2 run "$name.py" --memory 20MiB --device cpu --weights equal
        expect_status 71
        enough=$(sed -n 's/^  hint: --memory \([0-9]*\)MiB is enough for them$/\1/p' <<< "$stderr")
        run "$PYTHON" "$REPO/tests/lib/memory.py" "$enough" "${launch[@]}" -n 2 "$MPIMATMUL" run "$name.py" -q \
            --memory "${enough}MiB" --device cpu --weights equal
        expect_status 0
        cmp Y.npy "$name/Y.npy" && cmp Z.npy "$name/Z.npy"
        ranks 2 run "$name.py" --memory "$((enough * 85 / 100))MiB" --device cpu --weights equal
        expect_status 71
    done
}

# run_bytes PROGRAM OPTIONS...: the run's memory on its node beside the values.
run_bytes() {
    "${launch[@]}" -n 3 "$MPIMATMUL" run "$1" --check --json --device cpu --weights equal "${@:2}" > plan.json &&
        sed -n 's/^ *"run_bytes": \([0-9]*\)$/\1/p' plan.json
}

# refused MIB FILE: the program is refused with that much memory.
refused() {
    ranks 3 run "$2" --memory "${1}MiB" --device cpu --weights equal
    expect_status 71
}

# Almost all of the proposed memory is used. Both products share the room for vectors of the check,
# which are wide here, but not the lanes. Each of two products of files could use all memory, and
# both get less.
@test "run: a run uses almost all of the memory that its refusal proposes" {
    need_plain "the sanitizer's own memory counts"
    "$MPIMATMUL" gen X.bin --dims 2001x2003 --kind integer --seed 1 -q
    "$MPIMATMUL" gen W.bin --dims 2003x401 --kind integer --seed 2 -q
    "$MPIMATMUL" gen V.bin --dims 401x503 --kind integer --seed 3 -q
    "$MPIMATMUL" gen U.bin --dims 903x2001 --kind integer --seed 4 -q
    echo 'save("Y.npy", generate((40, 500000), seed=3) @ generate((500000, 30), seed=4))' > inner.py
    echo 'x = place(generate((301, 60000), seed=3), "rows")
save("Y.npy", x @ generate((60000, 91), seed=4))
save("Z.npy", x @ generate((60000, 113), seed=5))' > twice.py
    echo 'x, w, v, u = load("X.bin"), load("W.bin"), load("V.bin"), load("U.bin")
y = x @ w
save("Y.npy", y)
save("Z.npy", (u @ y) @ v)' > chain.py
    local name enough processes
    refused 90 twice.py
    processes=$(sed -n 's/.* of 90.0 MiB the processes leave \([0-9]*\)\.[0-9] MiB$/\1/p' <<< "$stderr")
    processes=$((90 - processes))
    for name in inner twice chain; do
        refused 20 "$name.py"
        enough=$(sed -n 's/^  hint: --memory \([0-9]*\)MiB is enough for them$/\1/p' <<< "$stderr")
        refused "$((enough * 85 / 100))" "$name.py"
        run_bytes "$name.py" --memory "${enough}MiB"
        py - "$enough" "$processes" <<< 'import json, sys
enough, processes = map(int, sys.argv[1:])
node, = json.load(open("plan.json"))["nodes"]
used = (node["values_bytes"] + node["run_bytes"]) / 2**20
assert used + processes > enough * 15 / 16 - 2, (used, processes, enough)'
    done
}

# run_apart FILE: moves the results of a run with unlimited memory to a folder.
run_apart() {
    ranks 3 run "$1" --device cpu --weights equal
    expect_quiet_success
    mkdir apart
    mv Y.npy Z.npy apart
}

# runs_within MIB FILE: a run within that memory has the same results.
runs_within() {
    run "$PYTHON" "$REPO/tests/lib/memory.py" "$1" "${launch[@]}" -n 3 "$MPIMATMUL" run "$2" -q \
        --memory "${1}MiB" --device cpu --weights equal
    expect_status 0
    cmp Y.npy apart/Y.npy && cmp Z.npy apart/Z.npy
}

# w is wide, and each rank's check would sum it once for both products, in equally wide vectors.
@test "run: sums shared by several products are kept if there is room for them" {
    need_numpy
    need_plain "the sanitizer's own memory counts"
    echo 'w = place(generate((16, 300000), kind="integer", seed=3), "replicate")
x = place(generate((64, 16), kind="integer", seed=4), "rows")
z = place(generate((40, 16), kind="integer", seed=5), "rows")
save("Y.npy", sum(x @ w, axis=-1))
save("Z.npy", sum(z @ w, axis=-1))' > wide.py
    run_apart wide.py
    ranks 3 run wide.py --memory 20MiB --device cpu --weights equal
    expect_status 71
    local enough wide narrow
    enough=$(sed -n 's/^  hint: --memory \([0-9]*\)MiB is enough for them$/\1/p' <<< "$stderr")
    wide=$(run_bytes wide.py)
    narrow=$(run_bytes wide.py --memory "${enough}MiB")
    [ "$wide" -gt $((3 * 300000 * 40)) ] && [ "$narrow" -lt $((wide / 2)) ]
    runs_within "$enough" wide.py
}

# Products of blocks, here of summands: with the least accepted memory there are no shared sums.
@test "run: no program is refused because of sums that products could share" {
    need_numpy
    need_plain "the sanitizer's own memory counts"
    echo 'x, z = generate((2, 500001), kind="integer", seed=3), generate((3, 500001), kind="integer", seed=4)
v, w = generate((500001, 2), kind="integer", seed=5), generate((500001, 3), kind="integer", seed=6)
x, z, v, w = place(x, "cols"), place(z, "cols"), place(v, "rows"), place(w, "rows")
save("Y.npy", x @ v + z[0:2, :] @ v)
save("Z.npy", concat((x @ w, z @ w), axis=0))' > long.py
    run_apart long.py
    local enough=70 wide narrow
    wide=$(run_bytes long.py)
    until narrow=$(run_bytes long.py --memory "${enough}MiB" 2> /dev/null); do
        enough=$((enough + 6))
        [ "$enough" -lt 400 ]
    done
    [ "$narrow" -lt $((wide * 9 / 10)) ]
    runs_within "$enough" long.py
}

@test "run: several values may go to one file, and a file has one name" {
    need_numpy
    echo 'x = generate((30, 40), kind="integer", seed=3)
y = x @ x.T
v, i = topk(y, 3)
for ending in range(2):
    name = "m.safetensors"
    if ending == 1:
        name = "./m.npz"
    save(f"{name}:x", x)
    save(f"{name}:layer.y", y)
    save(f"{name}:i", i)
    save(f"{name}:stack", reshape(x, (2, 3, 5, 40)))
save("one.safetensors", y)' > e.py
    local count
    for count in 1 3; do
        ranks "$count" run e.py
        expect_quiet_success
        expect_only_files e.py m.npz m.safetensors one.safetensors
        python <<'END'
import json
import numpy as np
archive = np.load("m.npz")
assert archive.files == ["x", "layer.y", "i", "stack"]
bytes_ = open("m.safetensors", "rb").read()
data = 8 + int.from_bytes(bytes_[:8], "little")
head = json.loads(bytes_[8:data])
assert all(key.startswith("xxh3") for key in head.pop("__metadata__")), head
types = {"F32": np.float32, "I32": np.int32}
tensors = {name: np.frombuffer(bytes_[data + t["data_offsets"][0]:data + t["data_offsets"][1]],
                               types[t["dtype"]]).reshape(t["shape"]) for name, t in head.items()}
x, y = archive["x"], archive["layer.y"]
assert x.any() and np.array_equal(y, x @ x.T) and archive["stack"].shape == (2, 3, 5, 40)
assert np.array_equal(archive["i"][:, 0], y.argmax(-1)) and archive["i"].dtype == np.int32
assert list(tensors) == archive.files and all(np.array_equal(tensors[name], archive[name]) for name in archive.files)
assert data % 64 == 0 and len(bytes_) == data + sum(t.nbytes for t in tensors.values())
END
        "$MPIMATMUL" info m.safetensors m.npz:layer.y > /dev/null
    done
    # A failure leaves no part of the file.
    rm m.npz m.safetensors one.safetensors
    echo 'assert_close(x, x + 1, 0.5)' >> e.py
    program run e.py
    expect_failure 79 'e.py:13:1: not close: the largest difference 1 exceeds the tolerance 0.5'
    expect_only_files e.py
}

@test "run: a file is saved once in any spelling, and needs a known ending" {
    mkdir there
    ln -s there link
    local check line
    for check in "" --check; do
        echo 'x = generate((3, 4))
save("there/a.npy", x)
save("link/../there/a.npy", x)' > e.py
        program run e.py $check
        expect_failure 65 "e.py:3:1: cannot save to 'link/../there/a.npy': line 2 saves it as 'there/a.npy'"
        echo 'x = generate((3, 4))
save("a.npz:w", x)
save("./a.npz:v", x)
y = load("a.npz:u")' > e.py
        program run e.py $check
        expect_failure 65 "e.py:4:5: cannot load 'a.npz:u': line 3 saves it as './a.npz:v'"
        echo 'x = generate((3, 4))
save("a.npz", x)
save("a.npz:data", x)' > e.py
        program run e.py $check
        expect_failure 65 "e.py:3:1: cannot save to 'a.npz:data': line 2 saves it as 'a.npz'"
        echo 'save("a.txt", generate((3, 4)))' > e.py
        program run e.py $check
        line="e.py:1:1: cannot write 'a.txt': unknown ending '.txt'"
        line+=", expected .bin, .npy, .npz, .safetensors, .csv, .tsv or .mtx"
        expect_failure 64 "$line" '"a.npy": the ending chooses the format'
        expect_only_files e.py link there
    done
}

@test "run: the other options give the same numbers, and progress is printed where it is asked for" {
    "$MPIMATMUL" gen X.bin --dims 140x130 --kind integer --seed 1 -q
    "$MPIMATMUL" gen W.bin --dims 130x130 --kind integer --seed 2 -q
    echo "$chain" > e.py
    program run e.py -q
    cp Y.npy all.npy
    ranks 2 run e.py --reproducible --tail off --device-memory 1MiB --progress none -q
    expect_quiet_success
    cmp all.npy Y.npy
    ranks 2 run e.py --tail 0.5 --weights auto -q
    cmp all.npy Y.npy
    run --separate-stderr "${launch[@]}" -n 2 "$MPIMATMUL" run e.py --progress plain -q \
        --device faulty:delay=0.4s:cpu --no-fallback
    cmp all.npy Y.npy
    run --separate-stderr "${launch[@]}" -n 2 "$MPIMATMUL" run e.py --progress bar \
        --device faulty:delay=0.3s:cpu
    expect_status 0
    [[ $stderr == *'] run '*' %, '*' of '* ]]
    cmp all.npy Y.npy
}
