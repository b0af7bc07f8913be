#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154 # status, output, lines and launch are set by bats and the helper
# Functions that numpy or torch has, of texts: against the reference, under CPython. Of the Python package they are in
# tests/python_package.py, their gradients in tests/gradients.py.

load helper

setup() {
    setup_package
}

# saves: what e.py has in the tuples `all` and `wholes` is what the reference has there, and as large; on any ranks and
# devices.
saves() {
    local way
    printf 'for i in range(len(all)):\n    save(f"r{i}.npy", all[i])\n' >> e.py
    mkdir -p want
    (cd want && rm -f ./r*.npy && py "$REPO/tests/reference.py" ../e.py)
    for way in 1 "3 --device reference" "2 --dtype float32" "1 --device 0:0"; do
        if [ "$way" = "1 --device 0:0" ] && ! "$MPIMATMUL" devices --json < /dev/null | grep -q '"id": "0:0"'; then
            continue
        fi
        rm -f ./r*.npy
        # shellcheck disable=SC2086 # a number, or words behind it
        "${launch[@]}" -n ${way%% *} "$MPIMATMUL" run e.py --quiet ${way#"${way%% *}"} < /dev/null
        run py - << 'END'
import glob
import numpy as np
names = glob.glob("r*.npy", root_dir="want")
assert names and sorted(names) == sorted(glob.glob("r*.npy")), (names, glob.glob("r*.npy"))
for name in names:
    got, want = np.load(name), np.load("want/" + name)
    assert got.shape == want.shape, (name, got.shape, want.shape)
    assert np.allclose(got, want, rtol=1e-4, atol=1e-6, equal_nan=True), (name, got, want)
END
        [ "$status" -eq 0 ] || { echo "$way: $output"; return 1; }
    done
}

# refused LINE:COLUMN TEXT HINT PROGRAM: its last line, in which x is 2 x 3, s 2 x 3 x 4 and r a row of 5.
refused() {
    printf 'x, s, r = generate((2, 3)), generate((2, 3, 4)), arange(5)\n%s\n' "$4" > e.py
    run --separate-stderr "$MPIMATMUL" run e.py
    [ "$status" -eq 65 ] || { echo "$status $4"; return 1; }
    [ "${stderr_lines[0]}" = "mpimatmul: e.py:$1: $2" ] || { echo "$stderr"; return 1; }
    if [ -n "$3" ]; then
        [ "${stderr_lines[-1]}" = "  hint: $3" ] || { echo "$stderr"; return 1; }
    else
        [[ "$stderr" != *hint:* ]] || { echo "$stderr"; return 1; }
    fi
}

@test "slices have numpy's steps, also down an axis, of files, and beyond what a device copies itself" {
    py -c '
import numpy as np
np.save("f.npy", np.random.default_rng(1).standard_normal((70, 90)))'
    mkdir want && cp f.npy want
    cat > e.py << 'END'
x, s = generate((5, 7), "normal", seed=1), generate((2, 3, 4, 6), "normal", seed=2)
f = load("f.npy")
n, m = -2, None
all = (x[::2], x[::-1], x[1:4:2, ::-3], x[-1:0:-2, 5::n], x[:, ::100], x[::-100, 3], x[4:m:-1], x[0][:, ::-2],
       x[:, 1][:, 1::3], s[::-1, ::2, ::-3, 4:1:-1], s[1, :, ::2], s[:, :, :, ::-1], s[::-1], s[:, ::-1], x.T[::-2],
       f[::2, ::-3], f[::-1], f[:, ::-1], f.T[::-3, 1::2], (f * 2)[5::4], f[69:2:-3, 80:3:-7], topk(x, 3)[1][:, ::-1])
END
    sed -i 's/s\[\.\.\., ::-1\] if n > 0 else //' e.py
    saves
    refused 2:7 "the slice is empty: [0:1:-1] of 2" "" 'y = x[0:5:-1]'
    refused 2:10 "the slice is empty: [2:2:3] of 3" "" 'y = x[:, 2:2:3]'
    refused 2:9 "the step of a slice is 0" "" 'y = x[::0]'
    refused 2:9 "a step of a slice is a number here, expected a whole number" "" 'y = x[::0.5]'
    refused 2:5 "of a tuple only one element can be taken here" "" 'y = (1, 2)[::-1]'
}

@test "the Python package has the same functions, alone and on three ranks" {
    expected="5 compared
64 cannot take [slice(None, None, 0)] of a value: slice step cannot be zero
64 cannot take [slice(None, None, 1.5)] of a value: slice indices must be integers or None or have an __index__ method
65 cannot take [4:4:-1] of axis -2 of 'x': it has 6"
    run "$PYTHON" "$REPO/tests/python_functions.py"
    diff <(echo "$expected") <(echo "$output")
    run "${launch[@]}" -n 3 --oversubscribe "$PYTHON" "$REPO/tests/python_functions.py"
    diff <(echo "$expected") <(echo "$output")
}
