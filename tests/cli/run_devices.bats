#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Programs on devices that are lost, hang or err in an operation other than a product: another
# device takes over, with one line that gives the reason. A repeated error ends the job without a
# file.
# shellcheck disable=SC2154 # status, output and stderr are set by bats
bats_require_minimum_version 1.5.0
load helper

setup_file() {
    HAS_OPENCL=$("$MPIMATMUL" devices --json | grep -c '"0:0"' || true)
    export HAS_OPENCL
}

# The first operation is the product, the second relu, the third maximum, the fourth the sum along
# rows.
setup() {
    need_numpy
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return 1
    "$MPIMATMUL" gen X.npy --dims 61x203 --kind integer --seed 1
    "$MPIMATMUL" gen W.npy --dims 203x47 --kind integer --seed 2
    cat > program.py << 'END'
x, w = load("X.npy"), load("W.npy")
y = relu(x @ w)
save("Y.npy", y)
save("Z.npy", sum(maximum(y, 3), axis=-1))
END
}

# run_program DEVICE OPTIONS...: runs on one rank.
run_program() {
    run --separate-stderr timeout 60 "$MPIMATMUL" run program.py --progress none --device "$@"
}

# Compares the results element by element.
is_right() {
    py - << 'END'
import numpy as np
y = np.maximum(np.load("X.npy").astype(float) @ np.load("W.npy").astype(float), 0)
assert np.array_equal(np.load("Y.npy"), y)
assert np.array_equal(np.load("Z.npy"), np.maximum(y, 3).sum(axis=-1, keepdims=True))
END
}

# took_over DEVICE NEXT WHY: the only printed line.
took_over() {
    expect_status 0
    show
    [ "$stderr" = "mpimatmul: warning: rank 0: device '$1 ($1)' is replaced by '$2': $3" ]
    is_right
}

@test "when a device with memory of its own is lost in an operation, the next device takes over" {
    for call in 2 3 4; do
        device="faulty:fail=$call,hang=100:cpu"
        run_program "$device"
        took_over "$device" reference "device '$device' was lost at operation $call by rule"
    done
}

@test "when a device in host memory is lost in an operation, the next device takes over" {
    run_program faulty:fail=3:cpu
    took_over faulty:fail=3:cpu reference "device 'faulty:fail=3:cpu' was lost at operation 3 by rule"
}

@test "a lost device ends the job under --no-fallback" {
    run_program faulty:fail=2,hang=100:cpu --no-fallback
    expect_failure 69 "device 'faulty:fail=2,hang=100:cpu' was lost at operation 2 by rule" \
        "leave out --no-fallback to let the CPU take over"
    expect_only_files W.npy X.npy program.py
}

@test "a device that hangs in an operation is replaced" {
    run_program faulty:hang=2:cpu --device-timeout 0.3
    took_over faulty:hang=2:cpu reference "it hangs"
}

@test "wrong results of an operation are found and computed again" {
    run_program faulty:garble=2,hang=100:cpu
    took_over faulty:garble=2,hang=100:cpu reference "61 wrong rows in rows 0-61 of matrix 0 of 'y'"
    run_program faulty:corrupt=4:cpu
    took_over faulty:corrupt=4:cpu reference \
        "1 wrong row in rows 0-61 of matrix 0 of 'sum(maximum(y, 3), axis=-1)'"
}

