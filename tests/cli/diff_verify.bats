#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# diff and verify: their findings in files that numpy made, and codes 0 and 79.
# shellcheck disable=SC2154,SC2016 # bats sets status, output and stderr; bash -c expands what stands in ''
load helper

# X and Y differ by 0.5 at [0, 1, 2, 3] and by 0.25 at [0, 1, 2, 4].
make_pair() {
    python << 'END'
from matrices import integers, write_bin
x = integers(1, 2, 3, 5)
y = x.copy()
y[1, 2, 3] += 0.5
y[1, 2, 4] -= 0.25
write_bin("X.bin", x)
write_bin("Y.bin", y)
END
}

@test "equal matrices give code 0, also across formats" {
    "$MPIMATMUL" gen A.bin --dims 2x3x5 --seed 1
    "$MPIMATMUL" convert A.bin A.npy
    program diff A.bin A.npy
    expect_quiet_success
    expect_line "shape            2 x 3 x 5"
    expect_line "elements         30"
    expect_line "max difference   0"
    expect_line "outside          0"
    program diff A.bin A.npy --quiet
    expect_quiet_success
    [ -z "$output" ]
}

@test "differing matrices give code 79, with the number, size and place of the differences" {
    need_numpy
    make_pair
    program diff X.bin Y.bin
    expect_status 79
    [ "$stderr" = "mpimatmul: 'X.bin' and 'Y.bin' differ: 2 of 30 elements by more than 0" ]
    expect_line "max difference   0.5"
    expect_line "mean difference  0.025"
    expect_line "outside          2"
    expect_line "first outside    [0, 1, 2, 3]"
}

@test "--relative adds a part of |x| to the tolerance, in double" {
    need_numpy
    python << 'END'
import numpy as np
x = np.array([[1.0, 100.0, 0.0], [-1000.0, 1e39, 1e-3]])
y = x.copy()
y[0, 1], y[1, 0], y[1, 1], y[0, 2] = 101, -1005, 1.02e39, 0.5
np.save("X.npy", x)
np.save("Y.npy", y)
END
    program diff X.npy Y.npy --relative 0.01
    expect_status 79
    [ "$stderr" = "mpimatmul: 'X.npy' and 'Y.npy' differ: 2 of 6 elements by more than 0 + 0.01 |x|" ]
    expect_line "outside          2"  # 0 and 0.5, and two in a hundred of 1e39
    expect_line "tolerance        0 + 0.01 |x|"
    expect_line "max relative     0.02"
    expect_line "first outside    [0, 0, 0, 2]"
    program diff X.npy Y.npy --relative 0.01 --tolerance 0.5
    expect_status 79
    expect_line "outside          1"
    program diff X.npy Y.npy --relative 0.021 --tolerance 0.5
    expect_quiet_success
    program diff X.npy Y.npy --tolerance 1e30 --json
    expect_status 79
    echo "$output" > diff.json
    python << 'END'
import json
d = json.load(open("diff.json"))
assert (d["outside"], d["relative"], d["max_x"]) == (1, 0, 1e39), d
assert abs(d["max_relative"] - 0.02) < 1e-12, d
END
    program diff X.npy Y.npy --relative -1
    expect_failure 64 "--relative: '-1' is out of range, expected 0 to 1.79769e+308"
}

@test "a tolerance accepts differences up to and including itself" {
    need_numpy
    make_pair
    program diff X.bin Y.bin --tolerance 0.5
    expect_quiet_success
    expect_line "outside          0"
    program diff X.bin Y.bin --tolerance 0.25
    expect_status 79
    expect_line "outside          1"
    program diff X.bin Y.bin --tolerance -1
    expect_status 64
    program diff X.bin Y.bin --tolerance nan
    expect_failure 64 "--tolerance: 'nan' is not a number"
}

@test "NaN equals NaN, an infinity equals one of the same sign, and nothing else" {
    need_numpy
    python << 'END'
import numpy as np
from matrices import write_bin
write_bin("X.bin", np.array([[np.nan, np.inf, -np.inf, 1, 2, 3]]))
write_bin("Y.bin", np.array([[np.nan, np.inf, np.inf, 1, np.nan, np.inf]]))
END
    program diff X.bin X.bin
    expect_quiet_success
    program diff X.bin Y.bin --tolerance 1e30
    expect_status 79
    expect_line "outside          3"
    expect_line "first outside    [0, 0, 0, 2]"
}

@test "different shapes give code 79 and both shapes" {
    "$MPIMATMUL" gen A.bin --dims 3x5 --seed 1
    "$MPIMATMUL" gen B.bin --dims 2x5x3 --seed 1
    program diff A.bin B.bin
    expect_failure 79 "'A.bin' (3 x 5) and 'B.bin' (2 x 5 x 3) differ in shape"
}

