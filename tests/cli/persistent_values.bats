#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Values kept on the ranks from job to job: how they are stored, named, listed and removed, their
# use in place, and every way in which a set may differ from its description.
# shellcheck disable=SC2154,SC2016 # status, output and stderr are set by bats; scripts are written in quotes
load helper

# Integers, so that results are equal; A B is 101 x 83.
operands() {
    need_numpy
    export MPIMATMUL_SHARD_DIR=$PWD/s
    python << 'END'
import numpy as np
r = np.random.default_rng(1)
for name, shape in ("A", (101, 57)), ("B", (57, 83)), ("C", (83, 19)):
    np.save(name + ".npy", r.integers(-4, 5, shape).astype("f4"))
END
}

# Two ranks keep A B as y.
kept_y() {
    operands
    ranks 2 mul A.npy B.npy --device cpu -o kept:y "$@"
    expect_quiet_success
    [ "$(tail -n 2 <<< "$output")" = "result verified (Freivalds), 0 blocks recomputed
kept:y: 101 x 83 on 2 ranks" ]
}

# equal FILE EXPRESSION: compares a file with an expression of A, B, C and y = A B.
equal() {
    py -c "import numpy as np, sys
A, B, C = (np.load(n + '.npy') for n in 'ABC')
y = A @ B
assert np.array_equal(np.load(sys.argv[1]), eval(sys.argv[2])), sys.argv" "$1" "$2"
}

# expect_refused CODE TEXT [HINT]: refused by rank 1, which does not find its kept part.
expect_refused() {
    expect_failure "$1" "rank 1 on $(hostname): cannot use kept 'y': $2" "${@:3}"
}

sums() {
    (cd s && sha256sum -- *)
}

@test "a value kept by mul or run is named wherever a matrix is expected" {
    operands
    ranks 2 mul A.npy B.npy --keep --device cpu
    expect_quiet_success
    grep -q -E '^ +1 +[^ ]+ +cpu +[0-9]+ .* %' <<< "$output"  # the table of a product
    [ "$(tail -n 2 <<< "$output")" = "result verified (Freivalds), 0 blocks recomputed
kept:AxB: 101 x 83 on 2 ranks" ]
    ranks 2 mul A.npy B.npy --keep -o file.npy --device cpu -q
    expect_quiet_success
    equal file.npy y
    printf '%s\n' 'y = load("kept:AxB")' 'save("kept:twice", y + y)' 'save("kept:t", y.T)' \
        'save("kept:where", argmax(y))' 'm = y * 2' 'save("kept:m", m)' 'save("r.npy", relu(m + 1))' \
        'save("sums.npy", sum(y, axis=-2))' > keep.py
    ranks 2 run keep.py --device cpu
    expect_quiet_success
    equal sums.npy 'y.sum(0, keepdims=True)'
    equal r.npy 'np.maximum(2 * y + 1, 0)'
    program diff kept:m kept:twice -q
    expect_quiet_success
    ranks 2 mul kept:AxB C.npy -o z.npy --device cpu -q
    expect_quiet_success
    equal z.npy 'y @ C'
    ranks 2 mul C.npy kept:AxB --transpose-a --transpose-b -o z.npy --device cpu -q
    expect_quiet_success
    equal z.npy 'C.T @ y.T'
    ranks 2 add kept:AxB kept:twice -o z.npy --device cpu -q
    expect_quiet_success
    equal z.npy '3 * y'
    ranks 2 mul kept:t kept:AxB -o z.npy --device cpu -q
    expect_quiet_success
    equal z.npy 'y.T @ y'
    # On one machine, which has all shards, other commands read kept values too.
    program convert kept:t t.npy -q
    expect_quiet_success
    equal t.npy y.T
    program diff kept:AxB file.npy -q
    expect_quiet_success
    program verify A.npy B.npy kept:AxB -q
    expect_quiet_success
    program info kept:where
    expect_quiet_success
    [[ "${lines[1]}" == "bin 1   101 x 1  float32"*" kept:where" ]]
    program join twice -o twice.npy --shard-dir s -q
    expect_quiet_success
    equal twice.npy '2 * y'
    [ "$(stat -c %a s)" = 700 ]
}

@test "programs that pass values on by keeping them give numpy's results" {
    operands
    printf '%s\n' 'a = load("A.npy")' 'save("kept:y", a @ load("B.npy"))' 'save("kept:n", softmax(a / 7))' > first.py
    printf '%s\n' 'save("kept:t", load("kept:y").T * 2 + 1)' \
        'save("s.npy", load("kept:n")[3:9] @ load("B.npy"))' > second.py
    printf '%s\n' 'save("r.npy", load("kept:t") @ load("kept:y"))' > third.py
    mkdir numpy
    cp ./*.npy numpy
    for file in first second third; do
        ranks 2 run $file.py --device cpu
        expect_quiet_success
        (cd numpy && py "$REPO/tests/reference.py" ../$file.py)
    done
    python << 'END'
import numpy as np
assert np.array_equal(np.load("r.npy"), np.load("numpy/r.npy"))
assert np.abs(np.load("s.npy") - np.load("numpy/s.npy")).max() < 1e-6
END
}

@test "a rewritten set removes the leftovers of killed jobs" {
    kept_y
    touch s/y_shards.json.0123456789abcdef.part s/y_shard_7.npy.part s/x_shard_0.npy.part s/y_shard_8.npy.part
    exec 9< s/y_shard_8.npy.part
    flock 9  # another job writes this one
    kept_y
    exec 9<&-
    [ "$(cd s && echo *.part)" = "x_shard_0.npy.part y_shard_8.npy.part" ] || { ls s; return 1; }
}

@test "kept lists sets and removes them" {
    kept_y
    ranks 2 kept
    expect_quiet_success
    expect_line "host  set  shape     type         split  shards here     bytes  state" || {
        [ "$(hostname | wc -c)" -ne 3 ] && [[ "${lines[0]}" == host*set*shape*state ]]
    }
    [[ "${lines[1]}" == "$(hostname)"*"y    101 x 83  float32  rows in 2            2  32.8 KiB  kept" ]]
    program split C.npy --parts 3 --shard-dir s -q
    touch s/other s/old_shard_0.bin.part
    program kept
    expect_quiet_success
    [[ "${lines[1]}" == *" C "*"83 x 19"*" 3 "*" split" ]]
    [[ "${lines[2]}" == *" old "* ]]
    program kept y C old --json
    expect_quiet_success
    printf '%s' "$output" > sets.json
    python << 'END'
import json
sets = {entry.pop("set"): entry for entry in json.load(open("sets.json"))["sets"]}
host = sets["y"].pop("host")
assert host == sets["C"]["host"] == sets["old"]["host"] and len(sets) == 3
assert sets["y"] == {"shape": [1, 1, 101, 83], "dtype": "float32", "split": "rows", "parts": 2, "shards_here": 2,
                     "bytes": 101 * 83 * 4 + 40, "unfinished_bytes": 0, "state": "kept"}, sets["y"]
assert sets["C"]["shape"] == [1, 1, 83, 19] and (sets["C"]["parts"], sets["C"]["state"]) == (3, "split")
assert sets["old"]["shape"] is sets["old"]["dtype"] is sets["old"]["parts"] is None, sets["old"]
END
    program kept y C old --remove
    expect_quiet_success
    [ "$(ls s)" = other ]
    program kept y --remove
    expect_failure 66 "no kept 'y' in '$PWD/s'"
    program kept y
    expect_failure 66 "no kept 'y' in '$PWD/s'"
    program kept --remove
    expect_failure 64 "kept: --remove needs the name of a set" "mpimatmul kept NAME... --remove"
    program info kept:y
    expect_status 66
    grep -q -x -F "mpimatmul: no kept 'y' in '$PWD/s'" <<< "$stderr"
    ranks 2 mul kept:y C.npy -o z.npy --device cpu
    expect_failure 66 "no kept 'y' in '$PWD/s'" "mpimatmul kept lists the kept sets"
}

@test "a set is used in place, with its own shares, or moved when the plan wants another placement" {
    kept_y --weights 0.7,0.3
    echo 'save("kept:u", load("kept:y") + 1)' > same.py
    ranks 2 run same.py --device cpu --check
    expect_quiet_success
    [ "$(grep -c -E '^ +[0-9]+  (move|add) ' <<< "$output")" -eq 1 ]
    grep -q -E '^ +1  add .* kept:y rows  rows 0 71 101 ' <<< "$output"
    ranks 2 run same.py --device cpu
    expect_quiet_success
    [ "$(stat -c %s s/u_shard_0.bin s/u_shard_1.bin | xargs)" = "$((20 + 71 * 83 * 4)) $((20 + 30 * 83 * 4))" ]
    # Shares of a larger set that the plan uses: y is moved to them.
    py -c "import numpy as np
np.save('L.npy', np.ones((101, 1000), 'f4'))"
    ranks 2 transpose L.npy -o kept:w --weights 0.5,0.5 --device cpu -q
    expect_quiet_success
    printf '%s\n' 'y = load("kept:y")' 'save("z.npy", load("kept:w").T[:, 0:83] + y)' > other.py
    ranks 2 run other.py --device cpu
    expect_quiet_success
    equal z.npy '1 + y'
    ranks 2 run same.py --device cpu --weights 0.5,0.5
    expect_failure 64 "cannot use kept 'y': its parts are 0 71 101, the weights make 0 51 101" \
        "leave the weights out: the job then uses those of the set"
    ranks 2 run same.py --device cpu --weights 7,3
    expect_quiet_success
}

@test "shards that a job writes count against --memory and stand in its plan" {
    echo 'save("kept:y", generate((3000, 3000)) * 2)' > big.py
    export MPIMATMUL_SHARD_DIR=$PWD/s
    ranks 2 run big.py --device cpu --check
    expect_quiet_success
    [[ "${lines[-1]}" == "values take at most 34.3 MiB per node, "* ]]
    # Tiles of the linked operation count too.
    ranks 2 run big.py --device cpu --check --json
    expect_quiet_success
    printf '%s' "$output" > plan.json
    python <<'END'
import json
plan = json.load(open("plan.json"))
node, = plan["nodes"]
halves = plan["steps"][0]["memory_bytes"]
assert node["values_bytes"] == 3000 * 3000 * 4 and 0 <= node["values_bytes"] + node["run_bytes"] - sum(halves) < 2
assert all(3000 * 1500 * 4 <= half <= 3000 * 1500 * 4 + node["run_bytes"] for half in halves)
END
    ranks 2 run big.py --device cpu --memory 1MiB
    expect_status 71
    local needed="mpimatmul: cannot fit the program's values: 34.3 MiB, and "
    [[ $stderr == "$needed"*" of work space, needed on '$(hostname)', where the limit of 1.0 MiB "* ]]
    ranks 2 run big.py --device cpu --memory 400MiB
    expect_quiet_success
    # Without --memory the shards may exceed the memory: a folder may be on a disk.
    local rows=$(($(awk '/^MemTotal/ { print $2 }' /proc/meminfo) / 100))
    echo "save(\"kept:y\", generate(($rows, 50000)) * 2)" > big.py
    ranks 2 run big.py --device cpu --check
    expect_quiet_success
}

@test "stacks, empty parts, one rank, and more ranks than rows are kept" {
    operands
    python << 'END'
import numpy as np
r = np.random.default_rng(2)
np.save("S.npy", r.integers(-4, 5, (3, 2, 5, 7)).astype("f4"))
np.save("R.npy", r.integers(-4, 5, (2, 7)).astype("f4"))
END
    printf '%s\n' 'save("kept:s", load("S.npy"))' 'save("kept:r", load("R.npy"))' > keep.py
    printf '%s\n' 's, r = load("kept:s"), load("kept:r")' 'save("s2.npy", s @ r.T)' 'save("r2.npy", r * 2)' > use.py
    for count in 1 3; do
        ranks $count --oversubscribe run keep.py 2> /dev/null || true
        run --separate-stderr "${launch[@]}" --oversubscribe -n $count "$MPIMATMUL" run keep.py --device cpu
        expect_quiet_success
        run --separate-stderr "${launch[@]}" --oversubscribe -n $count "$MPIMATMUL" run use.py --device cpu
        expect_quiet_success
        python << 'END'
import numpy as np
s, r = np.load("S.npy"), np.load("R.npy")
assert np.array_equal(np.load("s2.npy"), s @ r.T) and np.array_equal(np.load("r2.npy"), 2 * r)
END
    done
    [ "$(stat -c %s s/r_shard_2.bin)" -eq 20 ]
}

@test "a set that differs from its description is refused by name" {
    kept_y
    use=(mul kept:y C.npy -o z.npy --device cpu)
    run --separate-stderr "${launch[@]}" --oversubscribe -n 3 "$MPIMATMUL" "${use[@]}"
    expect_failure 65 "cannot use kept 'y': 2 ranks have kept it, this job has 3" \
        "run it on 2 ranks, or make a file of it: mpimatmul join"
    cp -a s whole
    # One element differs; its time does not matter.
    printf '\001' | dd of=s/y_shard_1.bin bs=1 seek=40 conv=notrunc status=none
    touch -r whole/y_shard_1.bin s/y_shard_1.bin
    ranks 2 "${use[@]}"
    found=$(grep -o 'XXH3 is [0-9a-f]\{16\}' <<< "$stderr")
    expect_refused 65 "shard '$PWD/s/y_shard_1.bin' has changed: its $found, $(
        py -c "import json
print('its set says', json.load(open('s/y_shards.json'))['xxh3'][1])")"
    truncate -s -4 s/y_shard_1.bin
    ranks 2 "${use[@]}"
    expect_refused 65 "'$PWD/s/y_shard_1.bin' is shorter than its header says: $(stat -c %s s/y_shard_1.bin) bytes, $(
        )expected $(stat -c %s whole/y_shard_1.bin) for 50 x 83 float32"
    rm s/y_shard_1.bin
    ranks 2 "${use[@]}"
    expect_refused 66 "cannot open '$PWD/s/y_shard_1.bin': No such file or directory"
    ln -s "$PWD/whole/y_shard_1.bin" s/y_shard_1.bin
    ranks 2 "${use[@]}"
    expect_refused 66 "cannot open shard '$PWD/s/y_shard_1.bin': Too many levels of symbolic links"
    cp whole/y_shard_0.bin s/y_shard_1.bin.copy
    mv s/y_shard_1.bin.copy s/y_shard_1.bin
    ranks 2 "${use[@]}"
    expect_refused 65 "shard '$PWD/s/y_shard_1.bin' is 51 x 83 float32, but its set says 50 x 83 float32"
    # A copy with all its bytes is the same set.
    rm -r s
    cp -r --no-preserve=mode whole s
    chmod 700 s
    ranks 2 "${use[@]}"
    expect_status 0
    equal z.npy 'y @ C'
    sed -i "s/\"$(hostname)\"/\"elsewhere\"/2" s/y_shards.json
    perl -0pi -e "s/\"$(hostname)\"\n/\"elsewhere\"\n/" s/y_shards.json
    ranks 2 "${use[@]}"
    expect_failure 65 \
        "cannot use kept 'y': the shard of rank 1 is on 'elsewhere', but the rank now runs on '$(hostname)'" \
        "start the ranks on the same machines, in the same order"
    sed -i 's/"whole": true/"whole": false/' s/y_shards.json
    ranks 2 "${use[@]}"
    expect_failure 65 "'y' is half-written: the job that wrote it was stopped" \
        "keep it again, or mpimatmul kept y --remove"
    program join y -o z.npy
    expect_status 65
    rm s/y_shards.json
    ranks 2 "${use[@]}"
    expect_status 66
}

# Each rank has a folder of its own, as on machines of its own.
own_folders() {
    printf '%s\n' '#!/bin/sh' 'export MPIMATMUL_SHARD_DIR="$PWD/s$OMPI_COMM_WORLD_RANK"' 'exec "$@"' > own
    chmod 755 own
}

@test "a rank with another job's set is found, when each rank has its own folder" {
    operands
    own_folders
    job=("${launch[@]}" -n 2 ./own "$MPIMATMUL")
    run --separate-stderr "${job[@]}" mul A.npy B.npy -o kept:y --device cpu -q
    expect_quiet_success
    [ "$(echo s?/*)" = "s0/y_shard_0.bin s0/y_shards.json s1/y_shard_1.bin s1/y_shards.json" ]
    run --separate-stderr "${job[@]}" mul kept:y C.npy -o z.npy --device cpu -q
    expect_quiet_success
    equal z.npy 'y @ C'
    cp -a s1 older
    run --separate-stderr "${job[@]}" mul A.npy B.npy -o kept:y --device cpu -q
    rm -r s1
    mv older s1
    run --separate-stderr "${job[@]}" mul kept:y C.npy -o z.npy --device cpu -q
    expect_refused 65 "'$PWD/s1/y_shards.json' is stale: root has a set of another job" \
        "keep it again on these ranks"
    rm -r s1
    run --separate-stderr "${job[@]}" mul kept:y C.npy -o z.npy --device cpu -q
    expect_refused 66 "cannot open shard folder '$PWD/s1': No such file or directory"
    # If one rank cannot keep its part, no rank keeps one, and the old set stays.
    run --separate-stderr "${job[@]}" mul A.npy B.npy -o kept:y --device cpu -q
    expect_quiet_success
    sha256sum s?/* > before
    mv s1 real
    ln -s real s1
    run --separate-stderr "${job[@]}" mul C.npy C.npy --transpose-a -o kept:y --device cpu -q
    expect_failure 73 "rank 1 on $(hostname): shard folder '$PWD/s1' is a symbolic link: not used"
    rm s1
    mv real s1
    sha256sum s?/* | diff before -
}

@test "a job that fails or is killed leaves the old set or none" {
    kept_y
    before=$(sums)
    printf '%s\n' 'a = load("A.npy")' 'save("kept:y", a * 2)' 'assert_close(a, a + 1, 0.5)' > fails.py
    ranks 2 run fails.py --device cpu
    expect_status 79
    [ "$(sums)" = "$before" ]
    # Killed while it computes: the next job takes over the unfinished files.
    command -v strace > /dev/null && strace -o /dev/null true 2> /dev/null || skip "strace is missing or may not trace"
    program mul A.npy B.npy -o kept:y --device cpu -q
    expect_status 0
    seen=''
    for turn in 1 2 3 4 5 6; do
        # Files get their names in this order: description (half-written), shard, description.
        run --separate-stderr strace -f --quiet=all -o trace -e trace=rename -e "inject=rename:signal=KILL:when=$turn" \
            "$MPIMATMUL" mul A.npy B.npy --alpha 2 -o kept:y --device cpu -q
        [ "$status" -ne 0 ] || break
        program mul kept:y C.npy -o z.npy --device cpu -q
        if [ "$status" -eq 0 ]; then
            equal z.npy 'y @ C' || equal z.npy '2 * y @ C' || return 1
            seen+=w
        else
            expect_failure 65 "'y' is half-written: the job that wrote it was stopped" \
                "keep it again, or mpimatmul kept y --remove" || return 1
            seen+=h
        fi
        rm -f z.npy
        # The next job takes over the files of the killed one.
        program mul A.npy B.npy -o kept:y --device cpu -q
        expect_status 0
        program mul kept:y C.npy -o z.npy --device cpu -q
        expect_status 0
        equal z.npy 'y @ C'
    done
    [[ "$seen" == *hh* ]] || { echo "$seen"; return 1; }
}

# inject CALL TEXT: runs a program alone in which these calls fail.
inject() {
    run --separate-stderr strace -f --quiet=all -o trace -e "trace=$1" -e "inject=$1:$2" \
        "$MPIMATMUL" run all.py --device cpu -q
}

@test "files and sets of a program stay unchanged on a full disk, and get their names in one order" {
    command -v strace > /dev/null && strace -o /dev/null true 2> /dev/null || skip "strace is missing or may not trace"
    operands
    printf '%s\n' 'f = 1' 'y = load("A.npy") @ load("B.npy") * f' 'save("a.npy", y)' 'save("kept:y", y)' \
        'save("p.npz:u", y)' 'save("b.npy", y + 1)' 'save("p.npz:v", y + 2)' > all.py
    program run all.py --device cpu -q
    expect_quiet_success
    sums() { (sha256sum -- *.np[yz] s/*); }
    before=$(sums)
    sed -i 's/^f = 1/f = 2/' all.py
    for call in 1 2 3 4; do  # of the files and the shard, before any of them gets its name
        inject fsync "error=ENOSPC:when=$call"
        expect_status 74
        [[ "$stderr" == *"No space left on device" ]] || { show; return 1; }
        [ "$(sums)" = "$before" ] || { sums; return 1; }
    done
    # The same on another rank.
    printf '%s\n' '#!/bin/sh' '[ "$OMPI_COMM_WORLD_RANK" = 0 ] && exec "$@"' \
        'exec strace -f --quiet=all -o trace -e trace=fsync -e inject=fsync:error=ENOSPC:when=1 "$@"' > second
    chmod 755 second
    run --separate-stderr "${launch[@]}" -n 2 ./second "$MPIMATMUL" run all.py --device cpu -q
    expect_status 74
    [[ "$stderr" == "mpimatmul: rank 1 "*"No space left on device" ]] || { show; return 1; }
    [ "$(sums)" = "$before" ] || { sums; return 1; }
    # Renames: description, shard, description, then files.
    local -a rows=(
        "2|nothing|'a.npy', 'kept:y', 'p.npz:u', 'b.npy', 'p.npz:v'"
        "4|'kept:y'|'a.npy', 'p.npz:u', 'b.npy', 'p.npz:v'"
        "5|'a.npy', 'kept:y'|'p.npz:u', 'b.npy', 'p.npz:v'"
        "6|'a.npy', 'kept:y', 'b.npy'|'p.npz:u', 'p.npz:v'")
    for row in "${rows[@]}"; do
        IFS='|' read -r call written left <<< "$row"
        rm -f s/*
        inject rename "error=EACCES:when=$call"
        expect_status 74
        [ "${stderr_lines[1]}" = "  hint: written: $written; not written: $left" ] || { show; return 1; }
        ! compgen -G '*.part' || return 1
    done
    # Both ends of a long name are shown.
    long=$(printf 'x%.0s' {1..90})
    sed "s/b.npy/begin-$long-end.npy/" -i.short all.py
    rm -f s/*
    inject rename "error=EACCES:when=6"
    [ "${stderr_lines[1]}" = "  hint: written: 'a.npy', 'kept:y', 'begin-${long:0:23}..${long:0:21}-end.npy'; $(
        )not written: 'p.npz:u', 'p.npz:v'" ] || { show; return 1; }
    py -c '
import numpy as np
y = np.load("A.npy") @ np.load("B.npy")
assert np.array_equal(np.load("a.npy"), 2 * y) and np.array_equal(np.load("b.npy"), 2 * y + 1)
assert np.array_equal(np.load("p.npz")["v"], y + 2)'
}

@test "untrusted names and folders are refused" {
    kept_y
    for name in ../y . '' a/b; do
        printf '%s\n' "save(\"kept:$name\", load(\"A.npy\"))" > bad.py
        ranks 2 run bad.py --device cpu
        expect_failure 65 "bad.py:1:1: '$name' cannot name a set of shards: expected a file name without '/'"
    done
    printf '%s\n' 'y = load("A.npy")' 'save("kept:x", y)' 'save("kept:x", y + y)' > twice.py
    ranks 2 run twice.py --device cpu
    expect_status 65
    grep -q -F "twice.py:3:1: cannot save to 'kept:x': line 2 saves it" <<< "$stderr"
    use=(mul kept:y C.npy -o z.npy --device cpu)
    mv s real
    ln -s real s
    ranks 2 "${use[@]}"
    expect_failure 73 "shard folder '$PWD/s' is a symbolic link: not used"
    rm s
    mv real s
    chmod 770 s
    ranks 2 "${use[@]}"
    expect_failure 73 "shard folder '$PWD/s' can be written to by other users: not used" "chmod go-w '$PWD/s'"
    chmod 700 s
    if [ "$(id -u)" -eq 0 ]; then
        chown nobody s
        for command in "${use[*]}" "mul A.npy B.npy -o kept:x --device cpu" "kept" "info kept:y"; do
            # shellcheck disable=SC2086 # words
            program $command
            expect_status 73
            grep -q -F "shard folder '$PWD/s' belongs to user $(id -u nobody), not to user 0: not used" <<< "$stderr"
        done
    fi
    ranks 2 mul A.npy B.npy -o kept:x --dtype float16 --device cpu
    expect_failure 64 "--dtype float16 cannot be combined with 'kept:x'" "persistent sets are float32 or float64"
    ranks 2 mul A.npy B.npy --keep --split rows --device cpu
    expect_failure 64 "--split cannot be combined with --keep"
}

@test "a device with memory of its own keeps values and uses kept ones as any other device does" {
    operands
    local device count=0 has_opencl
    has_opencl=$("$MPIMATMUL" devices --json < /dev/null | grep -c '"0:0"' || true)
    printf '%s\n' 'a, b = load("A.npy"), load("B.npy")' 'y = a @ b' 'save("kept:y", y)' 'r = relu(y) - 3' \
        'save("kept:r", r)' 'save("kept:t", r.T)' 'save("z.npy", r @ load("C.npy"))' > keep.py
    printf '%s\n' 'y, r = load("kept:y"), load("kept:r")' 'save("s.npy", relu(y) - r)' \
        'save("p.npy", y @ load("C.npy"))' 'save("q.npy", load("kept:t") @ y)' > use.py
    for device in faulty:hang=1000000:cpu 0:0; do
        [ "$device" != 0:0 ] || [ "$has_opencl" -gt 0 ] || continue
        for count in 1 2; do
            ranks "$count" run keep.py --device "$device"
            expect_quiet_success
            equal z.npy '(np.maximum(y, 0) - 3) @ C'
            program convert kept:r r.npy -q  # the contents of the files, read without any device
            expect_quiet_success
            equal r.npy 'np.maximum(y, 0) - 3'
            ranks "$count" run use.py --device "$device"
            expect_quiet_success
            equal s.npy 'np.full(y.shape, 3)'
            equal p.npy 'y @ C'
            equal q.npy '(np.maximum(y, 0) - 3).T @ y'
            ranks "$count" run use.py --device cpu
            expect_quiet_success
            equal q.npy '(np.maximum(y, 0) - 3).T @ y'
        done
    done
    [ "$has_opencl" -gt 0 ] || skip "opencl: no device 0:0"
}
