#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The largest elements of the rows of a product that is not stored: the same to the last bit as
# those of a stored product, which another operation reads as well.
# shellcheck disable=SC2030,SC2031,SC2154 # status, output and stderr are set by bats
bats_require_minimum_version 1.5.0
load helper

# Tiles have 4096 columns, or as many as the number of results if that is more, and four million
# elements at most. Small whole numbers are often equal, in a tile and across tiles. The last
# product contains NaN and infinity. With middles=1 the products are saved.
write_program() {
    cat > search.py << 'END'
middles = 0
x = generate((1100, 5), kind="integer", seed=1)
y = generate((4300, 5), kind="integer", seed=2)
t = generate((3, 90, 5), kind="integer", seed=3)
u = generate((3, 70, 5), kind="integer", seed=4)
p0 = x @ y.T
p1 = x[0:40, :] @ y.T
p2 = t @ y.T
p3 = t @ u.T
p4 = load("../odd.npy") @ load("../more.npy").T
v0, i0 = topk(p0, 7)
v1, i1 = topk(p1, 4200)
v2, i2 = topk(p2, 3)
v3, i3 = topk(p3, 70)
v4, i4 = topk(p4, 6)
save("v0.npy", v0)
save("v1.npy", v1)
save("v2.npy", v2)
save("v3.npy", v3)
save("v4.npy", v4)
save("i0.npy", i0)
save("i1.npy", i1)
save("i2.npy", i2)
save("i3.npy", i3)
save("i4.npy", i4)
if middles:
    save("p0.npy", p0)
    save("p1.npy", p1)
    save("p2.npy", p2)
    save("p3.npy", p3)
    save("p4.npy", p4)
END
    py - << 'END'
import numpy as np
rng = np.random.default_rng(1)
odd, more = rng.integers(-4, 5, (50, 6)), rng.integers(-4, 5, (9000, 6))
more = more.astype("f4")
for row in 17, 4095, 4096, 8999:
    more[row, 0] = np.nan
more[5000, 1] = np.inf
np.save("odd.npy", odd.astype("f4"))
np.save("more.npy", more)
END
    mkdir apart numpy here
    (cd apart && timeout 60 "$MPIMATMUL" run ../search.py middles=1 --quiet)
}

# Compares here/ with apart/.
is_same() {
    for name in v0 v1 v2 v3 v4 i0 i1 i2 i3 i4; do
        cmp "here/$name.npy" "apart/$name.npy" || return 1
    done
}

