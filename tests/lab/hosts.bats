#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Products over two and three hosts, each with its own network stack (see hosts.bash). The elements
# equal those of one rank and numpy's for any cut of the work, and the bytes on the cable do not
# exceed the plan's.
# shellcheck disable=SC2154 # status, output and stderr are set by bats
load ../cli/helper
load hosts

setup_file() {
    lab_up 3
}

teardown_file() {
    lab_down
}

setup() {
    lab_begin_test || return 1
    need_numpy
    operands make
}

operands() {
    "$PYTHON" "$BATS_TEST_DIRNAME/operands.py" "$@"
}

two=node1:1,node2:1 three=node1:1,node2:1,node3:1 two_twice=node1:2,node2:2 three_twice=node1:2,node2:2,node3:2

# ranks_of node1:2,node2:2 -> 4
ranks_of() {
    local slots=${1//node?:/}
    echo $((${slots//,/ + }))
}

# product HOSTS EXPRESSION ARGUMENTS...: runs with one rank per slot, and alone. Both results equal
# numpy's. $weights are those of the ranks, $map is mpirun's, and $io is root by default. Leaves
# report.json.
product() {
    local hosts=$1 expression=$2 alone
    shift 2
    "$MPIMATMUL" mul "$@" --device cpu -o alone.bin --quiet &
    alone=$!
    # shellcheck disable=SC2086 # map is several words, or none
    run --separate-stderr lab_mpirun "$hosts" -n "$(ranks_of "$hosts")" ${map:-} "$MPIMATMUL" mul "$@" \
        --weights "${weights:-equal}" --device cpu --io "${io:-root}" -o D.bin --report report.json
    wait "$alone" && expect_status 0 || return 1
    if grep '^mpimatmul: ' <<< "$stderr"; then
        echo "expected nothing of ours on stderr"
        return 1
    fi
    [[ "$output" == *"result verified (Freivalds), 0 blocks recomputed"* ]] || { show; return 1; }
    operands equal "$expression" alone.bin D.bin
}

@test "products by rows and columns are right on two hosts and three, with one and two ranks on each" {
    product $two "a @ b" A.bin B.bin --split rows
    operands report "r['nodes'] == 2" "r['split'] == 'rows'" "[x['host'] for x in r['ranks']] == ['node1', 'node2']"
    product $two_twice "a @ b" A.bin B.bin --split cols
    operands report "r['nodes'] == 2" "r['split'] == 'cols'" "len(r['ranks']) == 4"
    product $three_twice "a @ b" A.bin B.bin --split rows
    operands report "r['nodes'] == 3" "[x['host'][-1] for x in r['ranks']] == list('112233')"
    product $three "a @ b" A.bin B.bin --split cols
    operands report "r['nodes'] == 3"
}

@test "transposed products are right" {
    product $two "a @ b" At.bin Bt.bin --transpose-a --transpose-b --split rows
    product $two_twice "a @ b" At.bin B.bin --transpose-a --split cols
    product $three "a @ b" A.bin Bt.bin --transpose-b --split cols
}

@test "alpha, beta and C give the right product" {
    product $two_twice "3 * (a @ b) - 2 * c" A.bin B.bin --alpha 3 --beta -2 --c-in C.bin --split rows
    product $three "2 * c - a @ b" At.bin Bt.bin --transpose-a --transpose-b --alpha -1 --beta 2 --c-in C.bin \
        --split cols
    product $two "5 * c" A.bin B.bin --alpha 0 --beta 5 --c-in C.bin
}

@test "stacks are right: batches that repeat, a 3-D stack, transposes, C" {
    product $two_twice "s @ t" S.bin T.bin --split rows
    product $three "s @ t" St.bin Tt.bin --transpose-a --transpose-b --split cols
    product $two "2 * (s @ t) + 3 * u" S.bin Tt.bin --transpose-b --alpha 2 --beta 3 --c-in U.bin --split cols
    product $three "v @ w" V.bin W.bin --split rows
    product $two_twice "v @ w" Vt.bin Wt.bin --transpose-a --transpose-b --split cols
}

@test "16-bit operands give the right product" {
    product $two_twice "a @ b" Ah.bin Bh.bin --split rows
    product $three "a @ b" Ab.bin Bb.bin --split cols --dtype float32
    product $two "a @ b" Ah.bin B.bin --split cols
}

@test "weights give the right product, also with nodes without work" {
    weights=3,1 product $two "a @ b" A.bin B.bin --split rows
    operands report "[x['end'] - x['begin'] for x in r['ranks']] == [46, 15]"
    weights=0,1 product $two "a @ b + c" A.bin B.bin --split rows --beta 1 --c-in C.bin
    operands report "[x['end'] - x['begin'] for x in r['ranks']] == [0, 61]"
    weights=1,0 product $two "a @ b" A.bin B.bin --split cols
    operands report "[x['end'] - x['begin'] for x in r['ranks']] == [47, 0]" "r['network_bytes'] == 0"
    weights=0,0,0,1,2,0 product $three_twice "s @ t" S.bin T.bin
    operands report "[x['end'] - x['begin'] for x in r['ranks']] == [0, 0, 0, 34, 68, 0]"
}

@test "ranks mapped host by host each get their own share" {
    map="--map-by node"
    weights=1,2,3,4 product $two_twice "a @ b" A.bin B.bin --split rows
    operands report "[x['host'] for x in r['ranks']] == ['node1', 'node2', 'node1', 'node2']" \
        "[x['end'] - x['begin'] for x in r['ranks']] == [6, 12, 18, 25]" "r['nodes'] == 2"
    weights=0,2,1,0,3,1 product $three_twice "s @ t" St.bin Tt.bin --transpose-a --transpose-b --split cols
    operands report "[x['host'][-1] for x in r['ranks']] == list('123123')"
}

@test "a slow network changes no element" {
    lab_rate 50mbit || skip "lab: no tc tbf on this machine"
    product $three "a @ b" A.bin B.bin
    lab_rate none
}

# Bytes received and sent so far at a host's cable.
cable_bytes() {
    ip netns exec "$LAB_NAME-$1" cat /sys/class/net/eth0/statistics/{rx,tx}_bytes | xargs
}

# B is the larger operand, so one copy per rank would treble the received bytes.
@test "bytes cross the network once per node, as many as plan and report give" {
    local hosts=node1:3,node2:3 received sent rx tx
    "$MPIMATMUL" gen big_A.bin --dims 301x503 --kind integer --seed 1
    "$MPIMATMUL" gen big_B.bin --dims 503x601 --kind integer --seed 2
    lab_mpirun $hosts -n 6 "$MPIMATMUL" plan big_A.bin big_B.bin --weights equal --split rows --device cpu \
        --io root --json \
        > plan.json
    read -r received sent <<< "$(cable_bytes node2)"
    lab_mpirun $hosts -n 6 "$MPIMATMUL" mul big_A.bin big_B.bin --weights equal --split rows --device cpu \
        --io root -o D.bin --report report.json --quiet
    read -r rx tx <<< "$(cable_bytes node2)"
    "$MPIMATMUL" mul big_A.bin big_B.bin --device cpu -o alone.bin --quiet
    cmp alone.bin D.bin
    operands report "r['nodes'] == 2" "r['network_bytes'] == sum(x['network_bytes'] for x in p['nodes'])" \
        "r['network_bytes'] == 4 * (503 * 601 + 150 * 503 + 150 * 601)" \
        "4 * (503 * 601 + 150 * 503) <= $((rx - received)) < 4 * (503 * 601 + 150 * 503) + 300e3" \
        "4 * 150 * 601 <= $((tx - sent)) < 4 * 150 * 601 + 300e3"
}

@test "nodes with little memory work in rounds with the same elements" {
    "$MPIMATMUL" gen big_A.bin --dims 2003x1501 --kind integer --seed 1
    "$MPIMATMUL" gen big_B.bin --dims 1501x907 --kind integer --seed 2
    "$MPIMATMUL" mul big_A.bin big_B.bin --device cpu -o alone.bin --quiet
    # A process's own memory depends on the CPU's kernels, so the limit is relative to it.
    local taken room least
    lab_mpirun $two -n 2 "$MPIMATMUL" plan big_A.bin big_B.bin --weights equal --device cpu --io root --memory 200MiB \
        --json > plan.json
    taken=$("$PYTHON" -c 'import json; print(200 * 2**20 - json.load(open("plan.json"))["nodes"][1]["memory_bytes"])')
    for room in 13 17; do
        least=$((taken + room * 1024 * 1024))B
        lab_mpirun $two -n 2 "$MPIMATMUL" plan big_A.bin big_B.bin --weights equal --split rows --device cpu \
            --io root --tail off --memory $least --json > plan.json
        lab_mpirun $two -n 2 "$MPIMATMUL" mul big_A.bin big_B.bin --weights equal --split rows --device cpu \
            --io root --tail off --memory $least -o D.bin --report report.json --quiet
        cmp alone.bin D.bin
        operands report "p['rounds'] > 1 or not p['nodes'][0]['whole_stays']" \
            "r['segment_bytes'] <= 2 * $room * 2**20"
    done
}

@test "a job larger than the memory ends every rank with 71 and the numbers" {
    run --separate-stderr lab_mpirun $two_twice -n 4 "$LAB_FOLDER/rank" "$MPIMATMUL" mul A.bin B.bin \
        --weights equal --device cpu -o D.bin --split rows --memory 1MiB
    expect_status 71
    [ "$(cat err.? | grep -c '^mpimatmul: ')" -eq 1 ]
    [[ "$(< err.0)" == *"mpimatmul: cannot fit 'A.bin' x 'B.bin' into memory, not even in pieces: "*"on 2 nodes"* ]]
    [ -z "$output" ] && [ ! -e D.bin ] && [ ! -e D.bin.part ]
}

# The device of each rank is slow, which needs no notice.
@test "a stopped rank of another host is named when it stops and when it continues" {
    stop_rank_1 3>&- &
    run --separate-stderr lab_mpirun $two -n 2 "$(recorder)" "$MPIMATMUL" mul A.bin B.bin -o D.bin --quiet \
        --weights equal --io root --device faulty:delay=12s:cpu
    wait $!
    expect_status 0
    [[ "$stderr" == "mpimatmul: rank 1 on node2 has not responded for 10 s
mpimatmul: rank 1 on node2 responds again after "*" s" ]] || { show; return 1; }
    operands equal "a @ b" D.bin D.bin
}

kill_rank_1() {
    local i
    for ((i = 0; i < 100; i++)); do
        [ ! -e D.bin.part ] || [ ! -s pid.1 ] || break
        sleep 0.1
    done
    sleep 0.5
    kill -KILL "$(< pid.1)"
}

# On a busy machine mpirun may end root in the middle of its words.
@test "a rank of another host that dies is named, and no other one" {
    local said=''
    for _ in 1 2 3; do
        rm -f pid.?
        kill_rank_1 3>&- &
        run --separate-stderr lab_mpirun $three -n 3 "$(recorder)" "$MPIMATMUL" mul A.bin B.bin -o D.bin --quiet \
            --weights equal --io root --device faulty:delay=12s:cpu
        wait $!
        expect_status 137
        said=${stderr#"mpimatmul: stopped by SIGTERM: no result was written"}
        [ -z "$said" ] || break
    done
    [ "$said" = "
mpimatmul: rank 1 on node2 has ended or does not answer
  hint: remove node2 from the hostfile or repair it; 'mpimatmul doctor --hostfile FILE' shows which hosts answer" ] ||
        { show; return 1; }
}

@test "no process of these jobs runs on the hosts at the end" {
    [ -z "$(lab_pids)" ]
}

# Whole numbers that float32 cannot hold, in files of root's. Shares follow speeds, and other nodes
# steal from a late rank.
@test "float64 is exact on two hosts and three: by rows and columns, a transpose, C_in, a late rank, and in a program" {
    "$PYTHON" << 'END'
import numpy as np
rng = np.random.default_rng(1)
a, b, c = (rng.integers(-2 ** 20, 2 ** 20, shape).astype("f8") for shape in ((610, 350), (350, 270), (610, 270)))
for name, x in (("A", a), ("At", a.T), ("B", b), ("C", c), ("AB", a @ b), ("ABC", a @ b - 2 * c),
                ("R", np.maximum(a @ b + c, 0))):
    np.save(name + ".npy", np.ascontiguousarray(x))
END
    is_double() {
        "$PYTHON" - "$1" "$2" << 'END'
import sys
import numpy as np
found, expected = (np.load(name + ".npy") for name in sys.argv[1:])
assert found.dtype == np.float64 and (found == expected).all() and (expected != expected.astype("f4")).any()
END
    }
    while read -r expected hosts words; do
        read -r -a options <<< "$words"
        run --separate-stderr lab_mpirun "${!hosts}" -n "$(ranks_of "${!hosts}")" "$MPIMATMUL" mul "${options[@]}" \
            --device cpu --io root -o D.npy --quiet
        expect_quiet_success
        is_double D "$expected"
    done << 'END'
AB two A.npy B.npy --split rows
AB three_twice A.npy B.npy --split cols
ABC three At.npy B.npy --transpose-a --beta -2 --c-in C.npy --weights equal
END
    options=(mul A.npy B.npy --io root -o D.npy --quiet --weights equal --tail 0.5)
    run --separate-stderr lab_mpirun $two -n 1 "$MPIMATMUL" "${options[@]}" --device cpu : \
        -n 1 "$MPIMATMUL" "${options[@]}" --device faulty:delay=200ms:cpu
    expect_quiet_success
    is_double D AB
    printf '%s\n' 'a = load("A.npy")' 'save("D.npy", relu(a @ load("B.npy") + load("C.npy")))' > e.py
    run --separate-stderr lab_mpirun $three -n 3 "$MPIMATMUL" run e.py --device cpu --quiet
    expect_quiet_success
    is_double D R
}