@test "a wrong element in a large block, computed or downloaded, is found by the kernel's own sum" {
    "$MPIMATMUL" devices --json < /dev/null | grep -q '"id": "0:0"' || skip "opencl: no OpenCL device"
    "$MPIMATMUL" gen X.npy --dims 1203x1001 --seed 3 > /dev/null 2>&1
    printf 'x = load("X.npy")\ny = softmax(relu(x)) * 2\nsave("Y.npy", y)\n' > large.py
    local rule
    for rule in corrupt=1 corrupt=2 corrupt=3 spoil-download=2; do
        run --separate-stderr timeout 60 "$MPIMATMUL" run large.py --device "faulty:$rule:0:0" < /dev/null
        expect_status 0
        # The few rows computed again may include the wrong one by chance.
        [[ "$stderr" == *"'cpu': rows 0-1203 of matrix 0 of "*" changed after they were computed" ||
            "$stderr" == *"'cpu': 1 wrong row in rows 0-1203 of matrix 0 of '"*"'" ]]
        py - << 'EOF'
import numpy as np
x = np.maximum(np.load("X.npy").astype(float), 0)
e = np.exp(x - x.max(axis=1, keepdims=True))
y = 2 * e / e.sum(axis=1, keepdims=True)
assert (abs(np.load("Y.npy") - y) <= 1e-5 * y).all()
EOF
    done
}

@test "--verify-seed repeats the sample, and with it the finding of a wrong element; reports name the seed" {
    local seed why
    write_large
    while read -r seed why; do
        run --separate-stderr timeout 60 "$MPIMATMUL" run program.py --progress none --verify-seed "$seed" \
            --device faulty:hang=100,corrupt=5:cpu --report report.json
        expect_status 0
        [[ "$stderr" == *"'reference': $why"* ]] || { echo "seed $seed"; show; return 1; }
        grep -qx "    \"seed\": $seed" report.json
        large_is_right
    done << 'END'
54 1 wrong row in rows 0-1203 of matrix 0 of 'abs(x @ w)'
55 1 wrong row in rows 0-1203 of matrix 0 of 'abs(x @ w)'
56 rows 0-1203 of matrix 0 of 'abs(x @ w)' changed after they were computed
END
    env -u MPIMATMUL_VERIFY_SEED "$MPIMATMUL" run program.py --report first.json < /dev/null
    env -u MPIMATMUL_VERIFY_SEED "$MPIMATMUL" run program.py --report second.json < /dev/null
    run ! diff <(grep '"seed"' first.json) <(grep '"seed"' second.json)
}

@test "results are not checked under --verify off" {
    run_program faulty:garble=2,hang=100:cpu --verify off
    expect_quiet_success
    run ! is_right
}

@test "a repeated error ends the job with 79 and no file" {
    run_program faulty:from=2,garble=*,everywhere:reference
    expect_failure 79 "rank 0: result is wrong in rows 0-61 of matrix 0 of 'y', also after a second computation" \
        "suspect the memory or the processor of that machine"
    expect_only_files W.npy X.npy program.py
}

@test "one of two ranks loses its device, hangs, or errs, and the results are right" {
    for rule in fail garble hang; do
        device="faulty:hang=100,$rule=2:cpu"
        run --separate-stderr timeout 60 mpirun -q -n 1 "$MPIMATMUL" run program.py --weights equal --device-timeout 1 \
            --device cpu : -n 1 "$MPIMATMUL" run program.py --weights equal --device-timeout 1 --device "$device"
        expect_status 0
        show
        line="mpimatmul: warning: rank 1: device '$device ($device)' is replaced by 'reference': "
        [[ $stderr == "$line"* ]]
        [ "$(grep -c . <<< "$stderr")" -eq 1 ]
        is_right
    done
}

@test "OpenCL: after a device is lost, or errs, in an operation, the results are right" {
    [ "$HAS_OPENCL" -gt 0 ] || skip "opencl: no device 0:0"
    run_program 0:0
    expect_quiet_success
    is_right
    run_program faulty:fail=3:0:0
    took_over faulty:fail=3:0:0 cpu "device 'faulty:fail=3:0:0' was lost at operation 3 by rule"
    run_program faulty:garble=2:0:0
    took_over faulty:garble=2:0:0 cpu "61 wrong rows in rows 0-61 of matrix 0 of 'y'"
}

