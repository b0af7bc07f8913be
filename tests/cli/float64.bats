#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Products in float64: numbers that float32 cannot hold are exact on every device with doubles, on
# all ranks, splits and cuts. Impossible requests are refused with the reason.
# shellcheck disable=SC2154 # status, output and stderr are set by bats
load helper

# Whole numbers up to 2^20 and inner sizes below 2^12: a double holds every sum, a float32 almost
# none.
make_whole() {
    python << 'END'
import numpy as np
r = np.random.default_rng(1)
def whole(*shape, most=2**20):
    return r.integers(-most, most + 1, shape).astype("f8")
np.save("A.npy", whole(131, 97))
np.save("B.npy", whole(97, 113))
np.save("C_in.npy", whole(131, 113, most=2**30))
np.save("bias.npy", whole(1, 113, most=2**30))
np.save("At.npy", np.load("A.npy").T.copy())
np.save("Bt.npy", np.load("B.npy").T.copy())
np.save("stack.npy", whole(3, 41, 97))
np.save("F.npy", np.asfortranarray(np.load("A.npy")))
END
}

# is_exact FILE EXPRESSION: the file is float64, equals numpy's, and needs more digits than float32
# has.
is_exact() {
    python "$@" << 'END'
import sys
import numpy as np
names = {n: np.load(n + ".npy") for n in ("A", "B", "C_in", "bias", "stack")}
found, expected = np.load(sys.argv[1]), eval(sys.argv[2], names)
assert found.dtype == np.float64, found.dtype
assert np.array_equal(found.reshape(expected.shape), expected), abs(found - expected).max()
with np.errstate(over="ignore"):
    assert (expected.astype("f4") != expected).mean() > 0.9
END
}

@test "float64 is exact on each device, transposed, with C_in, with a bias, of a stack" {
    need_numpy
    make_whole
    for device in cpu reference 0:0; do
        program mul A.npy B.npy -o C.npy -q --device "$device"
        expect_quiet_success
        is_exact C.npy "A @ B"
        program mul At.npy Bt.npy --transpose-a --transpose-b -o C.npy -q --device "$device" \
            --alpha 3 --beta -2 --c-in C_in.npy
        expect_quiet_success
        is_exact C.npy "3 * (A @ B) - 2 * C_in"
        program mul F.npy B.npy -o C.npy -q --device "$device" --beta 1 --c-in bias.npy
        expect_quiet_success
        is_exact C.npy "A @ B + bias"
        program mul stack.npy B.npy -o C.npy -q --device "$device"
        expect_quiet_success
        is_exact C.npy "stack @ B"
    done
}

@test "with alpha 0, C is beta C_in on each device, by rows and by columns" {
    need_numpy
    make_whole
    python <<< 'import numpy as np; a = np.load("A.npy"); a[3] = np.nan; np.save("N.npy", a)'
    for device in cpu reference 0:0; do
        for options in "--split rows --verify off" "--split cols"; do
            for count in 1 2; do
                # shellcheck disable=SC2086 # words
                ranks $count mul N.npy B.npy -o C.npy -q --device $device --alpha 0 --beta -3 --c-in C_in.npy $options
                expect_quiet_success
                is_exact C.npy "-3 * C_in"
                # shellcheck disable=SC2086 # words
                ranks $count mul N.npy B.npy -o C.npy -q --device $device --alpha 0 --beta 1 --c-in bias.npy $options
                expect_quiet_success
                is_exact C.npy "0 * C_in + bias"
            done
        done
    done
    program mul N.npy B.npy -o C.npy -q --alpha 0
    expect_quiet_success
    python <<< 'import numpy as np; c = np.load("C.npy"); assert c.dtype == np.float64 and not c.any()'
}

@test "float64 is exact on three ranks, by rows and by columns, with work stealing and in tiles of a device" {
    need_numpy
    make_whole
    for options in "--split rows --tail 0.5" "--split cols --tail 0.5" \
        "--device-memory 1800KiB --device 0:0" "--io root --split cols"; do
        # shellcheck disable=SC2086 # words
        ranks 3 mul A.npy B.npy -o C.npy -q --alpha -2 --beta 1 --c-in C_in.npy $options
        expect_status 0
        is_exact C.npy "-2 * (A @ B) + C_in"
    done
}