@test "diff --json prints the same findings" {
    need_numpy
    make_pair
    "$MPIMATMUL" gen Z.bin --dims 3x5 --seed 1
    run bash -c '"$MPIMATMUL" diff --json X.bin Y.bin > diff.json'
    [ "$status" -eq 79 ]
    run bash -c '"$MPIMATMUL" diff --json X.bin Z.bin > shape.json'
    [ "$status" -eq 79 ]
    python << 'END'
import json
d = json.load(open("diff.json"))
assert d["same"] is False and (d["elements"], d["outside"], d["first_outside"]) == (30, 2, 15 + 2 * 5 + 3), d
assert (d["max_difference"], d["mean_difference"], d["tolerance"]) == (0.5, 0.025, 0)
assert d["x_dims"] == d["y_dims"] == [1, 2, 3, 5]
d = json.load(open("shape.json"))
assert d["same"] is False and d["y_dims"] == [1, 1, 3, 5] and "outside" not in d
END
}

# C = A B in whole numbers, and wrong results: E with one wrong element, S with two swapped columns.
make_product() {
    python << 'END'
import numpy as np
from matrices import integers, write_bin
a, b = integers(1, 3, 17, 31), integers(2, 3, 31, 13)
c = a @ b
write_bin("A.bin", a)
write_bin("B.bin", b)
write_bin("C.bin", c)
write_bin("At.bin", a.swapaxes(1, 2))
write_bin("Bt.bin", b.swapaxes(1, 2))
write_bin("D.bin", -2.5 * c)
e = c.copy()
e[1, 5, 7] += 1
write_bin("E.bin", e)
s = c.copy()
s[:, :, [2, 3]] = s[:, :, [3, 2]]
write_bin("S.bin", s)
END
}

@test "verify accepts a right product, transposed and scaled too" {
    need_numpy
    make_product
    program verify A.bin B.bin C.bin
    expect_quiet_success
    [ "$output" = "'C.bin' is 'A.bin' times 'B.bin': 51 rows checked" ]
    program verify --transpose-a --transpose-b --alpha -2.5 At.bin Bt.bin D.bin
    expect_quiet_success
    program verify --quiet A.bin B.bin C.bin
    expect_quiet_success
    [ -z "$output" ]
}

@test "verify finds one wrong element and says where" {
    need_numpy
    make_product
    program verify A.bin B.bin E.bin
    expect_failure 79 "'E.bin' is not 'A.bin' times 'B.bin': 1 of 51 rows wrong, the first is row 5 of matrix 1"
}

@test "verify finds swapped columns, a missing factor and a missing transpose" {
    need_numpy
    make_product
    program verify A.bin B.bin S.bin
    expect_status 79
    program verify A.bin B.bin D.bin
    expect_status 79
    "$MPIMATMUL" gen Q.bin --dims 17x17 --seed 1
    "$MPIMATMUL" gen P.bin --dims 17x17 --kind identity
    program verify Q.bin P.bin Q.bin
    expect_quiet_success
    program verify --transpose-a Q.bin P.bin Q.bin
    expect_status 79
}

@test "verify refuses shapes that do not fit" {
    need_numpy
    make_product
    program verify B.bin A.bin C.bin
    expect_status 65
    [ "${#stderr_lines[@]}" -le 2 ]
    program verify A.bin B.bin A.bin
    expect_status 65
    program verify A.bin B.bin missing.bin
    expect_failure 66 "cannot open 'missing.bin': No such file or directory"
}

@test "verify accepts a result that was rounded to 16 bits, and no wrong one" {
    "$MPIMATMUL" gen A.bin --dims 2x60x50 --seed 1 2> /dev/null
    "$MPIMATMUL" gen B.bin --dims 50x70 --seed 2 2> /dev/null
    for dtype in float16 bfloat16; do
        "$MPIMATMUL" mul A.bin B.bin -o C.bin --dtype $dtype --device cpu > /dev/null
        program verify A.bin B.bin C.bin
        expect_quiet_success
        # Corrupts element (5, 6) of the second matrix by setting exponent bits.
        printf '\x47' | dd of=C.bin bs=1 seek=$((20 + 2 * (60 * 70 + 5 * 70 + 6) + 1)) conv=notrunc status=none
        program verify A.bin B.bin C.bin
        expect_status 79
        local line="mpimatmul: 'C.bin' is not 'A.bin' times 'B.bin': 1 of 120 rows wrong"
        [ "$stderr" = "$line, the first is row 5 of matrix 1" ]
    done
}
