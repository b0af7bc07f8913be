#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154 # status, output, stderr and launch are set by bats and the helper
# Random programs as text, many in one process, compared with the same files under CPython with
# numpy.

load helper

# run_programs COUNT RANKS DEVICE: runs that many programs of ./programs and compares the saved
# files.
run_programs() {
    rm -f programs/*_out*.npy
    run bash -c "cd programs && ${launch[*]} -n $2 '$BUILD/tests/embed/programs' $1 $3 < /dev/null"
    [ "$output" = '0 failed, 0 bytes are left' ] || { echo "$output"; return 1; }
    run py "$REPO/tests/random_programs.py" compare programs "$1"
    echo "# $2 rank(s), $3: $output" >&3
    [ "$status" -eq 0 ]
}

@test "500 random programs give CPython's results on one rank" {
    need_numpy
    py "$REPO/tests/random_programs.py" make programs 500 1
    run_programs 500 1 cpu
    [[ $output =~ \(([0-9]+)\ in\ float64\) ]]
    [ "${BASH_REMATCH[1]}" -gt 60 ]
}

@test "random programs give CPython's results on 2 and 3 ranks" {
    need_numpy
    py "$REPO/tests/random_programs.py" make programs 60 2
    run_programs 60 2 cpu
    run_programs 60 3 cpu
}

@test "random programs with values on some of the ranks give CPython's results" {
    need_numpy
    py "$REPO/tests/random_programs.py" make programs 60 6 2
    run_programs 60 2 cpu
    py "$REPO/tests/random_programs.py" make programs 40 7 5
    grep -l 'ranks=' programs/p*.py > placed
    [ "$(wc -l < placed)" -gt 20 ]
    run_programs 40 5 cpu
}

@test "random programs give CPython's results on an OpenCL device" {
    need_numpy
    "$MPIMATMUL" devices --json < /dev/null | grep -q '"id": "0:0"' || skip "opencl: no OpenCL device"
    py "$REPO/tests/random_programs.py" make programs 60 3
    run_programs 60 1 0:0
}

@test "NaN and infinities have CPython's places" {
    need_numpy
    python << 'END'
import numpy as np
special = [[np.nan, 1, np.inf, -np.inf, np.nan], [0, -0.0, 1e30, -1e30, 3], [1, 2, 3, 2, np.nan]]
np.save("x.npy", np.array(special, "f4"))
END
    cat > e.py << 'END'
x = load("x.npy")
y = x.T @ x
v, i = topk(x, 4)
w, j = topk(y, 5)
save("y.npy", y)
save("v.npy", v)
save("i.npy", i)
save("w.npy", w)
save("j.npy", j)
save("argmax.npy", argmax(x))
save("softmax.npy", softmax(y))
save("normalize.npy", normalize(x))
save("mean.npy", mean(x, axis=-2))
save("min.npy", min(x, axis=-1))
save("attention.npy", attention(x, x, x))
save("where.npy", where(x > 0, x, x == x))
save("maximum.npy", maximum(x, 0) + minimum(x, 0))
save("remainder.npy", x % 2 + x // 2)
END
    mkdir numpy
    cp x.npy numpy
    (cd numpy && py "$REPO/tests/reference.py" ../e.py)
    for n in 1 3; do
        ranks $n run e.py --device cpu --json
        expect_status 0
        [ "$stderr" = 'mpimatmul: warning: e.py:3:8: topk of a row that holds NaN
mpimatmul: warning: e.py:4:8: topk of a row that holds NaN
mpimatmul: warning: e.py:10:20: argmax of a row that holds NaN' ] || { show; return 1; }
        python << 'END'
import glob, numpy as np
files = glob.glob("numpy/[!x]*.npy")
assert len(files) == 14, files
for file in files:
    want, have = np.load(file), np.load(file[6:])
    assert np.allclose(have, want, 1e-5, 1e-5, equal_nan=True), (file, have, want)
END
    done
}

@test "1000 damaged texts are refused with their place, or are valid programs all the same" {
    need_numpy
    py "$REPO/tests/random_programs.py" make programs 50 4
    py "$REPO/tests/random_programs.py" mutate programs 1000 5
    run bash -c "cd programs && '$BUILD/tests/embed/programs' -1000 < /dev/null"
    echo "# $output" >&3
    [ "$status" -eq 0 ]
    [[ $output == *"of 1000 refused, 0 without a place"* ]]
    [[ $output == *"0 bytes are left"* ]]
}