@test "a device that errs, fails or lies in float64 is replaced, and the result is exact" {
    need_numpy
    make_whole
    for device in faulty:corrupt=1:cpu faulty:garble=1:cpu faulty:fail=1:cpu faulty:corrupt=1:0:0 \
        faulty:fail-upload=2:0:0; do
        program mul A.npy B.npy -o C.npy --device "$device"
        expect_status 0
        [[ $stderr == *"is replaced by"* ]] || { show; false; }
        is_exact C.npy "A @ B"
    done
    program mul A.npy B.npy -o C.npy --device faulty:corrupt=*,everywhere:cpu
    expect_status 79
    [[ $stderr == *"rank 0: result is wrong in"* ]] || { show; false; }
}

@test "an error in the tenth digit of an element is found" {
    need_numpy
    make_whole
    program mul A.npy B.npy -o C.npy -q
    expect_quiet_success
    program verify A.npy B.npy C.npy
    expect_status 0
    python << 'END'
import numpy as np
c = np.load("C.npy")
c[17, 5] *= 1 + 1e-10
np.save("C.npy", c)
END
    program verify A.npy B.npy C.npy
    expect_status 79
}

@test "real numbers, tiny and huge ones, are right in float64" {
    need_numpy
    python << 'END'
import numpy as np
r = np.random.default_rng(2)
a, b = r.standard_normal((61, 300)), r.standard_normal((300, 50))
a[7], b[:, 9] = a[7] * 1e-200, b[:, 9] * 1e-170
a[8] *= 1e160
np.save("A.npy", a), np.save("B.npy", b)
END
    for device in cpu 0:0; do
        program mul A.npy B.npy -o C.npy --device "$device" --no-fallback
        expect_status 0
        [[ $output == *"result verified (Freivalds), 0 blocks recomputed"* ]] || { show; false; }
        python << 'END'
import numpy as np
a, b, c = (np.load(n).astype(np.longdouble) for n in ("A.npy", "B.npy", "C.npy"))
assert (abs(c - a @ b) <= 64 * 2.0**-53 * (abs(a) @ abs(b)) + 1e-320).all()
END
    done
}

@test "--dtype float32 computes in float32, --dtype float64 converts inputs of other types" {
    need_numpy
    make_whole
    program mul A.npy B.npy -o C.npy --dtype float32 -q
    expect_status 0
    program info C.npy
    [[ $output == *float32* ]] || { show; false; }
    python << 'END'
import numpy as np
a, b, c = (np.load(n) for n in ("A.npy", "B.npy", "C.npy"))
error = abs(c - a @ b).max() / abs(a @ b).max()
assert c.dtype == np.float32 and 1e-9 < error < 1e-5, error
np.save("A32.npy", np.load("A.npy").astype("f4"))
np.save("I.npy", np.load("B.npy").astype("i4"))
END
    program mul A32.npy B.npy -o C.npy
    expect_status 0
    [ "$stderr" = "mpimatmul: notice: 'B.npy' is float64 and is read as float32" ] || { show; false; }
    python <<< 'import numpy; assert numpy.load("C.npy").dtype == numpy.float32'
    program mul A32.npy B.npy -o C.npy --dtype float64
    expect_status 0
    [ "$stderr" = "mpimatmul: notice: 'A32.npy' is float32 and is read as float64" ] || { show; false; }
    is_exact C.npy "A @ B"
    program mul A.npy I.npy -o C.npy
    expect_status 0
    [ "$stderr" = "mpimatmul: notice: 'I.npy' is int32 and is read as float64" ] || { show; false; }
    is_exact C.npy "A @ B"
}

@test "an alpha that float32 cannot hold keeps its digits in float64" {
    need_numpy
    python << 'END'
import numpy as np
np.save("A.npy", np.full((5, 1), 2.0)), np.save("B.npy", np.full((1, 7), 3.0))
END
    program mul A.npy B.npy -o C.npy --alpha 0.1 -q
    expect_quiet_success
    python <<< 'import numpy; assert (numpy.load("C.npy") == 6 * 0.1).all()'
}

