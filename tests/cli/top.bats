#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Jobs in `top`: listed while they run, with all ranks, in JSON of its schema, on a terminal;
# leftovers of a killed job; untrusted folders.
# shellcheck disable=SC2154,SC2016 # status, output and stderr are set by bats; scripts are written in quotes
load helper

# A folder of this test's own for the jobs' files. Its path is short because a terminal's socket
# lies there, too.
setup() {
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return 1
    mkdir -m 700 run
    export XDG_RUNTIME_DIR=$PWD/run TMUX_TMPDIR=$BATS_TEST_TMPDIR
    unset TMUX
}

teardown() {
    tmux -L top kill-server 2> /dev/null || true
    tmux -L other kill-server 2> /dev/null || true
    [ -z "${jobs:-}" ] || kill "${jobs[@]}" 2> /dev/null || true
}

# job COMMAND...: starts a job in the background and waits for its file. Sets id, the job's first
# process.
job() {
    local before after
    before=$(ls run/mpimatmul 2> /dev/null || true)
    "$@" > "out.${#jobs[@]}" 2> "err.${#jobs[@]}" < /dev/null 3>&- &
    jobs+=($!)
    for ((i = 0; i < 200; i++)); do
        after=$(ls run/mpimatmul 2> /dev/null || true)
        id=$(comm -13 <(echo "$before") <(echo "$after") | sed -n 's/\.json$//p' | head -n 1)
        [ -z "$id" ] || return 0
        sleep 0.1
    done
    cat "err.$((${#jobs[@]} - 1))"
    return 1
}

# A loop of 60 turns, each at least a twentieth of a second, that prints its number and a loss of 10
# / (1 + turn).
write_loop() {
    cat > loop.py << 'END'
x = generate((64, 64), seed=1)
table, goals = generate((40, 3), seed=2), generate((40, 2), seed=3)
for i in loop(60):
    x = tanh(x @ x)
    rows, of = batch(table, goals, 4, seed=3, turn=i)
    none = sum(rows @ rows.T) * 0
    print(none + i)
    loss = none + 10 / (1 + i)
    print(f"after {i}:", loss)
save("x.npy", x)
END
}
loop=(run loop.py --device faulty:delay=20ms:cpu --quiet)

# look EXPRESSION...: within some seconds each is true of the job `id` as `j`, all at once. Prints
# the job.
look() {
    "$MPIMATMUL" top --once --json > all.json || return 1
    for ((i = 0; i < 60; i++)); do
        ! python "$id" "$@" <<< 'import json, sys
found = [j for j in json.load(open("all.json"))["jobs"] if j["id"] == sys.argv[1]]
j = found[0] if found else None
try:
    sys.exit(not j or not all(eval(one) for one in sys.argv[2:]))
except TypeError: # not known yet
    sys.exit(1)' || return 0
        sleep 0.2
        "$MPIMATMUL" top --once --json > all.json || return 1
    done
    cat all.json
    return 1
}

check_schema() {
    py -c 'import jsonschema' 2> /dev/null || skip "python3-jsonschema is not installed"
    python "$REPO/include/mpimatmul_top.schema.json" "$@" << 'END'
import json, sys, jsonschema
schema = json.load(open(sys.argv[1]))
jsonschema.Draft7Validator.check_schema(schema)
for name in sys.argv[2:]:
    jsonschema.validate(json.load(open(name)), schema)
END
}

# The program in a namespace where no other job of this user is visible.
alone() {
    local folder user=()
    folder=/tmp/mpimatmul-$(id -u)
    [ "$(id -u)" -eq 0 ] || user=(--map-current-user)
    mkdir -p "$folder" empty
    chmod 700 "$folder" empty
    unshare --mount "${user[@]}" true 2> /dev/null || skip "cannot make mount namespaces"
    run --separate-stderr unshare --mount "${user[@]}" sh -c 'mount --bind empty "$0" && exec "$@"' "$folder" \
        "$MPIMATMUL" "$@" < /dev/null
}

@test "without a job top prints a line and ends with 0, and JSON has an empty list" {
    alone top --once
    expect_quiet_success
    [ "$output" = "you have no running job on this machine" ] || { show; return 1; }
    alone top --once --json
    expect_quiet_success
    echo "$output" > none.json
    python <<< 'import json
assert json.load(open("none.json")) == {"schema": "mpimatmul-top", "schema_version": 1, "jobs": []}'
    check_schema none.json
}