@test "means of split rows are right: the device keeps the mean of a rank's own share" {
    cat > program.py << 'END'
z = load("X.npy") @ load("W.npy")
save("D.npy", mean(softmax(z / 64), axis=0) + mean(z, axis=0))
END
    ranks 2 run program.py --device faulty:hang=1000000:cpu
    expect_status 0
    [ "$stderr" = "" ] || { show; return 1; }
    py - << 'END'
import numpy as np
z = np.load("X.npy").astype(float) @ np.load("W.npy").astype(float)
e = np.exp(z / 64)
assert np.abs(np.load("D.npy") - (e / e.sum(axis=1, keepdims=True)).mean(axis=0) - z.mean(axis=0)).max() < 1e-4
END
}

@test "OpenCL: norms of rows with squares beyond float are right" {
    [ "$HAS_OPENCL" -gt 0 ] || skip "opencl: no device 0:0"
    cat > program.py << 'END'
x = load("X.npy") * 1e25
save("L.npy", concat((layer_norm(x, None, None), rms_norm(x, None), normalize(x)), axis=-1))
END
    program run program.py --device 0:0
    expect_quiet_success
    py - << 'END'
import numpy as np
x = np.load("X.npy").astype(float)
mean, squares = x.mean(-1, keepdims=True), (x * x).mean(-1, keepdims=True)
right = np.concatenate(((x - mean) / x.std(-1, keepdims=True), x / np.sqrt(squares),
                        x / np.sqrt((x * x).sum(-1, keepdims=True))), -1)
assert np.abs(np.load("L.npy") - right).max() < 1e-4
END
}

# bus DEVICE OPTIONS...: prints "OPERATION VALUE UP DOWN" of every operation of the program, of one
# rank with that device.
bus() {
    "$MPIMATMUL" run program.py --device "$@" --report report.json --quiet < /dev/null
    py - << 'END'
import json
for one in json.load(open("report.json"))["operations"]:
    rank = one["ranks"][0]
    print(one["operation"], one["value"], rank["uploaded_bytes"], rank["downloaded_bytes"], sep=", ")
END
}

@test "a device with memory of its own gets operands once, and its results are never uploaded again" {
    "$MPIMATMUL" gen V.npy --dims 47x31 --kind integer --seed 3
    cat > program.py << 'END'
x, w, v = load("X.npy"), load("W.npy"), load("V.npy")
y = relu(x @ w)
save("Y.npy", y)
save("Z.npy", y @ v)
save("U.npy", tanh(x))
END
    local x=$((4 * 61 * 203)) w=$((4 * 203 * 47)) y=$((4 * 61 * 47)) v=$((4 * 47 * 31)) z=$((4 * 61 * 31)) device
    for device in faulty:hang=1000000:cpu 0:0; do
        [ "$device" != 0:0 ] || [ "$HAS_OPENCL" -gt 0 ] || continue
        run -0 bus "$device"
        show
        # A product so small is downloaded for its check, and so is relu's result.
        [ "$(grep relu <<< "$output")" = "matmul + relu, y, $((x + w)), $((2 * y))" ]
        [ "$(grep '^matmul, ' <<< "$output")" = "matmul, y @ v, $v, $z" ]
        [ "$(grep '^tanh' <<< "$output")" = "tanh, tanh(x), 0, $x" ]
    done
    [ "$HAS_OPENCL" -gt 0 ] || skip "opencl: no device 0:0"
}

# Operands of the following tests, large enough that a device keeps the products and only samples are
# downloaded.
write_large() {
    "$MPIMATMUL" gen X.npy --dims 1203x203 --kind integer --seed 1
    "$MPIMATMUL" gen W.npy --dims 203x1001 --kind integer --seed 2
    cat > program.py << 'END'
x, w = load("X.npy"), load("W.npy")
save("Y.npy", relu(x @ w))
save("Z.npy", abs(x @ w) * 3 - 7)
END
}