@test ".npz and .safetensors hold a float64 result, .bin does not" {
    need_numpy
    make_whole
    program mul A.npy B.npy -o C.npz -q
    expect_quiet_success
    program convert C.npz D.npy -q
    is_exact D.npy "A @ B"
    program mul A.npy B.npy -o C.safetensors -q
    expect_quiet_success
    program convert C.safetensors D.npy -q
    is_exact D.npy "A @ B"
    program mul A.npy B.npy -o C.bin
    expect_failure 64 "cannot write 'C.bin' as float64: .bin has no such type" \
        "all other formats have it; --dtype float32 computes in float32"
    [ ! -e C.bin ] && [ ! -e C.bin.part ]
    program mul A.npy B.npy -o C.bin --dtype float32 -q
    expect_status 0
}

@test "for float64 a device without doubles is skipped with the reason, and the next one is used" {
    need_numpy
    make_whole
    program mul A.npy B.npy -o C.npy --device faulty:no-float64:cpu
    expect_status 0
    [[ $stderr == "mpimatmul: warning: rank 0: device '"*"' is replaced by 'reference': it \
does not multiply in float64" ]] || { show; false; }
    is_exact C.npy "A @ B"
    program mul A.npy B.npy -o C.npy --device faulty:no-float64:cpu -q --no-fallback
    expect_status 69
    [[ $stderr == *"device 'faulty:no-float64:cpu' does not multiply in float64"* ]] || { show; false; }
}

# The replacement is chosen before shares are: shares follow the replacement's speed, and one line
# reports it.
@test "a device without doubles is replaced before the plan, in mul and in programs, but not for float32" {
    need_numpy
    python << 'END'
import numpy as np
rng = np.random.default_rng(1)
for name in "XY":
    np.save(name + ".npy", rng.integers(-4, 5, (1100, 1100)) * (1 + 2.0 ** -30))
END
    printf '%s\n' 'save("Z.npy", load("X.npy") @ load("Y.npy"))' > e.py
    for job in "mul X.npy Y.npy -o Z.npy" "run e.py"; do
        read -r -a words <<< "$job"
        options=("${words[@]}" --progress none --report r.json)
        run --separate-stderr timeout 60 "${launch[@]}" -n 1 "$MPIMATMUL" "${options[@]}" --device cpu : \
            -n 1 "$MPIMATMUL" "${options[@]}" --device faulty:no-float64:cpu
        expect_status 0
        [[ $stderr == "mpimatmul: warning: rank 1: device 'faulty:no-float64:cpu"*"' is replaced by \
'reference': it does not multiply in float64" ]] || { show; false; }
        python << 'END'
import json
import numpy as np
x, y, z = (np.load(name + ".npy") for name in "XYZ")
assert z.dtype == np.float64 and np.abs(z - x @ y).max() <= 1e-9
ranks = json.load(open("r.json"))["ranks"]
assert ranks[1]["device"] == "reference", ranks[1]["device"]
# a device that is replaced after the plan counts its replacement or the failed product
for rank in ranks:
    assert rank["device_replacements"] == rank["fallback_products"] == 0, rank
END
        rm Z.npy r.json
    done
    program mul X.npy Y.npy -o Z.npy --dtype float32 --device faulty:no-float64:cpu -q
    expect_status 0
    [[ $stderr != *warning* ]] || { show; false; }
}

@test "the plan counts eight bytes per element" {
    need_numpy
    make_whole
    python << 'END'
import numpy as np
for n in "AB":
    np.save(n + "32.npy", np.load(n + ".npy").astype("f4"))
END
    program plan A32.npy B32.npy --json
    single=$output
    program plan A.npy B.npy --json
    python "$single" "$output" << 'END'
import json, sys
single, double = (json.loads(text) for text in sys.argv[1:])
assert double["nodes"][0]["segment_bytes"] >= single["nodes"][0]["segment_bytes"], double
END
}

