#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# gen: layout of the files, reproducible elements, distributions.
# shellcheck disable=SC2154 # status, output and stderr are set by bats
load helper

@test "a version 1 file has the 20-byte header and the exact size" {
    program gen A.bin --dims 3x5 --seed 1
    expect_quiet_success
    [ "$(stat -c %s A.bin)" -eq $((20 + 4 * 15)) ]
    [ "$(head -c 20 A.bin | od -An -v -t d4 | xargs)" = "4 1 1 3 5" ]
    expect_only_files A.bin
}

@test "2-D, 3-D and 4-D dims stand at their places in the header" {
    "$MPIMATMUL" gen A.bin --dims 2x3x5 --seed 1
    [ "$(head -c 20 A.bin | od -An -v -t d4 | xargs)" = "4 1 2 3 5" ]
    "$MPIMATMUL" gen A.bin --dims 7x2x3x5 --seed 1
    [ "$(head -c 20 A.bin | od -An -v -t d4 | xargs)" = "4 7 2 3 5" ]
    [ "$(stat -c %s A.bin)" -eq $((20 + 4 * 7 * 2 * 3 * 5)) ]
}

@test "16-bit types and --bin-version 2 have the dtype tag" {
    for row in "float32 -1 4" "float16 -2 2" "bfloat16 -3 2"; do
        read -r dtype tag bytes <<< "$row"
        program gen A.bin --dims 3x5 --seed 1 --dtype "$dtype" --bin-version 2
        expect_quiet_success
        [ "$(head -c 20 A.bin | od -An -v -t d4 | xargs)" = "$tag 1 1 3 5" ]
        [ "$(stat -c %s A.bin)" -eq $((20 + bytes * 15)) ]
    done
    "$MPIMATMUL" gen B.bin --dims 3x5 --seed 1 --dtype bf16
    cmp A.bin B.bin
}

@test "both versions hold the same elements" {
    "$MPIMATMUL" gen A.bin --dims 2x33x65 --seed 9
    "$MPIMATMUL" gen B.bin --dims 2x33x65 --seed 9 --bin-version 2
    cmp <(tail -c +21 A.bin) <(tail -c +21 B.bin)
}

@test "a seed gives the same bytes again, another seed gives others" {
    for kind in uniform normal integer; do
        "$MPIMATMUL" gen A.bin --dims 31x17 --seed 7 --kind $kind
        "$MPIMATMUL" gen B.bin --dims 31x17 --seed 7 --kind $kind
        "$MPIMATMUL" gen C.bin --dims 31x17 --seed 8 --kind $kind
        cmp A.bin B.bin
        run cmp -s A.bin C.bin
        [ "$status" -eq 1 ]
    done
}

@test "without --seed the seed is printed on stderr, and gives the same file" {
    program gen A.bin --dims 31x17
    expect_status 0
    [ -z "$output" ]
    [[ "$stderr" =~ ^mpimatmul:\ seed\ ([0-9]+)$ ]]
    "$MPIMATMUL" gen B.bin --dims 31x17 --seed "${BASH_REMATCH[1]}"
    cmp A.bin B.bin
    program gen C.bin --dims 31x17 --quiet
    expect_quiet_success
    run cmp -s A.bin C.bin
    [ "$status" -eq 1 ]
}

@test "elements depend on the place in the stack, not on the shape or on the size of the written pieces" {
    "$MPIMATMUL" gen A.bin --dims 1x600000 --seed 3  # more than two of the pieces
    "$MPIMATMUL" gen B.bin --dims 4x300x500 --seed 3
    cmp <(tail -c +21 A.bin) <(tail -c +21 B.bin)
}

@test "each kind has the distribution of its name" {
    need_numpy
    for kind in uniform normal integer identity; do
        "$MPIMATMUL" gen $kind.bin --dims 2x200x300 --seed 5 --kind $kind
    done
    python << 'END'
import numpy as np
from matrices import read_bin
u, z, i, e = (read_bin(k + ".bin")[1][0].astype("f8") for k in ("uniform", "normal", "integer", "identity"))
assert u.min() >= -1 and u.max() < 1 and abs(u.mean()) < 0.01 and abs(u.var() - 1 / 3) < 0.01
assert np.array_equal(u * 2**23, np.round(u * 2**23))
assert abs(z.mean()) < 0.02 and abs(z.var() - 1) < 0.03 and 3.5 < abs(z).max() < 7
assert set(np.unique(i)) == set(range(-4, 5))
assert all(abs((i == v).mean() - 1 / 9) < 0.01 for v in range(-4, 5))
assert np.array_equal(e, np.stack([np.eye(200, 300)] * 2))
END
}

