#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Cores and threads of CPU ranks as `devices` reports them: Open MPI's default binding is widened, a
# user's own is obeyed, --bind and --threads override.

load helper

CORES=$(nproc)

need_two_cores() {
    [ "$CORES" -ge 2 ] || skip "one core only: nothing to share"
}

# placed MPIRUN-ARGUMENTS... -- DEVICES-ARGUMENTS...: prints "cores threads" for each rank.
placed() {
    local launcher=()
    while [ "$1" != -- ]; do
        launcher+=("$1")
        shift
    done
    shift
    run --separate-stderr mpirun -q "${launcher[@]}" "$MPIMATMUL" devices --device cpu --json "$@" < /dev/null
    expect_status 0
    placement=$(py -c '
import json, sys
for rank in json.load(sys.stdin)["ranks"]:
    print(rank["cores"] or "-", rank["threads"])' <<< "$output")
}

# The cores this shell may use, in the kernel's notation.
own_cores() {
    sed -n 's/^Cpus_allowed_list:\s*//p' /proc/self/status
}

expect_placement() {
    if [ "$placement" != "$1" ]; then
        printf 'expected\n%s\nfound\n%s\n' "$1" "$placement"
        return 1
    fi
}

@test "one rank gets all cores, though Open MPI binds it to one" {
    need_two_cores
    placed -n 1 --
    expect_placement "$(own_cores) $CORES"
}

@test "two ranks share the cores" {
    [ "$CORES" -eq 2 ] || skip "made for two cores"
    placed -n 2 --
    expect_placement $'0 1\n1 1'
}

@test "of three ranks on two cores the third shares one" {
    [ "$CORES" -eq 2 ] || skip "made for two cores"
    placed -n 3 --oversubscribe --
    expect_placement $'0 1\n1 1\n0 1'
}

@test "the launcher's own mask is the limit" {
    need_two_cores
    run --separate-stderr taskset -c 0 mpirun -q -n 1 "$MPIMATMUL" devices --device cpu --json < /dev/null
    expect_status 0
    [ "$(py -c 'import json, sys; print(json.load(sys.stdin)["ranks"][0]["threads"])' <<< "$output")" = 1 ]
}

@test "a binding the user chose is obeyed" {
    need_two_cores
    placed -n 1 --bind-to core --
    expect_placement "- 1"
    placed -n 2 --bind-to none --
    expect_placement "- $((CORES / 2))"$'\n'"- $((CORES / 2))"
}

@test "--bind none and --threads override" {
    need_two_cores
    placed -n 1 -- --bind none
    expect_placement "- $CORES"
    placed -n 1 -- --threads 1
    expect_placement "$(own_cores) 1"
    placed -n 2 -- --threads 2
    expect_placement $'- 2\n- 2'
}

@test "devices warns that mpirun itself loads OpenCL drivers" {
    run --separate-stderr mpirun -q -n 1 "$MPIMATMUL" devices --device cpu < /dev/null
    expect_status 0
    [[ "$output" != *"mpirun itself loads every OpenCL driver"* ]]
    run --separate-stderr env -u HWLOC_COMPONENTS mpirun -q -n 1 "$MPIMATMUL" devices --device cpu < /dev/null
    expect_status 0
    grep -q 'mpirun itself loads every OpenCL driver; HWLOC_COMPONENTS=-opencl,-gl' <<< "$output"
}

@test "--device @FILE gives devices and weights by host" {
    "$MPIMATMUL" gen A.bin --dims 60x20 --kind integer --seed 1 2> /dev/null
    "$MPIMATMUL" gen B.bin --dims 20x30 --kind integer --seed 2 2> /dev/null
    printf '# this machine\n%s reference 1\n%s cpu 2\n' "$(uname -n)" "$(uname -n)" > lab.txt
    ranks 2 mul A.bin B.bin -o C.bin --device @lab.txt --split rows --report r.json
    expect_quiet_success
    [ "$(py -c 'import json
print([(rank["device"], rank["end"] - rank["begin"]) for rank in json.load(open("r.json"))["ranks"]])')" = \
        "[('reference', 20), ('cpu', 40)]" ]
    printf '%s cpu\n' elsewhere > lab.txt
    ranks 1 mul A.bin B.bin -o D.bin --device @lab.txt
    expect_failure 65 "'lab.txt' has no device for rank 0 of host '$(uname -n)'" \
        "list one device per rank for each host, with host names as \`hostname\` prints them"
    ranks 2 mul A.bin B.bin -o D.bin --device @missing.txt
    expect_failure 66 "cannot open 'missing.txt': No such file or directory"
    [ ! -e D.bin ]
}

# The FIFO has no writer, so opening it as a file would block for ever.
@test "a FIFO as --device @FILE is refused" {
    mkfifo lab.fifo
    run --separate-stderr timeout 60 "$MPIMATMUL" devices --device @lab.fifo < /dev/null
    expect_failure 66 "cannot read 'lab.fifo': not a regular file"
    truncate -s 2M large.txt
    program devices --device @large.txt
    expect_failure 65 "'large.txt' is no list of devices: 2097152 bytes, at most 1048576"
}

# Prints rows of each rank by the report: its own block, rows taken by others, and rows it took from
# others.
rows() {
    python << 'END'
import json
ranks = json.load(open("report.json"))["ranks"]
print(*(f"{r['end'] - r['begin']}-{r['given']:.0f}+{r['claimed']:.0f}" for r in ranks))
END
}

@test "every rank computes its given weight, unless --tail allows work stealing" {
    "$MPIMATMUL" gen A.bin --dims 1600x700 --kind integer --seed 1 --quiet
    "$MPIMATMUL" gen B.bin --dims 700x900 --kind integer --seed 2 --quiet
    printf '1\n3\n' > shares
    printf '%s cpu 1\n%s cpu 3\n' "$(uname -n)" "$(uname -n)" > lab.txt
    for row in "1200-0+0 400-0+0 --weights 3,1" "400-0+0 1200-0+0 --weights @shares" \
        "800-0+0 800-0+0 --weights equal" "400-0+0 1200-0+0 --device @lab.txt" "0-0+0 1600-0+0 --weights 0,1"; do
        read -r first second words <<< "$row"
        # shellcheck disable=SC2086 # several words
        ranks 2 mul A.bin B.bin -o C.bin --split rows --device cpu --report report.json $words
        expect_status 0
        [ "$(rows)" = "$first $second" ] || { echo "$row"; rows; return 1; }
    done
    # A rank that is done steals rows that the other has not begun. A rank without a block of its
    # own steals none.
    printf '%s faulty:delay=150ms:cpu 3\n%s cpu 1\n' "$(uname -n)" "$(uname -n)" > lab.txt
    ranks 2 mul A.bin B.bin -o C.bin --split rows --device @lab.txt --report report.json --tail 0.9
    expect_status 0
    [[ "$(rows)" =~ ^1200-([0-9]+)\+0\ 400-0\+([0-9]+)$ ]] || { rows; return 1; }
    [ "${BASH_REMATCH[1]}" -gt 0 ] && [ "${BASH_REMATCH[1]}" -eq "${BASH_REMATCH[2]}" ]
    ranks 2 mul A.bin B.bin -o C.bin --split rows --device faulty:delay=50ms:cpu --report report.json \
        --weights 0,1 --tail 0.9
    expect_status 0
    [ "$(rows)" = "0-0+0 1600-0+0" ] || { rows; return 1; }
}