# Rows of very different size. Every run draws its own numbers for the check.
@test "480 products on grids and of summands on 4 ranks equal numpy's and raise no false alarm" {
    need_numpy
    python << 'END'
import numpy as np
rng = np.random.default_rng(1)
for name, cols in ("X", 61), ("Y", 53):
    np.save(name + ".npy", rng.standard_normal((3600, cols)) * 10.0 ** rng.integers(-6, 6, (3600, 1)))
END
    cat > e.py << 'END'
x = load("X.npy")
y = load("Y.npy")
s = 0
t = 0
for i in range(80):
    u = x[i * 45:i * 45 + 45, :]
    v = y[i * 45:i * 45 + 45, :]
    s = s + place(place(u.T, "cols") @ place(v, "rows"), "rows")
    t = t + place(place(u.T, "grid") @ place(v, "grid"), "grid")
save("s.npy", s)
save("t.npy", t)
END
    ranks 4 run e.py --check --verbose
    expect_status 0
    [ "$(grep -c -E ' matmul .* partial ' <<< "$output")" -ge 80 ]
    [ "$(grep -c -E ' matmul .* grid [0-9 ]+x [0-9 ]+' <<< "$output")" -ge 80 ]
    for _ in 1 2 3; do
        ranks 4 run e.py --quiet
        expect_quiet_success
        python << 'END'
import numpy as np
x, y, s, t = (np.load(name + ".npy") for name in "XYst")
for made in s, t:
    assert made.dtype == np.float64 and np.abs(made - x.T @ y).max() <= 1e-13 * np.abs(x.T @ y).max()
END
    done
}

# As in transfers.bats, in doubles: the first messages are parts of the operands.
@test "one element of a summand that changes before the addition is found" {
    need_numpy
    python << 'END'
import numpy as np
rng = np.random.default_rng(1)
np.save("X.npy", rng.standard_normal((600, 300)))
np.save("Y.npy", rng.standard_normal((600, 280)))
END
    printf '%s\n' 'x = load("X.npy")' 'y = load("Y.npy")' 'b = place(x.T, "cols") @ place(y, "rows")' \
        'save("b.npy", place(b, "rows"))' > e.py
    local from message to row contexts
    while read -r from message to row; do
        tamper_message "$from" "$message" "$MPIMATMUL" run e.py --weights equal --progress none
        run --separate-stderr timeout 30 "${launch[@]}" --oversubscribe "${contexts[@]}" < /dev/null
        expect_status 79
        [ "${stderr_lines[0]}" = "mpimatmul: rank $to: sum over the ranks is wrong in row $row of matrix 0 of 'b'" ]
        [ ! -e b.npy ]
    done << 'END'
0 5 1 133
0 6 2 233
1 1 2 233
1 2 0 33
2 1 0 33
2 2 1 133
END
}

@test "numbers with overflowing squares are right, and a wrong row of them is found" {
    need_numpy
    make_whole
    python << 'END'
import numpy as np
rng = np.random.default_rng(1)
np.save("A.npy", rng.integers(1, 9, (150, 70)) * 2.0 ** 600)
np.save("B.npy", rng.integers(1, 9, (70, 90)) * 2.0 ** -80)
END
    program mul A.npy B.npy -o C.npy -q
    expect_quiet_success
    is_exact C.npy "A @ B"
    program verify A.npy B.npy C.npy
    expect_status 0
    python << 'END'
import numpy as np
c = np.load("C.npy")
c[17] *= 1 + 1e-10
np.save("C.npy", c)
END
    program verify A.npy B.npy C.npy
    expect_status 79
}

@test "float64 is right in pieces and in rounds when memory is short" {
    need_plain "the sanitizer's own memory counts"
    need_numpy
    make_whole
    python << 'END'
import numpy as np
rng = np.random.default_rng(1)
np.save("A.npy", rng.integers(-2 ** 20, 2 ** 20, (2600, 900)).astype("f8"))
np.save("B.npy", rng.integers(-2 ** 20, 2 ** 20, (900, 700)).astype("f8"))
END
    ranks 2 plan A.npy B.npy --memory 40MiB --io root --json
    [ "$(sed -n 's/^  "rounds": \([0-9]*\),$/\1/p' <<< "$output")" -gt 1 ]
    ranks 2 mul A.npy B.npy -o C.npy --memory 40MiB --io root -q
    expect_quiet_success
    is_exact C.npy "A @ B"
}