@test "a loop shows its turns, windows, numbers and curve, and every rank" {
    need_numpy
    write_loop
    job "${launch[@]}" -n 2 "$MPIMATMUL" "${loop[@]}"
    look 'j["phase"] == "run" and j["loop"]["end"] == 60 and j["loop"]["at"] >= 8' 'j["loop"]["turns_per_second"] > 0' \
        'abs(j["loop"]["windows_per_second"] / j["loop"]["turns_per_second"] - 4) < 1e-6' \
        'abs(j["share"] - j["loop"]["at"] / 60) < 1e-6' \
        'all(r["flops_per_second"] is not None and r["memory_bytes"] > 1e6 for r in j["ranks"])'
    check_schema all.json
    python "$id" << 'END'
import json, sys
j = next(j for j in json.load(open("all.json"))["jobs"] if j["id"] == sys.argv[1])
assert j["command"] == "mpimatmul run loop.py --device faulty:delay=20ms:cpu --quiet", j["command"]
assert [r["rank"] for r in j["ranks"]] == [0, 1] and len({r["host"] for r in j["ranks"]}) == 1
assert all(r["device"] == "faulty:delay=20ms:cpu" for r in j["ranks"])
assert abs(sum(r["share"] for r in j["ranks"]) - 1) < 1e-6
numbers = {n["name"]: n["value"] for n in j["numbers"]}
assert list(numbers) == ["none + i", "loss"], numbers
turn = numbers["none + i"]
assert j["loop"]["at"] - 1 <= turn <= j["loop"]["at"], (turn, j["loop"])
# The curve is that of the loss, whichever number was printed before.
assert j["curve"]["name"] == "loss", j["curve"]
points = j["curve"]["points"]
assert [x for x, _ in points] == list(range(len(points))) and len(points) >= turn, points
assert all(abs(y - 10 / (1 + x)) < 1e-5 * y for x, y in points), points
END
    wait "${jobs[0]}"
    [ ! -e "run/mpimatmul/$id.json" ]
    [ -z "$(ls run/mpimatmul)" ]
    [ "$(wc -l < out.0)" -eq 120 ]
    [ ! -s err.0 ] || { cat err.0; return 1; }
}

@test "a product shows progress over all ranks, and the table lists them" {
    "$MPIMATMUL" gen A.bin --dims 16x75x200 --kind integer --seed 1 --quiet
    "$MPIMATMUL" gen B.bin --dims 200x300 --kind integer --seed 2 --quiet
    # Each rank computes half of the matrices, in parts that others may steal, and is late with each
    # of them.
    local common=("$MPIMATMUL" mul A.bin B.bin -o C.bin --weights equal --tail 0.6 --quiet)
    job "${launch[@]}" -n 1 "${common[@]}" --device faulty:delay=1s:cpu : \
        -n 1 "${common[@]}" --device faulty:delay=1300ms:cpu
    look 'j["phase"] == "multiply" and j["share"] == 0 and not any(r["done"] for r in j["ranks"])'
    look 'all(0 < r["done"] < 1 for r in j["ranks"])' 'j["left_seconds"] > 0' \
        'min(r["done"] for r in j["ranks"]) - 0.02 < j["share"] < max(r["done"] for r in j["ranks"]) + 0.02'
    check_schema all.json
    program top --once "$id"
    expect_quiet_success
    show
    [ "${lines[0]}" = "job $id: $(tr '\0' ' ' < "/proc/$id/cmdline" | sed -e 's|^[^ ]*/||' -e 's/ $//')" ]
    [[ "${lines[1]}" =~ ^'multiply '[0-9]+' %'(, [0-9.]+' GFLOP/s')?', '.*' left, '[0-9]+' s so far'$ ]]
    [ "$(xargs <<< "${lines[2]}")" = "rank host device computes GFLOP/s share done memory temp power" ]
    [[ "$(xargs <<< "${lines[3]}")" == "0 $(hostname) faulty:delay=1s:cpu matmul "*" 50 % "*" % "*" MiB "* ]]
    [[ "$(xargs <<< "${lines[4]}")" == "1 $(hostname) faulty:delay=1300ms:cpu matmul "*" 50 % "*" % "*" MiB "* ]]
    [ "${#lines[@]}" -eq 5 ]
}