large_is_right() {
    py - << 'END'
import numpy as np
c = np.load("X.npy").astype(float) @ np.load("W.npy").astype(float)
assert np.array_equal(np.load("Y.npy"), np.maximum(c, 0), equal_nan=True)
assert np.array_equal(np.load("Z.npy"), 3 * np.abs(c) - 7, equal_nan=True)
END
}

# large_stayed UP C ONE THREE: by the output of `bus` on standard input, operands were uploaded once
# and results downloaded once, plus the sampled pieces of one fused operation (ONE) and of three
# (THREE).
large_stayed() {
    local lines piece=$((4 * 64))
    lines=$(cat)
    [ "$(grep "matmul + relu" <<< "$lines")" = \
        "matmul + relu, relu(x @ w), $(($1 + 4 * $3)), $(($2 + $3 * piece))" ] || return 1
    [ "$(grep "matmul + abs" <<< "$lines")" = \
        "matmul + abs + multiply + subtract, abs(x @ w) * 3 - 7, $((4 * $4)), $(($2 + $4 * piece))" ] || return 1
    large_is_right
}

@test "a product read only by its fused operations stays on a device with memory of its own" {
    local c=$((4 * 1203 * 1001)) up=$((4 * 203 * (1203 + 1001))) device
    # Samples of 64 elements are downloaded at once: the input of a fused operation and, if it stays
    # on the device, its output. Their places, one number each, are uploaded.
    local one=512 two=341
    local three=$((2 * one + 2 * two + two))
    write_large
    for device in faulty:hang=1000000:cpu faulty:lie=1:0:0 0:0; do
        [[ "$device" != *0:0 ]] || [ "$HAS_OPENCL" -gt 0 ] || continue
        run -0 bus "$device"
        show
        [[ "$device" != *lie* ]] || { large_is_right && continue; }
        large_stayed "$up" "$c" "$one" "$three" <<< "$output"
    done
    [ "$HAS_OPENCL" -gt 0 ] || skip "opencl: no device 0:0"
}

@test "after an error in a product that stays on the device, it and its fused operations are computed again" {
    local rule why
    write_large
    # Operations: the product, relu, its sample; the product, abs, its two samples, times 3, its
    # two, minus 7, its one.
    while read -r rule why; do
        rm -f Y.npy Z.npy
        run_program "faulty:$rule:cpu" --device-timeout 1
        expect_status 0
        [[ "$stderr" == *"'reference': $why" && "$(grep -c . <<< "$stderr")" -eq 1 ]] ||
            { echo "$rule"; show; return 1; }
        large_is_right || { echo "$rule"; return 1; }
    done << 'END'
hang=100,corrupt=1 1 wrong column in rows 0-1203 of matrix 0 of 'x @ w'
hang=100,garble=3 512 wrong rows in rows 0-1203 of matrix 0 of 'relu(x @ w)'
hang=100,corrupt=4 1 wrong column in rows 0-1203 of matrix 0 of 'x @ w'
hang=100,corrupt=5 rows 0-1203 of matrix 0 of 'abs(x @ w)' changed after they were computed
hang=100,garble=1 1001 wrong columns in rows 0-1203 of matrix 0 of 'x @ w'
hang=100,garble=9 341 wrong rows in rows 0-1203 of matrix 0 of 'abs(x @ w) * 3'
hang=100,fail=2 device 'faulty:hang=100,fail=2:cpu' was lost at operation 2 by rule
hang=100,fail=11 device 'faulty:hang=100,fail=11:cpu' was lost at operation 11 by rule
hang=100,fail-download=1 device 'faulty:hang=100,fail-download=1:cpu' was lost at download 1 by rule
hang=100,fail-download=4 device 'faulty:hang=100,fail-download=4:cpu' was lost at download 4 by rule
hang=100,lie=1,fail-download=1 device 'faulty:hang=100,lie=1,fail-download=1:cpu' was lost at download 1 by rule
hang=100,lie=1,spoil-download=1 a product changed during its download from the device
hang=2 it hangs
hang=8 it hangs
END
}

