#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154 # status, output, stderr and launch are set by bats and the helper
# Shares in a loop follow the ranks' measured speeds: a rank that becomes slow gets a smaller share,
# unless its share was given.

load helper

# turns OPTIONS...: prints the rows of rank 0 in the last turn, of 4000. Rank 1 becomes ten times
# slower.
turns() {
    cat > r.py << 'END'
x = generate((4000, 256), kind="uniform", seed=1)
w = generate((256, 256), kind="normal", seed=2) * 0.05
for step in loop(60):
    x = tanh(exp(tanh(x) * 0.1) + tanh(x @ w))
save("x.npy", x)
END
    local program=("$MPIMATMUL" run r.py --quiet --log log.tsv "$@")
    run --separate-stderr "${launch[@]}" -n 1 "${program[@]}" --device cpu : \
        -n 1 "${program[@]}" --device faulty:repeat=10,from=40:cpu < /dev/null
    expect_status 0
    rows=$(awk -F '\t' '$9 ~ /^rows 0 [0-9]+ 4000$/ { split($9, at, " "); print at[3] }' log.tsv | tail -n 1)
    [ -n "$rows" ]
}

@test "a rank that becomes slow in a loop gets a smaller share, and the result equals the reference" {
    need_numpy
    turns
    echo "# $rows of 4000 rows" >&3
    [ "$rows" -gt 2600 ]
    mkdir numpy
    (cd numpy && sed 's/loop(60)/range(60)/' ../r.py > r.py && py "$REPO/tests/reference.py" r.py)
    py -c 'import numpy as np; x, y = np.load("x.npy"), np.load("numpy/x.npy"); assert abs(x - y).max() < 1e-4'
}

@test "given weights stay, and with --reproducible the initial weights stay" {
    turns --weights 1,1
    [ "$rows" -eq 2000 ]
    turns --reproducible
    [ "$rows" -eq 2000 ]
}