@test "a Python script shows its ranks and the turns of its outermost loop" {
    "$PYTHON" -c 'import numpy' 2> /dev/null || skip "numpy is not installed"
    cat > s.py << 'END'
import numpy as np
import mpimatmul as mm
mm.init(device="faulty:delay=20ms:cpu")
x = mm.array(np.ones((40, 40), "f4"))
for i in mm.loop(10, 40):
    for j in mm.loop(2):
        x = mm.tanh(x @ x)
    float(mm.sum(x))
assert list(mm.loop(3)) == [0, 1, 2]
END
    PYTHONPATH=$REPO/src/python MPIMATMUL_LIBRARY=$BUILD/lib/libmpimatmul.so.0 job "${launch[@]}" -n 2 "$PYTHON" s.py
    look 'j["command"].endswith("s.py") and len(j["ranks"]) == 2' 'j["loop"]["at"] >= 13 and j["loop"]["end"] == 40' \
        'abs(j["share"] - (j["loop"]["at"] - 10) / 30) < 1e-6' 'j["ranks"][1]["memory_bytes"] > 1e6'
    wait "${jobs[0]}"
    [ -z "$(ls run/mpimatmul)" ]
    [ ! -s out.0 ]
    [ ! -s err.0 ]
}

@test "a training in Python shows its steps and the numbers that it reads, by name" {
    "$PYTHON" -c 'import numpy' 2> /dev/null || skip "numpy is not installed"
    cat > fit.py << 'END'
import numpy as np
import mpimatmul as mm
mm.init(device="faulty:delay=20ms:cpu")
w = mm.nn.Parameter(np.ones((8, 8), "f4"))
optimizer = mm.optim.SGD([w], lr=0.01)
for step in range(40):
    error = mm.sum(w * w)
    optimizer.zero_grad()
    error.backward()
    optimizer.step()
    f"{error:.3f}", float(mm.sum(w))
END
    PYTHONPATH=$REPO/src/python MPIMATMUL_LIBRARY=$BUILD/lib/libmpimatmul.so.0 job "${launch[@]}" -n 2 "$PYTHON" fit.py
    look '[n["name"] for n in j["numbers"]] == ["error", "steps", "fit.py:11"]' 'j["numbers"][1]["value"] >= 5' \
        'j["curve"]["name"] == "error" and len(j["curve"]["points"]) >= 5' 'j["loop"] is None' \
        'all(r["computes"] and r["done"] == 1 for r in j["ranks"][1:])'
    check_schema all.json
    python "$id" << 'END'
import json, sys
j = next(j for j in json.load(open("all.json"))["jobs"] if j["id"] == sys.argv[1])
assert all(abs(y - 64 * 0.98 ** (2 * x)) < 1e-3 for x, y in j["curve"]["points"]), j["curve"]
END
    wait "${jobs[0]}"
    [ ! -s out.0 ]
    [ ! -s err.0 ] || { cat err.0; return 1; }
}

@test "several jobs are listed, the longest-running first, and a single one can be chosen" {
    write_loop
    job "$MPIMATMUL" "${loop[@]}"
    local first=$id
    cp loop.py other.py
    sed -i s/x.npy/y.npy/ other.py
    job "$MPIMATMUL" run other.py --device faulty:delay=20ms:cpu --quiet
    "$MPIMATMUL" top --once --json > all.json
    python "$first" "$id" <<< 'import json, sys
ids = [j["id"] for j in json.load(open("all.json"))["jobs"]]
assert [i for i in ids if i in sys.argv[1:]] == sys.argv[1:], ids'
    program top --once
    grep -q "^job $first: mpimatmul run loop.py" <<< "$output"
    grep -q "^job $id: mpimatmul run other.py" <<< "$output"
    program top --once --json "$id"
    python "$id" <<< "import json, sys
assert [j['id'] for j in json.loads('''$output''')['jobs']] == sys.argv[1:]"
    program top --once 1234567890
    expect_failure 66 "you have no running job '1234567890' on this machine" \
        "mpimatmul top --once lists the running jobs"
}