# Devices of the following tests: MEMORY holds two tiles of the product, and four of its fused operations.
MEMORY=24MiB

write_tiles() {
    write_large
    "$MPIMATMUL" gen X.npy --dims 2203x203 --kind integer --seed 1
    "$MPIMATMUL" gen W.npy --dims 203x601 --kind integer --seed 2
}

@test "a product of several tiles stays as well, and its fused operations run tile by tile" {
    local c=$((4 * 2203 * 601)) up=$((4 * 203 * (2203 + 601))) device
    # Samples of four tiles. Of the smallest tile every row is sampled.
    local one=$((3 * 512 + 241)) three=$((3 * (2 * 512 + 3 * 341) + 5 * 241))
    write_tiles
    for device in faulty:hang=1000000:cpu 0:0; do
        [ "$device" != 0:0 ] || [ "$HAS_OPENCL" -gt 0 ] || continue
        run -0 bus "$device" --device-memory "$MEMORY"
        show
        large_stayed "$up" "$c" "$one" "$three" <<< "$output"
    done
    [ "$HAS_OPENCL" -gt 0 ] || skip "opencl: no device 0:0"
}

@test "a last tile may be sampled as a whole" {
    local c=$((4 * 1982 * 601)) up=$((4 * 203 * (1982 + 601)))
    write_tiles
    "$MPIMATMUL" gen X.npy --dims 1982x203 --kind integer --seed 1
    run -0 --separate-stderr bus faulty:hang=1000000:cpu --device-memory "$MEMORY"
    [ "$stderr" = "" ] || { show; return 1; }
    [ "$(grep "matmul + relu" <<< "$output")" = \
        "matmul + relu, relu(x @ w), $((up + 4 * (3 * 512 + 20))), $((c + 3 * 512 * 4 * 64 + 4 * 20 * 601))" ] ||
        { show; return 1; }
    large_is_right
}

@test "a device without memory for a whole product downloads it tile by tile" {
    local c=$((4 * 2203 * 601)) memory
    write_tiles
    for memory in 10MiB 6MiB 2MiB; do
        run -0 bus faulty:hang=1000000:cpu --device-memory "$memory"
        [[ "$(grep "matmul + relu" <<< "$output")" == *", $((2 * c))" ]] || { show; return 1; }
        large_is_right
    done
}

@test "an error in one tile of many, or its loss, is found, and all of the product is computed again" {
    local rule why
    write_tiles
    # Operations: two tiles of the product; of each of four tiles, the last rows first, relu and its
    # sample; two tiles of the product; of each of four abs, its two samples, times 3, its two,
    # minus 7, its one.
    while read -r rule why; do
        rm -f Y.npy Z.npy
        run_program "faulty:$rule:cpu" --device-timeout 4 --device-memory "$MEMORY"
        expect_status 0
        [[ "$stderr" == *"'reference': $why" && "$(grep -c . <<< "$stderr")" -eq 1 ]] ||
            { echo "$rule"; show; return 1; }
        large_is_right || { echo "$rule"; return 1; }
    done << 'END'
hang=100,corrupt=1 1 wrong column in rows 0-2203 of matrix 0 of 'x @ w'
hang=100,fail=2 device 'faulty:hang=100,fail=2:cpu' was lost at multiplication 2 by rule
hang=100,corrupt=5 rows 1308-1962 of matrix 0 of 'relu(x @ w)' changed after they were computed
hang=100,fail=7 device 'faulty:hang=100,fail=7:cpu' was lost at operation 7 by rule
hang=100,garble=10 512 wrong rows in rows 0-654 of matrix 0 of 'relu(x @ w)'
hang=100,garble=12 601 wrong columns in rows 0-2203 of matrix 0 of 'x @ w'
hang=100,fail=21 device 'faulty:hang=100,fail=21:cpu' was lost at operation 21 by rule
hang=100,garble=25 341 wrong rows in rows 1308-1962 of matrix 0 of 'abs(x @ w) * 3'
hang=100,fail-download=5 device 'faulty:hang=100,fail-download=5:cpu' was lost at download 5 by rule
hang=100,lie=1,fail-download=2 device 'faulty:hang=100,lie=1,fail-download=2:cpu' was lost at download 2 by rule
hang=2 it hangs
hang=24 it hangs
END
}

