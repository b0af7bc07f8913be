#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154 # status, output and stderr are set by bats
#
# Drivers of two vendors on one machine: PoCL and Mesa's rusticl, with llvmpipe as a device on any
# CPU, without doubles. The loader numbers the platforms, so the test finds devices by their
# platform's name.

load helper

# vendor PLATFORM: its first device, "" without one.
vendor() {
    "$MPIMATMUL" devices --json < /dev/null | py -c '
import json, sys
print(next((d["id"] for d in json.load(sys.stdin)["devices"] if d["platform"] == sys.argv[1]), ""))' "$1"
}

setup_file() {
    local vendors=/etc/OpenCL/vendors
    export OCL_ICD_VENDORS=$BATS_FILE_TMPDIR/icd RUSTICL_ENABLE=llvmpipe XDG_CACHE_HOME=$BATS_FILE_TMPDIR/cache
    mkdir "$OCL_ICD_VENDORS"
    # mesa.icd is clover, which has no device without a card.
    cp $vendors/pocl.icd $vendors/mesa.icd $vendors/rusticl.icd "$OCL_ICD_VENDORS" 2> /dev/null || true
    POCL=$(vendor 'Portable Computing Language')
    RUSTICL=$(vendor rusticl)
    export POCL RUSTICL
    [ -z "$RUSTICL" ] || keep_small_products
}

# CLBlast changes its algorithm for products of about 900^3, which take seconds on llvmpipe. The
# test moves the change to 128^3, in a file as `tune` writes it.
keep_small_products() {
    "$MPIMATMUL" devices --json < /dev/null | py -c '
import ctypes, json, os, sys
device = next(d for d in json.load(sys.stdin)["devices"] if d["platform"] == "rusticl")
digest = ctypes.CDLL("libxxhash.so.0").XXH3_64bits
digest.argtypes, digest.restype = (ctypes.c_char_p, ctypes.c_size_t), ctypes.c_uint64
key = (device["name"] + "\n" + device["vendor"]).encode()
folder = os.environ["XDG_CACHE_HOME"] + "/mpimatmul"
os.makedirs(folder, exist_ok=True)
parameters = {"XGEMM_MIN_INDIRECT_SIZE": 128}
kernel = {"milliseconds": 1.0, "m": 128, "n": 128, "k": 128, "parameters": parameters}
with open(f"{folder}/tuned-{digest(key, len(key)):016x}.json", "w") as file:
    json.dump({"schema": 1, "device": device["name"], "vendor": device["vendor"], "driver": device["driver"],
               "kernels": {"GemmRoutine": kernel}}, file)'
}

need_vendors() {
    [ -n "$POCL" ] || skip "opencl: no PoCL"
    [ -n "$RUSTICL" ] || skip "opencl: no rusticl (Debian's mesa-opencl-icd)"
}

# three COMMAND...: a rank for each vendor's device, and one for the CPU.
three() {
    export MPIMATMUL_PROGRESS=none
    run --separate-stderr timeout 200 "${launch[@]}" -n 1 "$MPIMATMUL" "$@" --device "$POCL" \
        : -n 1 "$MPIMATMUL" "$@" --device "$RUSTICL" : -n 1 "$MPIMATMUL" "$@" --device cpu < /dev/null
}

# operands TYPE ROWS INNER COLS
operands() {
    "$MPIMATMUL" gen A.npy --dims "$2x$3" --kind integer --seed 5 --dtype "$1" --quiet
    "$MPIMATMUL" gen B.npy --dims "$3x$4" --kind integer --seed 6 --dtype "$1" --quiet
}

# is_product TYPE: C.npy equals the product element by element.
is_product() {
    python "$1" << 'END'
import numpy as np, sys
a, b, c = (np.load(name + ".npy") for name in "ABC")
assert c.dtype == sys.argv[1] and np.array_equal(c, a.astype(float) @ b.astype(float))
END
}

# devices_of_ranks: the devices in the report.
devices_of_ranks() {
    py -c 'import json; print(*(r["device"] for r in json.load(open("r.json"))["ranks"]))'
}

