#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Values kept on hosts with a shard folder each: the traffic on root's cable when they are used, and
# sets that differ from those of this job's hosts.
# shellcheck disable=SC2154,SC2016 # status, output and stderr are set by bats; scripts are written in quotes
load ../cli/helper
load hosts

setup_file() {
    lab_up 3
}

teardown_file() {
    lab_down
}

# Each host's shards are in a folder of its own. W is 4 MB, Y = X W another 4.
setup() {
    lab_begin_test
    need_numpy
    printf '%s\n' '#!/bin/sh' 'export MPIMATMUL_SHARD_DIR="$PWD/$(hostname)"' 'exec "$MPIMATMUL" "$@"' > own
    chmod 755 own
    export MPIMATMUL
    python << 'END'
import numpy as np
r = np.random.default_rng(3)
np.save("X.npy", r.integers(-4, 5, (1000, 1000)).astype("f4"))
np.save("W.npy", r.integers(-4, 5, (1000, 1000)).astype("f4"))
END
}

# hosts LIST ARGUMENTS...: runs the program with one rank on each. Sets status, output, stderr.
hosts() {
    local list=$1
    shift
    run --separate-stderr lab_mpirun "$list" -n "$(tr , '\n' <<< "$list" | wc -l)" ./own "$@"
}

# Prints the bytes over root's cable in both directions so far.
root_bytes() {
    local in out
    { read -r in; read -r out; } < <(ip netns exec "$LAB_NAME-node1" cat /sys/class/net/eth0/statistics/{rx,tx}_bytes)
    echo $((in + out))
}

# moves LEAST MOST ARGUMENTS...: a run that succeeds on three hosts. Over root's cable go that many
# bytes beyond `started`, those of a run that only starts ranks and lets them agree.
moves() {
    local least=$1 most=$2 before
    shift 2
    before=$(root_bytes)
    hosts $three "$@" --device cpu
    moved=$(($(root_bytes) - before - started))
    expect_status 0 || return 1
    echo "$* moved $moved, beside $started"
    [ "$moved" -ge "$least" ] && [ "$moved" -le "$most" ]
}

three=node1:1,node2:1,node3:1

@test "values kept on three hosts do not cross root's cable again" {
    echo 'print(generate((3, 3), kind="integer"))' > nothing.py
    printf '%s\n' 'save("kept:y", load("X.npy") @ load("W.npy"))' > keep.py
    printf '%s\n' 'save("Y.npy", load("X.npy") @ load("W.npy"))' > file.py
    printf '%s\n' 'y = load("kept:y")' 'save("kept:z", relu(y) * 2 + y)' > same.py
    printf '%s\n' 'save("S.npy", sum(load("kept:z"), axis=-1))' > sums.py
    printf '%s\n' 'save("T.npy", load("kept:z"))' > fetch.py
    # Two thirds of X, and of W, which goes on from host to host, are sent. Two thirds of Y return
    # if root writes a file of it.
    started=0
    moves 1 200000 run nothing.py --weights equal
    started=$moved
    moves 6600000 9000000 run keep.py --weights equal
    moves 9300000 11700000 run file.py --weights equal
    [ "$(echo node?/*)" = "node1/y_shard_0.bin node1/y_shards.json node2/y_shard_1.bin node2/y_shards.json $(
        )node3/y_shard_2.bin node3/y_shards.json" ]
    # Used in place: messages of agreement, and in the last case the sums, 8 KB.
    moves -20000 20000 run same.py
    moves -20000 20000 run sums.py
    moves 2500000 3500000 run fetch.py
    python << 'END'
import numpy as np
y = np.load("X.npy") @ np.load("W.npy")
z = np.maximum(y, 0) * 2 + y
assert np.array_equal(np.load("Y.npy"), y) and np.array_equal(np.load("T.npy"), z)
assert np.array_equal(np.load("S.npy"), z.sum(-1, keepdims=True))
END
}

@test "stale, foreign or missing sets are refused by name, by the host that finds them" {
    hosts $three mul X.npy W.npy -o kept:y --device cpu -q
    expect_status 0
    local use=(mul kept:y W.npy -o Z.npy --device cpu -q)
    # The same hosts in another order, and fewer of them.
    hosts node1:1,node3:1,node2:1 "${use[@]}"
    expect_failure 65 "cannot use kept 'y': the shard of rank 1 is on 'node2', but the rank now runs on 'node3'" \
        "start the ranks on the same machines, in the same order"
    hosts node1:1,node2:1 "${use[@]}"
    expect_failure 65 "cannot use kept 'y': 3 ranks have kept it, this job has 2" \
        "run it on 3 ranks, or make a file of it: mpimatmul join"
    # One host still has the set of an earlier job.
    cp -a node3 older
    hosts $three mul W.npy X.npy -o kept:y --device cpu -q
    expect_status 0
    rm -r node3
    cp -a older node3
    hosts $three "${use[@]}"
    expect_failure 65 "rank 2 on node3: cannot use kept 'y': '$PWD/node3/y_shards.json' is stale: $(
        )root has a set of another job" "keep it again on these ranks"
    # Another rank's shard under this one's name, a truncated one, and a missing one.
    hosts $three mul W.npy X.npy -o kept:y --device cpu -q
    cp node3/y_shard_2.bin node2/y_shard_1.bin
    hosts $three "${use[@]}"
    expect_status 65
    [[ $stderr == "mpimatmul: rank 1 on node2: cannot use kept 'y': shard '$PWD/node2/y_shard_1.bin' "* ]]
    truncate -s -4 node2/y_shard_1.bin
    hosts $three "${use[@]}"
    expect_status 65
    [[ $stderr == "mpimatmul: rank 1 on node2: cannot use kept 'y': '$PWD/node2/y_shard_1.bin' is shorter than "* ]]
    rm -r node2
    hosts $three "${use[@]}"
    expect_failure 66 "rank 1 on node2: cannot use kept 'y': cannot open shard folder '$PWD/node2': $(
        )No such file or directory"
    [ ! -e Z.npy ] && [ ! -e Z.npy.part ]
    hosts $three kept y --remove
    expect_status 0
    [ "$(echo node[13]/*)" = "node[13]/*" ]
}