@test "search gives the results of a stored product on 1, 2, 3 and 5 ranks, and numpy's" {
    need_numpy
    write_program
    cd here
    for count in 1 2 3 5; do
        rm -f ./*.npy
        run --separate-stderr timeout 60 "${launch[@]}" --oversubscribe -n "$count" "$MPIMATMUL" run ../search.py \
            --quiet
        expect_quiet_success
        (cd .. && is_same)
    done
    cd ../numpy
    py "$REPO/tests/reference.py" ../search.py
    py - << 'END'
import numpy as np
for name in "v0", "v1", "v2", "v3", "i0", "i1", "i2", "i3":
    found, wanted = np.load(f"../here/{name}.npy"), np.load(f"{name}.npy")
    assert found.shape == wanted.shape and (found == wanted).all(), name
# NaN comes first, in the order of its columns. Infinity times zero is one.
odd, more = np.load("../odd.npy").astype(float), np.load("../more.npy").astype(float)
with np.errstate(invalid="ignore"):
    product = odd @ more.T
order = [sorted(range(len(row)), key=lambda j: (not np.isnan(row[j]), -row[j] if row[j] == row[j] else 0))[:6]
         for row in product]
assert (np.load("../here/i4.npy") == order).all()
END
}

# The same with matrices in float64 files: small whole numbers and fractions that float32 loses.
make_double() {
    python << 'END'
import numpy as np
rng = np.random.default_rng(3)
for name, shape in ("x", (1100, 5)), ("y", (4300, 5)), ("t", (3, 90, 5)), ("u", (3, 70, 5)):
    np.save(f"in_{name}.npy", rng.integers(-4, 5, shape) + rng.integers(-1, 2, shape) * 2.0 ** -20)
for name in "odd", "more":
    np.save(f"{name}.npy", np.load(f"{name}.npy").astype("f8"))
END
    sed -i -E 's|^([a-z]) = generate.*|\1 = load("../in_\1.npy")|' search.py
    rm -f apart/*.npy
    (cd apart && timeout 60 "$MPIMATMUL" run ../search.py middles=1 --quiet)
}

@test "search of float64 equals that of a stored product and numpy on 1 and 3 ranks, also when a device errs" {
    need_numpy
    write_program
    make_double
    cd here
    program run ../search.py --check
    [ "$(grep -c 'matmul + topk' <<< "$output")" -ge 4 ]
    for count in 1 3; do
        rm -f ./*.npy
        ranks "$count" run ../search.py --quiet
        expect_quiet_success
        (cd .. && is_same)
    done
    rm -f ./*.npy
    program run ../search.py --device faulty:garble=3:cpu --progress none
    expect_status 0
    [[ $stderr == *"'reference': "*" wrong "* ]]
    (cd .. && is_same)
    python << 'END'
import numpy as np
x, y = np.load("../in_x.npy"), np.load("../in_y.npy")
product, values, columns = x @ y.T, np.load("v0.npy"), np.load("i0.npy")
order = np.argsort(-product, axis=1, kind="stable")[:, :7]
assert values.dtype == np.float64 and (columns == order).all()
assert (values == np.take_along_axis(product, order, 1)).all()
assert (values != values.astype("f4")).any()
END
}

@test "search is right when a device is lost, hangs or errs in its middle" {
    need_numpy
    write_program
    cd here
    for rule in fail=2 fail=3,hang=100 garble=3,hang=100 garble=5 corrupt=4 hang=2 hang=3; do
        rm -f ./*.npy
        options=(../search.py --weights equal --device-timeout 1 --progress none)
        run --separate-stderr timeout 60 "${launch[@]}" -n 1 "$MPIMATMUL" run "${options[@]}" --device cpu : \
            -n 1 "$MPIMATMUL" run "${options[@]}" --device "faulty:$rule:cpu"
        expect_status 0
        [[ $stderr == *"mpimatmul: warning: rank 1: device 'faulty:$rule:cpu"*" 'reference': "* ]]
        (cd .. && is_same)
    done
}

@test "OpenCL search is right, also when a device errs in it" {
    need_numpy
    [ "$("$MPIMATMUL" devices --json | grep -c '"0:0"')" -gt 0 ] || skip "opencl: no device 0:0"
    write_program
    cd here
    program run ../search.py --quiet --device 0:0
    expect_quiet_success
    (cd .. && is_same)
    rm -f ./*.npy
    program run ../search.py --device faulty:garble=3:0:0
    expect_status 0
    [[ $stderr == *"'cpu': "*" wrong "* ]]
    (cd .. && is_same)
}

# steps TEXT...: prints the steps and the memory of values of a program, by --check.
steps() {
    printf '%s\n' 'x = generate((2048, 32), kind="normal", seed=1)' 'y = generate((4096, 32), kind="normal", seed=2)' \
        "$@" > e.py
    program run e.py --check --verbose
    expect_status 0
    sed -n '/^step /,$p' <<< "$output" | sed '1d;/^$/,$d;s/^ *[0-9]*  //;s/  .*//'
    sed -n 's/.*values take at most \([0-9.]* [KMG]iB\) per.*/\1/p' <<< "$output"
}

@test "search is one step without memory for the product, unless another step reads it or it is small" {
    steps 'v, i = topk(normalize(x) @ normalize(y).T, 5)' 'save("v.npy", v)' 'save("i.npy", i)' > found
    grep -qx 'matmul + topk' found
    run ! grep -qx 'matmul' found
    [[ $(tail -n 1 found) == *KiB || $(tail -n 1 found) == 1.[0-9]' MiB' ]] # the product would be 32 MiB
    steps 'p = x @ y.T' 'v, i = topk(p, 5)' 'save("v.npy", v)' 'print(p)' > found
    grep -qx 'matmul' found
    grep -qx 'topk' found
    steps 'v, i = topk(x[0:3, :] @ y.T, 5)' 'save("v.npy", v)' > found
    grep -qx 'topk' found
}

@test "search is one operation in the log and the report" {
    need_numpy
    write_program
    cd here
    program run ../search.py --log log --report report.json --quiet
    expect_quiet_success
    cut -f 6 log | grep -qx 'matmul + topk'
    python << 'END'
import json
assert "matmul + topk" in [o["operation"] for o in json.load(open("report.json"))["operations"]]
END
}
