#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2030,SC2031,SC2154 # status, output, stderr and launch are set by bats and the helper
# Cyclic values: blocks of columns dealt by weight. Results are integers and equal numpy element by
# element.

load helper

# run_on RANKS ARGUMENTS...
run_on() {
    run --separate-stderr "${launch[@]}" -n "$1" "$MPIMATMUL" run "${@:2}" < /dev/null
}

# equal_reference TEXT: the outputs of the text equal those of the reference in numpy, in a folder
# of its own.
equal_reference() {
    [ -d numpy ] || (mkdir numpy && cd numpy && py "$REPO/tests/reference.py" "../$1") || return 1
    py -c '
import pathlib
import numpy as np
names = [path.name for path in pathlib.Path("numpy").glob("*.npy")]
for name in names:
    found, expected = np.load(name), np.load("numpy/" + name)
    assert np.array_equal(found, expected), name
assert names'
}

# Widths of 11, 13, 3 and 1 columns in blocks of 2; the last two have fewer blocks than ranks.
write_text() {
    need_numpy
    cat > c.py << 'END'
a = generate((2, 3, 13, 7), kind="integer", seed=1)
b = place(generate((2, 3, 7, 11), kind="integer", seed=2), "cyclic", block=2)
m = place(generate((7, 11), kind="integer", seed=3), "cyclic", block=2)
n = place(generate((11, 3), kind="integer", seed=4), "cyclic", block=2)
one = place(generate((11, 1), kind="integer", seed=5), "cyclic", block=2)
row = place(generate((1, 11), kind="integer", seed=6), "replicate")
column = generate((13, 1), kind="integer", seed=7)
y = place(a @ b, "cyclic", block=2)
save("y.npy", y)
save("rows.npy", place(y, "rows") + 1)
save("whole.npy", place(y, "replicate"))
save("cyclic.npy", place(place(a @ m, "rows"), "cyclic", block=2))
save("stack.npy", a @ m)
save("turned.npy", place(y.T, "cyclic", block=2))
save("narrow.npy", place(y @ n, "cyclic", block=2) - 1)
save("single.npy", y @ one)
save("chain.npy", place(relu(3 * y - y) * column, "cyclic", block=2))
save("wide.npy", place(y + row, "cyclic", block=2))
save("spread.npy", place(y + place(y @ one, "cyclic", block=2), "cyclic", block=2))
save("pair.npy", place(m + b, "cyclic", block=2))
save("sorted.npy", sort(y))
save("sums.npy", sum(y, axis=-1))
save("choice.npy", where(y > 0, y, m[0:1]))
save("gradient.npy", grad(sum(y * y), b))
for i in loop(3):
    m = place(m + 1, "cyclic", block=2)
save("loop.npy", m)
END
}

@test "cyclic values equal numpy element by element on 1, 3 and 4 ranks, some without a block" {
    write_text
    local ranks
    for ranks in "1 1" "3 5,1,2" "4 1,3,0,2"; do
        run_on "${ranks% *}" c.py --quiet --weights "${ranks#* }"
        expect_quiet_success
        equal_reference c.py
        rm -- *.npy
    done
}

@test "a product with a cyclic right operand moves neither it nor the result" {
    write_text
    run_on 4 c.py --check --weights 1,3,0,2
    expect_status 0
    # Blocks 5 4 3 2 1 0, the last of one column, go to ranks 1 3 1 0 1 3.
    [ "$(grep -c -E ' move +b .* cyclic 2 0 2 7 7 11 ' <<< "$output")" -eq 0 ]
    grep -q -E ' matmul +a @ b +a replicate, b cyclic +cyclic 2 0 2 7 7 11 ' <<< "$output"
    grep -q -E ' multiply +3 \* y +y cyclic +cyclic 2 0 2 7 7 11 ' <<< "$output"
}