expect_files() {
    [ "$(ls run/mpimatmul)" = "1.json
notes.json" ] || { ls run/mpimatmul; return 1; }
}

@test "the leftover file of a killed job is not listed, and is removed" {
    write_loop
    job "$MPIMATMUL" "${loop[@]}"
    kill -KILL "${jobs[0]}"
    wait "${jobs[0]}" || true
    [ -e "run/mpimatmul/$id.json" ]
    # A process that exists but began at another time. Files that belong to no job stay.
    sed -e "s/\"pid\":[0-9]*/\"pid\":$$/" -e 's/"started":[0-9]*/"started":1/' "run/mpimatmul/$id.json" \
        > "run/mpimatmul/$$.json"
    cp "run/mpimatmul/$id.json" "run/mpimatmul/$id.json.new"
    echo words > run/mpimatmul/notes.json
    echo '{"process": {' > run/mpimatmul/1.json
    "$MPIMATMUL" top --once --json > all.json
    python "$id" $$ <<< 'import json, sys
assert not [j for j in json.load(open("all.json"))["jobs"] if j["id"] in sys.argv[1:]]'
    expect_files
    # The start of a job removes leftovers as `top` does.
    job "$MPIMATMUL" "${loop[@]}"
    kill -KILL "${jobs[1]}"
    wait "${jobs[1]}" || true
    local left=$id
    [ -e "run/mpimatmul/$left.json" ]
    job "$MPIMATMUL" "${loop[@]}"
    [ -e "run/mpimatmul/$id.json" ]
    [ ! -e "run/mpimatmul/$left.json" ]
}

@test "a folder that others may use is refused, and a job writes nothing there" {
    local folder=$PWD/run/mpimatmul
    write_loop
    mkdir -m 755 "$folder"
    program top --once
    expect_failure 73 "folder '$folder' is open to other users: not used for jobs" "chmod 700 '$folder'"
    sed -i 's/loop(60)/loop(12)/' loop.py
    program run loop.py -q --device faulty:delay=20ms:cpu
    expect_quiet_success
    [ -z "$(ls "$folder")" ]
    if [ "$(id -u)" -eq 0 ]; then
        chmod 700 "$folder"
        chown 12345 "$folder"
        program top
        expect_failure 73 "folder '$folder' belongs to user 12345, not to user 0: not used for jobs"
    fi
    rmdir "$folder"
    ln -s "$PWD" "$folder"
    program top --once --json
    expect_failure 73 "'$folder' is not a folder: not used for jobs"
    # A folder of another user is not accepted as XDG_RUNTIME_DIR at all.
    rm "$folder"
    chmod 755 run
    alone top --once
    expect_quiet_success
    [ ! -e "$folder" ]
}

@test "top refuses invalid uses" {
    program top
    expect_failure 64 "top: standard input and output must be a terminal" "--once prints a table, --once --json JSON"
    program top --json
    expect_failure 64 "top: --json needs --once"
    program top 1 2
    expect_failure 64 "top: expected at most 1 operand, found 2" "mpimatmul top [JOB] [options]"
}

# ------------------------------------------------------------------------------------- on a terminal

need_terminal() {
    command -v tmux > /dev/null || skip "tmux is not installed"
}

# terminal COLUMNS ROWS LOCALE: starts a shell in a terminal of that size, in which `top` runs. Its
# exit code is in `code`.
terminal() {
    need_terminal
    tmux -L top -f /dev/null new-session -d -x "$1" -y "$2" \
        "LC_ALL=$3 TERM=screen '$MPIMATMUL' top $id 2> err; echo \$? > code; exec sleep 100"
}

# sees PATTERN: within some seconds the terminal shows it. Sets screen.
sees() {
    for ((i = 0; i < 60; i++)); do
        screen=$(tmux -L top capture-pane -p)
        ! grep -q -E -- "$1" <<< "$screen" || return 0
        sleep 0.1
    done
    printf 'expected: %s\n%s\n' "$1" "$screen"
    return 1
}

# The lines and columns on the screen: no more than the terminal has, with the keys in the last
# line.
expect_size() {
    local columns
    columns=$(LC_ALL=C.UTF-8 wc -L <<< "$screen")
    if [ "$(wc -l <<< "$screen")" -ne "$2" ] || [ "$columns" -gt "$1" ] ||
        [[ "$(tail -n 1 <<< "$screen")" != "q: quit"* ]]; then
        printf '%s x %s\n%s\n' "$1" "$2" "$screen"
        return 1
    fi
}

@test "on 80 x 24, resized meanwhile, q leaves top and the job continues" {
    write_loop
    job "${launch[@]}" -n 3 "$MPIMATMUL" "${loop[@]}"
    look 'j["loop"] and j["loop"]["at"] >= 3' 'len(j["numbers"]) == 2' 'j["ranks"][2]["memory_bytes"]'
    terminal 80 24 C.UTF-8
    sees '^turn [0-9]+ of 60, [0-9.]+ turns/s, [0-9.]+ windows/s$'
    expect_size 80 24
    sees "^job $id: mpimatmul run loop.py --device faulty:delay=20ms:cpu --quiet$"
    sees '^\[#*\.*\] run [0-9]+ %.* s left, [0-9]+ s so far$'
    sees '^rank host +device +computes +GFLOP/s share +done +memory +temp +power$'
    local rank
    for rank in 0 1 2; do
        sees "^   $rank .* [a-z+.]+ +([0-9.]+|-) +[1-9][0-9]? % +[0-9]+ % +[0-9.]+ MiB +[-0-9]"
    done
    sees '^loss: [0-9.e-]+ to 10, from 0 to [0-9]+$'
    [[ "$screen" == *[⠁-⣿]* ]] || { echo "$screen"; return 1; }
    tmux -L top resize-window -t top -x 120 -y 40 2> /dev/null || tmux -L top resize-window -x 120 -y 40
    sees 'faulty:delay=20ms:cpu +[a-z]'
    sleep 0.6
    screen=$(tmux -L top capture-pane -p)
    expect_size 120 40
    tmux -L top resize-window -x 50 -y 9
    sees '^ranks 0 to [01] of 3$'
    expect_size 50 9
    tmux -L top send-keys Down
    sees '^ranks 1 to [12] of 3$'
    expect_size 50 9
    tmux -L top resize-window -x 80 -y 24
    sees '^   2 '
    expect_size 80 24
    tmux -L top send-keys q
    for ((i = 0; i < 50; i++)); do [ ! -s code ] || break; sleep 0.1; done
    [ "$(cat code)" = 0 ]
    [ ! -s err ]
    look 'j["loop"]["at"] < 59'  # it continues
    wait "${jobs[0]}"
    [ "$(wc -l < out.0)" -eq 120 ]
    [ ! -s err.0 ]
}

@test "a finished job stays on the screen, also on a plain terminal, and Ctrl-C ends with 75" {
    write_loop
    job "$MPIMATMUL" run loop.py --device faulty:delay=20ms:cpu --quiet
    look 'j["loop"] and j["loop"]["at"] >= 3'
    terminal 80 24 C
    sees '^ \*+'  # the curve
    expect_size 80 24
    wait "${jobs[0]}"
    sees "^job $id has ended: mpimatmul run loop"
    expect_size 80 24
    tmux -L top send-keys C-c
    for ((i = 0; i < 50; i++)); do [ ! -s code ] || break; sleep 0.1; done
    [ "$(cat code)" = 75 ]
    [ "$(cat err)" = "mpimatmul: stopped by SIGINT" ]
}

@test "without a job top waits for one, and Ctrl-C ends the wait with 75" {
    need_terminal
    alone --version  # skips if no folder can be hidden
    local hidden own
    hidden="mount --bind empty '/tmp/mpimatmul-$(id -u)' && exec env LC_ALL=C TERM=screen '$MPIMATMUL' top"
    [ "$(id -u)" -eq 0 ] || own=--map-current-user
    tmux -L top -f /dev/null new-session -d -x 80 -y 24 \
        "for i in 1 2; do unshare --mount ${own:-} sh -c \"$hidden\" 2> err; echo \$? > code.\$i; done; exec sleep 100"
    sees '^you have no running job on this machine: waiting for one$'
    expect_size 80 24
    tmux -L top send-keys C-c
    for ((i = 0; i < 50; i++)); do [ ! -s code.1 ] || break; sleep 0.1; done
    [ "$(cat code.1)" = 75 ]
    sees '^you have no running job on this machine: waiting for one$'
    write_loop
    job "$MPIMATMUL" "${loop[@]}"
    sees "^job $id: mpimatmul run loop.py"
    tmux -L top send-keys q
    for ((i = 0; i < 50; i++)); do [ ! -s code.2 ] || break; sleep 0.1; done
    [ "$(cat code.2)" = 0 ]
}

@test "tab turns to the next job, and a terminal of unknown type is refused" {
    write_loop
    job "$MPIMATMUL" "${loop[@]}"
    local first=$id
    cp loop.py other.py
    sed -i s/x.npy/y.npy/ other.py
    job "$MPIMATMUL" run other.py --device faulty:delay=20ms:cpu --quiet
    terminal 80 24 C
    sees "^job $id: mpimatmul run other.py"
    for ((i = 0; i < 20; i++)); do  # other jobs of this user may be in between
        tmux -L top send-keys Tab
        sleep 0.2
        ! tmux -L top capture-pane -p | grep -q "^job $first: mpimatmul run loop.py" || break
    done
    sees "^job $first: mpimatmul run loop.py"
    tmux -L other -f /dev/null new-session -d \
        "TERM=nobodys '$MPIMATMUL' top $id 2> err; echo \$? > code; exec sleep 100"
    for ((i = 0; i < 50; i++)); do [ ! -s code ] || break; sleep 0.1; done
    [ "$(cat code)" = 71 ]
    [ "$(cat err)" = "mpimatmul: top: unknown terminal type 'nobodys'" ]
}