@test "a repeated error in a product that stays on the device ends the job with 79 and no file" {
    write_large
    run_program "faulty:hang=100,corrupt=*,everywhere:cpu"
    expect_failure 79 "rank 0: result is wrong in rows 0-1203 of matrix 0 of 'x @ w', also after a second computation" \
        "suspect the memory or the processor of that machine"
    expect_only_files W.npy X.npy program.py
}

@test "of two ranks with products that stay on devices one loses its device, and the results are right" {
    local rule
    write_large
    cat > program.py << 'END'
x, w = load("X.npy"), load("W.npy")
y = relu((x * 2) @ w)
save("Y.npy", y)
save("Z.npy", relu(y @ w.T))
END
    for rule in hang=1000000 hang=100,fail=3 hang=100,corrupt=2 hang=100,fail-download=3 hang=3; do
        rm -f Y.npy Z.npy
        run --separate-stderr timeout 60 mpirun -q -n 1 "$MPIMATMUL" run program.py --weights equal --device-timeout 1 \
            --report report.json --device faulty:hang=1000000:cpu : -n 1 "$MPIMATMUL" run program.py --weights equal \
            --device-timeout 1 --report report.json --device "faulty:$rule:cpu"
        expect_status 0
        [[ "$rule" == hang=1000000 || "$stderr" == *"rank 1: "*" 'reference': "* ]] || { show; return 1; }
        py - << 'END'
import json
import numpy as np
x, w = np.load("X.npy").astype(float), np.load("W.npy").astype(float)
y = np.maximum(2 * x @ w, 0)
assert np.array_equal(np.load("Y.npy"), y)
assert np.array_equal(np.load("Z.npy"), np.maximum(y @ w.T, 0))
one, = [o for o in json.load(open("report.json"))["operations"] if o["value"] == "y" and o["operation"] != "move"]
assert one["operation"] == "matmul + relu"
assert one["ranks"][0]["downloaded_bytes"] == 4 * (602 * 1001 + 512 * 64), one["ranks"][0]
END
    done
}

@test "a product that stays on the device has no carried sums: Inf and NaN are counted in the downloaded result" {
    write_large
    py - << 'END'
import numpy as np
for name, place in (("X.npy", (5, 7)), ("W.npy", (9, 11))):
    x = np.load(name).copy()
    x[place] = np.inf
    np.save(name, x)
END
    run_program faulty:hang=1000000:cpu
    expect_quiet_success
    large_is_right 2> /dev/null
}

@test "for products of a loop with the same operands, which share their sums, a later error is found" {
    "$MPIMATMUL" gen W.npy --dims 203x203 --kind integer --seed 2
    cat > program.py << 'END'
x, w = load("X.npy"), load("W.npy")
s = x
for i in range(4):
    x = minimum(maximum(x @ w, -2), 2)
    s = s + x @ w.T + (w @ x.T).T
save("S.npy", s)
END
    local device count
    for device in faulty:corrupt=5:cpu faulty:hang=100,garble=9:cpu faulty:hang=9:cpu; do
        for count in 1 2; do
            ranks "$count" run program.py --device "$device" --device-timeout 1
            expect_status 0
            [ "$(grep -c "is replaced by 'reference'" <<< "$stderr")" -eq "$count" ] || { show; return 1; }
            py - << 'END'
import numpy as np
x, w = np.load("X.npy").astype(float), np.load("W.npy").astype(float)
s = x
for i in range(4):
    x = np.clip(x @ w, -2, 2)
    s = s + x @ w.T + (w @ x.T).T
assert np.array_equal(np.load("S.npy"), s)
END
        done
    done
}