@test "blocks may be wider than the matrix, values on some ranks, and requests in a file" {
    need_numpy
    cat > w.py << 'END'
a = generate((5, 7), kind="integer", seed=1)
b = generate((7, 9), kind="integer", seed=2)
c = place(b, "cyclic", block=100, ranks=(0, 2))
save("y.npy", a @ c)
END
    run_on 3 w.py --quiet --weights 2,7,1
    expect_quiet_success
    equal_reference w.py
    run_on 3 w.py --check --weights 2,7,1
    [[ $output == *" cyclic 100 0 9 9 9 "* ]] || { show; return 1; }
    printf '%s\n' 'a = generate((5, 7), kind="integer", seed=1)' \
        'b = generate((7, 9), kind="integer", seed=2)' 'save("y.npy", a @ b)' > f.py
    echo 'b: {shard: cyclic, block: 4}' > f.yaml
    run_on 3 f.py --quiet --weights 2,1,1 --placement f.yaml
    expect_quiet_success
    equal_reference f.py
    run_on 3 f.py --check --weights 2,1,1 --placement f.yaml
    [[ $output == *" cyclic 4 0 5 9 9 "* ]] || { show; return 1; }
}

@test "wrong columns of a cyclic product are computed again" {
    need_numpy
    printf '%s\n' 'a = generate((130, 700), kind="integer", seed=1)' \
        'b = place(generate((700, 130), kind="integer", seed=2), "cyclic", block=16)' \
        'save("y.npy", a @ b)' > c.py
    run_on 3 c.py --device faulty:hang=1000,spoil-upload=1:cpu
    expect_status 0
    [[ $stderr == *" is replaced by "*" wrong columns in rows 0-130 of matrix 0 of "* ]] || { show; return 1; }
    equal_reference c.py
}

# refused LINE TEXT...
refused() {
    printf '%s\n' "${@:2}" > bad.py
    run_on 2 bad.py
    expect_failure 65 "$1"
}

# refused_file LINE TEXT...
refused_file() {
    printf '%s\n' "${@:2}" > bad.yaml
    echo 'a = generate((4, 4))' > bad.py
    run_on 2 bad.py --placement bad.yaml
    [ "$status" -eq 65 ] && [ "$stderr" = "mpimatmul: bad.yaml$1" ] && [ -z "$output" ] && return
    show
    return 1
}

@test "invalid blocks are refused" {
    local x='x = generate((4, 4))'
    refused 'bad.py:2:30: block is 0, expected 1 or more columns' "$x" 'y = place(x, "cyclic", block=0)'
    refused 'bad.py:2:5: only a cyclic placement has blocks of columns' "$x" 'y = place(x, "rows", block=2)'
    refused "bad.py:3:5: cyclic blocks of 64 columns, but 'y' has blocks of 2: expected one size in a program" \
        "$x" 'y = place(x, "cyclic", block=2)' 'z = place(x, "cyclic")'
    refused_file ":1:27: '-1': expected 1 or more columns" 'a: {shard: cyclic, block: -1}'
    refused_file ":1:4: 'a': only cyclic has blocks of columns" 'a: {shard: rows, block: 2}'
}

@test "in Python, place takes cyclic and block" {
    need_numpy
    need_plain "python is not linked against the sanitizer"
    export PYTHONPATH=$REPO/src/python MPIMATMUL_LIBRARY=$BUILD/lib/libmpimatmul.so.0
    cat > t.py << 'END'
import numpy as np
import mpimatmul as mm
a, b = mm.generate((5, 7), kind="integer", seed=1), mm.generate((7, 11), kind="integer", seed=2)
c, (d,) = mm.place((b, [b + 1]), "cyclic", block=3)
found = [x.numpy() for x in (a, b, a @ c, a @ d, mm.place(a @ c, "rows"))]
if mm.rank() == 0:
    left, right, y, z, rows = found
    assert np.array_equal(y, left @ right) and np.array_equal(z, left @ (right + 1)) and np.array_equal(rows, y)
for block in 0, "wide":
    try:
        mm.place(a, "cyclic", block=block)
    except (mm.Error, TypeError) as error:
        print(mm.rank(), error, flush=True)
END
    run --separate-stderr "${launch[@]}" -n 3 "$PYTHON" t.py < /dev/null
    expect_status 0
    [ "$(grep '^2' <<< "$output")" = "2 block is 0, expected 1 or more columns
2 'str' object cannot be interpreted as an integer" ] || { show; return 1; }
}
