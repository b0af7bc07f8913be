#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Commands that are a program of one line, compared with numpy, alone and on several ranks.
# shellcheck disable=SC2154 # stderr is set by bats

load helper

setup() {
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return 1
    need_numpy
    py -c '
import numpy as np
np.save("A.npy", (np.arange(70 * 33, dtype="f4").reshape(70, 33) * 37 % 101 - 50) / 8)
np.save("B.npy", (np.arange(20 * 33, dtype="f4").reshape(20, 33) * 53 % 97 - 48) / 8)
np.save("b.npy", np.arange(33, dtype="f4"))'
}

# expect FILE EXPRESSION [TOLERANCE]: an expression of A, B and b, in double.
expect() {
    py - "$@" << 'END'
import sys, numpy as np
A, B, b = (np.load(name + ".npy").astype("f8") for name in "ABb")
N = lambda x: x / np.linalg.norm(x, axis=-1, keepdims=True)
found, expected = np.load(sys.argv[1]), eval(sys.argv[2])
assert found.shape == expected.shape, (found.shape, expected.shape)
off = np.abs(found - expected).max()
assert off <= float(sys.argv[3] if len(sys.argv) > 3 else 0), off
END
}

@test "sums, differences and transposes are equal element by element" {
    for n in 1 3; do
        run mpirun -q --oversubscribe -n "$n" "$MPIMATMUL" add A.npy b.npy
        [ "$(outcome)" = "wall N s  N GFLOP/s  (N steps; before that N s)  no operation needed a check
A_add_b.npy: 70 x 33" ]
        expect A_add_b.npy 'A + b'
        run mpirun -q --oversubscribe -n "$n" "$MPIMATMUL" sub b.npy A.npy -o c.npy
        [ "$(outcome)" = "wall N s  N GFLOP/s  (N steps; before that N s)  no operation needed a check
c.npy: 70 x 33" ]
        expect c.npy 'b - A'
        run mpirun -q --oversubscribe -n "$n" "$MPIMATMUL" transpose A.npy
        [ "$(outcome)" = "wall N s  (N steps; before that N s)  no operation needed a check
A_transposed.npy: 33 x 70" ]
        expect A_transposed.npy 'A.T'
    done
}

@test "maps and reductions equal numpy's" {
    program map relu A.npy --quiet -o "a \"quoted\" \\ name.npy"
    expect_quiet_success
    expect "a \"quoted\" \\ name.npy" 'np.maximum(A, 0)'
    run mpirun -q --oversubscribe -n 3 "$MPIMATMUL" map softmax A.npy
    [ "$(outcome)" = "wall N s  N GFLOP/s  (N steps; before that N s)  no operation needed a check
A_softmax.npy: 70 x 33" ]
    expect A_softmax.npy '(lambda e: e / e.sum(-1, keepdims=True))(np.exp(A - A.max(-1, keepdims=True)))' 1e-6
    for axis in -1 -2 all; do
        run mpirun -q --oversubscribe -n 2 "$MPIMATMUL" reduce sum A.npy --axis $axis
        expect A_sum.npy "A.sum($([ $axis = all ] && echo None || echo "$axis"), keepdims=True)" 1e-3
    done
    program map arctan A.npy
    expect A_arctan.npy 'np.arctan(A)' 1e-6
    program map argmax A.npy
    expect A_argmax.npy 'A.argmax(-1)[:, None]'
    program map rms_norm A.npy
    expect A_rms_norm.npy 'A / np.sqrt((A * A).mean(-1, keepdims=True) + 1e-6)' 1e-5
    program map layer_norm A.npy
    expect A_layer_norm.npy '(A - A.mean(-1, keepdims=True)) / np.sqrt(A.var(-1, keepdims=True) + 1e-5)' 1e-5
}

@test "the most similar rows are found" {
    run mpirun -q -n 2 "$MPIMATMUL" topk A.npy B.npy --normalize-rows -k 3 -o near.npy --indices which.npy
    [ "$(outcome)" = "wall N s  N GFLOP/s  (N steps; before that N s)  results checked, 0 blocks recomputed
which.npy: 70 x 3  near.npy: 70 x 3" ]
    expect near.npy '-np.sort(-N(A) @ N(B).T, -1)[:, :3]' 1e-6
    expect which.npy 'np.argsort(-N(A) @ N(B).T, -1, kind="stable")[:, :3]'
    program topk A.npy -k 2
    expect A_topk.npy '-np.sort(-A, -1)[:, :2]'
}

@test "mul adds a bias, an activation and a residual, and finds the largest elements" {
    py -c '
import numpy as np
np.save("W.npy", np.load("B.npy").T.copy())
np.save("r.npy", np.ones((70, 20), "f4"))
np.save("c.npy", np.arange(20, dtype="f4"))'
    for n in 1 3; do
        run mpirun -q --oversubscribe -n "$n" "$MPIMATMUL" mul A.npy W.npy --bias c.npy --activation relu \
            --residual r.npy -o y.npy
        [ "$(outcome)" = "wall N s  N GFLOP/s  (N steps; before that N s)  results checked, 0 blocks recomputed
y.npy: 70 x 20" ]
        expect y.npy 'np.maximum(A @ B.T + np.arange(20), 0) + 1' 1e-3
    done
    program mul A.npy B.npy --transpose-b --normalize-rows --topk 4 --indices i.npy --quiet
    expect_quiet_success
    expect AxB_combined.npy '-np.sort(-N(A @ B.T), -1)[:, :4]' 1e-6
    expect i.npy 'np.argsort(-(A @ B.T), -1, kind="stable")[:, :4]'
    program mul W.npy A.npy --transpose-a --transpose-b --alpha 0.5 --c-in r.npy --beta 2 --activation tanh
    expect_failure 65 "cannot add 'product' (20 x 70) and '2 * r.npy' (70 x 20): sizes 20 and 70 of axis -2 differ" \
        "sizes of 1 are broadcast"
    py -c 'import numpy as np; np.save("s.npy", np.ones((20, 70), "f4"))'
    program mul W.npy A.npy --transpose-a --transpose-b --alpha 0.5 --c-in s.npy --beta 2 --activation tanh -o t.npy
    expect t.npy 'np.tanh(0.5 * B @ A.T + 2)' 1e-4
}

@test "alpha and beta keep all their digits, and 0 removes NaN, also with an operation behind the product" {
    py -c '
import numpy as np
A = np.load("A.npy").astype("f8")
np.save("A.npy", A)
np.save("W.npy", np.load("B.npy").T.astype("f8"))
np.save("r.npy", np.ones((70, 20)))
np.save("c.npy", np.arange(20, dtype="f8"))
A[3, 4], A[5, 6] = np.nan, -np.inf
np.save("N.npy", A)'
    program mul A.npy W.npy --alpha 0.12345678901234567 --beta 1.9876543210987654 --c-in r.npy --bias c.npy -o y.npy
    expect_status 0
    expect y.npy '0.12345678901234567 * (A @ B.T) + 1.9876543210987654 + np.arange(20)' 1e-13
    program mul N.npy W.npy --alpha 0 --bias c.npy -o y.npy
    expect_status 0
    expect y.npy 'np.zeros((70, 20)) + np.arange(20)'
    program mul N.npy W.npy --alpha 0 -o kept:zero --shard-dir shards
    expect_status 0
    MPIMATMUL_SHARD_DIR=shards program convert kept:zero y.npy
    expect y.npy 'np.zeros((70, 20))'
}

@test "results have the common 16-bit type of all inputs, or the type asked for" {
    py -c '
import numpy as np
for name in "AB":
    np.save(name + ".npy", np.round(np.load(name + ".npy")).astype("f2"))
np.save("W.npy", np.load("B.npy").T.copy())
np.save("h.npy", np.arange(20, dtype="f2"))
np.save("c.npy", np.arange(20, dtype="f4"))
np.save("d.npy", np.arange(20, dtype="f8"))
np.save("z20.npy", np.zeros(20, "f2"))
np.save("L.npy", np.diag(np.array([300, 200, 2, 1], "f2")))
np.save("R.npy", np.full((4, 5), 300, "f2"))          # 90000, 60000, 600 and 300
np.save("z.npy", np.zeros((1, 5), "f2"))'
    for name in A W h; do
        "$MPIMATMUL" convert $name.npy $name.bin --dtype bfloat16 --quiet
    done
    local n row
    for n in 1 3; do
        for row in "npy npy h.npy float16" "npy npy c.npy float32" "bin bin h.bin bfloat16" \
            "bin npy h.bin float32" "npy npy h.bin float32" "npy npy h.npy float32 --dtype float32" \
            "npy npy c.npy float16 --dtype float16" "npy bin c.npy bfloat16 --dtype bfloat16" \
            "npy npy d.npy float16 --dtype float16 --residual z20.npy"; do
            # shellcheck disable=SC2086 # words
            set -- $row
            ranks "$n" mul "A.$1" "W.$2" --bias "$3" --activation relu -o "y.${2}" --quiet "${@:5}"
            expect_quiet_success
            py - "y.$2" "$4" << 'END'
import sys, numpy as np, matrices
A, W = np.load("A.npy").astype("f8"), np.load("W.npy").astype("f8")
if sys.argv[1].endswith(".npy"):
    found = np.load(sys.argv[1])
    kind = str(found.dtype)
else:
    tag, found = matrices.read_bin(sys.argv[1])
    kind = {4: "float32", -3: "bfloat16"}[tag]
    found = found if tag == 4 else (found.astype("u4") << 16).view("f4")
assert kind == sys.argv[2], kind
expected = np.maximum(A @ W + np.arange(20), 0)
assert np.abs(found - expected).max() <= {"float32": 0, "float16": 2**-11, "bfloat16": 2**-8}[kind] * expected.max()
END
        done
    done
    for row in "transpose A.npy" "map relu A.npy" "add A.npy A.npy" "reduce max A.npy" "topk A.npy -k 2"; do
        # shellcheck disable=SC2086 # words
        program $row -o y.npy --quiet
        expect_quiet_success
        [ "$(py -c 'import numpy as np; print(np.load("y.npy").dtype)')" = float16 ]
    done
    program mul L.npy R.npy --bias z.npy -o y.npy --quiet
    expect_status 0
    [ "$stderr" = "mpimatmul: warning: 'y.npy': 5 values beyond float16 became infinite" ]
    # indices are whole numbers
    program mul L.npy R.npy --topk 2 --indices i.npy --dtype float16 -o y.npy --quiet
    expect_status 0
    [ "$(py -c 'import numpy as np; print(np.load("y.npy").dtype, np.load("i.npy").dtype)')" = "float16 int32" ]
    program mul A.npy W.npy --bias h.npy --dtype float64 -o y.npy
    expect_failure 64 "--dtype float64 cannot be combined with --bias" \
        "without it the result is float64 where all files are"
    echo 'save("y.npy", load("A.npy").T)' > p.py
    program run p.py --quiet
    expect_quiet_success
    [ "$(py -c 'import numpy as np; print(np.load("y.npy").dtype)')" = float32 ]
}

@test "an error in a one-line program names the files instead of a line" {
    program mul A.npy B.npy --activation rely
    expect_failure 64 "--activation: 'rely' is invalid, expected one of relu|gelu|silu|sigmoid|tanh|softmax"
    program mul A.npy B.npy --topk 2 --split cols
    expect_failure 64 "--split cannot be combined with --topk"
    program mul A.npy B.npy --indices i.npy
    expect_failure 64 "--indices needs --topk"
    program topk A.npy -o i.npy --indices ./i.npy
    expect_failure 65 "cannot save to 'i.npy': it is also another output"
    program map rely A.npy
    expect_failure 64 "map: unknown operation 'rely', did you mean 'relu'?"
    program map zzzz A.npy
    expect_failure 64 "map: unknown operation 'zzzz'" 'mpimatmul map --help lists the operations'
    program map arctann A.npy
    expect_failure 64 "map: unknown operation 'arctann', did you mean 'arctan'?"
    program reduce zzzz A.npy
    expect_failure 64 "reduce: unknown operation 'zzzz'" 'mpimatmul reduce --help lists the operations'
    program add A.npy nowhere.npy
    expect_failure 66 "cannot open 'nowhere.npy': No such file or directory"
    program add A.npy B.npy
    expect_failure 65 "cannot add 'A.npy' (70 x 33) and 'B.npy' (20 x 33): sizes 70 and 20 of axis -2 differ" \
        "sizes of 1 are broadcast"
    mkdir -p a/long/folder/of/many/names
    cp A.npy 'a/long/folder/of/many/names/so"me.npy'
    program sub B.npy 'a/long/folder/of/many/names/so"me.npy'
    expect_failure 65 "cannot subtract 'B.npy' (20 x 33) and 'a/long/folder/of/many/names/so\"me.npy' (70 x 33): sizes$(
        ) 20 and 70 of axis -2 differ" "sizes of 1 are broadcast"
    program mul A.npy B.npy --bias b.npy
    expect_failure 65 "cannot multiply 'A.npy' (70 x 33) by 'B.npy' (20 x 33): inner sizes 33 and 20 differ"
    program mul A.npy B.npy --transpose-b --bias b.npy
    expect_failure 65 "cannot add 'product' (70 x 20) and 'b.npy' (1 x 33): sizes 20 and 33 of axis -1 differ" \
        "sizes of 1 are broadcast"
    py -c 'import numpy as np; np.save("N.npy", np.ones((4, 5), "f4"))'
    program topk A.npy N.npy -k 2 --normalize-rows
    expect_failure 65 "cannot multiply 'normalize(A.npy)' (70 x 33) by 'normalize(N.npy).T' (5 x 4): inner sizes$(
        ) 33 and 5 differ"
    program topk A.npy -k 34
    expect_failure 65 "cannot take the largest 34 of each row of 'A.npy': rows have 33 elements"
    program map relu A.npy -o A.npy
    expect_failure 73 "cannot create 'A.npy': it is one of the inputs" "give the output another name"
    ! compgen -G '*.part' || false
}

@test "MPIMATMUL_DTYPE obeys the rules of --dtype and is named in errors" {
    need_numpy
    python <<< 'import numpy as np; np.save("D.npy", np.ones((4, 4))); np.save("b.npy", np.ones((1, 4)))'
    export MPIMATMUL_DTYPE=float64
    program mul D.npy D.npy --bias b.npy -o C.npy --device cpu
    expect_failure 64 "MPIMATMUL_DTYPE=float64 cannot be combined with --bias" \
        "without it the result is float64 where all files are"
    export MPIMATMUL_DTYPE=float16
    program mul D.npy D.npy -o kept:x --device cpu
    expect_failure 64 "MPIMATMUL_DTYPE=float16 cannot be combined with 'kept:x'" \
        "persistent sets are float32 or float64"
    unset MPIMATMUL_DTYPE
    for dtype in float16 bfloat16 float32; do
        program mul D.npy D.npy --bias b.npy -o C.bin --dtype $dtype --device cpu
        expect_status 0
        [ "$(sort <<< "$stderr")" = "mpimatmul: notice: 'D.npy' is float64 and is read as float32
mpimatmul: notice: 'b.npy' is float64 and is read as float32" ] || { show; return 1; }
    done
}