@test "devices names drivers with their versions, and auto chooses neither" {
    need_vendors
    program devices
    expect_quiet_success
    show
    grep -q -E "^[^ ]+ +$POCL +cpu .* nobody +PoCL [0-9.]+" <<< "$output"
    grep -q -E "^[^ ]+ +$RUSTICL +cpu +llvmpipe .* nobody +rusticl [0-9.]+" <<< "$output"
    grep -q -E " $RUSTICL is unused: a CPU: OpenBLAS is faster; used only when named$" <<< "$output"
    [ "$(wc -L <<< "$output")" -le 120 ]
}

@test "drivers without a device give no warning" {
    need_vendors
    mkdir "$BATS_TEST_TMPDIR/mesa"
    cp "$OCL_ICD_VENDORS/rusticl.icd" "$OCL_ICD_VENDORS/mesa.icd" "$BATS_TEST_TMPDIR/mesa"
    operands float32 3 5 7
    for command in devices "mul A.npy B.npy -o C.npy --progress none"; do
        # shellcheck disable=SC2086 # words
        run --separate-stderr env -u RUSTICL_ENABLE OCL_ICD_VENDORS="$BATS_TEST_TMPDIR/mesa" \
            "$MPIMATMUL" $command < /dev/null
        expect_quiet_success
    done
    is_product float32
}

@test "products on rusticl cut into tiles are equal, element by element" {
    need_vendors
    for dtype in float32 float16 bfloat16; do
        "$MPIMATMUL" gen A.bin --dims 201x203 --kind integer --seed 5 --dtype $dtype --quiet
        "$MPIMATMUL" gen B.bin --dims 203x157 --kind integer --seed 6 --dtype $dtype --quiet
        "$MPIMATMUL" mul A.bin B.bin -o expected.bin --device reference --dtype float32 > /dev/null
        for limit in 300K 1G; do
            program mul A.bin B.bin -o C.bin --dtype float32 --progress none --weights equal --no-fallback \
                --device "$RUSTICL" --device-memory $limit
            expect_quiet_success
            cmp expected.bin C.bin
        done
    done
}

@test "a product on two vendors' devices and the CPU is equal, element by element" {
    need_vendors
    operands float32 301 203 257
    three mul A.npy B.npy -o C.npy --weights equal --no-fallback --report r.json
    expect_quiet_success
    [ "$(devices_of_ranks)" = "$POCL $RUSTICL cpu" ]
    is_product float32
}

@test "in float64 the device without doubles is replaced by name, and the product is equal" {
    need_vendors
    operands float64 301 203 257
    three mul A.npy B.npy -o C.npy --weights equal --report r.json
    expect_status 0
    show
    [ "$(grep -c . <<< "$stderr")" -eq 1 ]
    is_product float64
}

@test "a program on two vendors' devices and the CPU gives numpy's results" {
    need_vendors
    cat > program.py << 'END'
a, b = load("A.npy"), load("B.npy")
c = relu(a @ b)
save("C.npy", c)
save("S.npy", softmax(c * 0.01))
save("D.npy", maximum(c.T @ a, 3))
save("M.npy", sum(c, axis=-2))
END
    for dtype in float32 float64; do
        operands $dtype 120 90 70
        three run program.py
        expect_status 0
        python $dtype << 'END'
import numpy as np, sys
a, b = (np.load(name + ".npy").astype(float) for name in "AB")
c = np.maximum(a @ b, 0)
found = {name: np.load(name + ".npy") for name in "CSDM"}
assert all(x.dtype == sys.argv[1] for x in found.values())
assert np.array_equal(found["C"], c)
assert np.array_equal(found["D"], np.maximum(c.T @ a, 3))
assert np.array_equal(found["M"].ravel(), c.sum(axis=0))
e = np.exp(0.01 * (c - c.max(axis=-1, keepdims=True)))
assert np.allclose(found["S"], e / e.sum(axis=-1, keepdims=True), rtol=1e-5, atol=1e-9)
END
    done
}