@test "the ending .npy selects the format" {
    need_numpy
    "$MPIMATMUL" gen A.npy --dims 2x3x5 --seed 4 --kind integer --dtype float16
    "$MPIMATMUL" gen A.bin --dims 2x3x5 --seed 4 --kind integer
    python << 'END'
import numpy as np
from matrices import read_bin
a = np.load("A.npy")
assert a.dtype == np.float16 and a.shape == (2, 3, 5), (a.dtype, a.shape)
assert np.array_equal(a.reshape(1, 2, 3, 5), read_bin("A.bin")[1])
END
}

@test "under mpirun one process writes" {
    ranks 3 gen A.bin --dims 31x17 --seed 7
    expect_quiet_success
    "$MPIMATMUL" gen B.bin --dims 31x17 --seed 7
    cmp A.bin B.bin
    expect_only_files A.bin B.bin
}

@test "impossible outputs are refused with the reason" {
    program gen no/A.bin --dims 3x5
    expect_failure 73 "cannot create 'no/A.bin': No such file or directory"
    mkdir folder
    program gen folder --dims 3x5
    expect_failure 73 "cannot create 'folder': it is a folder"
    program gen A.npy --dims 3x5 --bin-version 1
    expect_failure 64 "cannot write 'A.npy' as version 1: only .bin files have versions"
    program gen A.bin --dims 3x5 --bin-version 1 --dtype float16
    expect_failure 64 "cannot write 'A.bin' as version 1: it holds float32, not float16" \
        "give --bin-version 2, or leave it out"
    expect_only_files folder
}

@test "identity needs no seed" {
    program gen A.bin --dims 3x5 --kind identity
    expect_quiet_success
}

@test "a matrix too large for any disk ends with 74 and leaves no file" {
    program gen A.bin --dims 2000000000x1000000
    expect_status 74
    [ "${#stderr_lines[@]}" -eq 1 ]
    [[ "$stderr" == "mpimatmul: cannot write 'A.bin': "*"8000000000000020 bytes"* ]]
    expect_only_files
    program gen A.bin --dims 2147483647x2147483647
    expect_status 65
    [ "${#stderr_lines[@]}" -eq 1 ]
    expect_only_files
}

# The reader of the pipe is slow.
@test "a long command reports its progress and its duration" {
    local style seen
    for style in plain bar none; do
        "$MPIMATMUL" gen - --dims 3000x1000 --seed 1 --progress $style 2> err | { sleep 3.2; cat > /dev/null; }
        seen=$(tr '\r' '\n' < err | grep -cE 'generating, [0-9] s so far' || true)
        case $style in
            plain) [ "$seen" -eq 1 ] && [[ "$(< err)" =~ ^mpimatmul:\ generating,\ [23]\ s\ so\ far$ ]] ;;
            bar) [ "$seen" -ge 3 ] && [ "$(tail -c 4 err)" = $'\r\033[K' ] ;;
            none) [ ! -s err ] ;;
        esac || { echo "$style: $(cat -v err)"; return 1; }
    done
    "$MPIMATMUL" gen - --dims 3000x1000 --seed 1 --progress plain --quiet 2> err | { sleep 2.8; cat > /dev/null; }
    [ ! -s err ]
}

@test "kinds without a seed, and the kind of numbers from 0 to 1, which are half of uniform's plus a half" {
    need_numpy
    for kind in zeros ones identity; do
        program gen $kind.npy --dims 3x2 --kind $kind
        expect_quiet_success
    done
    "$MPIMATMUL" gen u.npy --dims 500x33 --seed 7
    "$MPIMATMUL" gen r.npy --dims 500x33 --seed 7 --kind rand
    python << 'END'
import numpy as np
assert not np.load("zeros.npy").any() and (np.load("ones.npy") == 1).all()
assert np.array_equal(np.load("identity.npy"), np.eye(3, 2))
r = np.load("r.npy")
assert np.array_equal(r, np.load("u.npy") / 2 + 0.5) and 0 <= r.min() < 0.01 and 0.99 < r.max() < 1
END
    script 'assert_close(rand((500, 33), seed=7), load("r.npy"), 0)
print(rand((2, 3)))'
    ranks 2 run e.py --quiet
    expect_status 0
}
