#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# split and join: shares, shard files, the way back, and untrusted folders.
# shellcheck disable=SC2154 # status, output and stderr are set by bats
load helper

rows_of() {
    for shard in "$@"; do
        head -c 20 "$shard" | od -An -v -t d4 | awk '{ print $4 }'
    done | xargs
}

@test "split writes shards and prints their places, and join puts them together" {
    "$MPIMATMUL" gen A.bin --dims 11x5 --seed 1
    program split A.bin --parts 3 --shard-dir s
    expect_quiet_success
    expect_line "shard  rows  begin  end  file"
    expect_line "    0     4      0    4  s/A_shard_0.bin"
    expect_line "    2     3      8   11  s/A_shard_2.bin"
    expect_only_files A.bin s s/A_shard_0.bin s/A_shard_1.bin s/A_shard_2.bin s/A_shards.json
    [ "$(rows_of s/A_shard_*.bin)" = "4 4 3" ]
    cmp <(tail -c +21 A.bin) <(for i in 0 1 2; do tail -c +21 s/A_shard_$i.bin; done)
    program join A --shard-dir s
    expect_quiet_success
    [ "$output" = "A_combined.bin: 11 x 5" ]
    cmp A.bin A_combined.bin
}

@test "weights give exact shares by the rule of the original files" {
    "$MPIMATMUL" gen A.bin --dims 4096x1 --seed 1
    program split A.bin --weights 0.5,0.25,0.25 --shard-dir s
    expect_quiet_success
    [ "$(rows_of s/A_shard_*.bin)" = "2048 1024 1024" ]
    program split A.bin --weights 50,25,25 --split-rule hundred --shard-dir s
    expect_quiet_success
    [ "$(rows_of s/A_shard_*.bin)" = "2050 1025 1021" ]
    expect_line "    2  1021   3075  4096  s/A_shard_2.bin"
    program join A --shard-dir s -o B.bin
    expect_quiet_success
    cmp A.bin B.bin
}

@test "weights come from a file, and a weight of zero gives a header without rows" {
    "$MPIMATMUL" gen A.bin --dims 6x5 --seed 1
    printf '# shares\n1, 0\n2\n' > weights
    program split A.bin --weights @weights --shard-dir s
    expect_quiet_success
    [ "$(rows_of s/A_shard_*.bin)" = "2 0 4" ]
    [ "$(stat -c %s s/A_shard_1.bin)" -eq 20 ]
    "$MPIMATMUL" join A --shard-dir s -o B.bin
    cmp A.bin B.bin
}

@test "columns, stacks, 16-bit types and more parts than rows are joined byte for byte" {
    for dims in 3x1 7x5 2x3x5 3x2x5x7; do
        for dtype in float32 float16 bfloat16; do
            for axis in rows cols; do
                "$MPIMATMUL" gen A.bin --dims $dims --seed 1 --dtype $dtype
                "$MPIMATMUL" split A.bin --parts 4 --axis $axis --shard-dir s
                "$MPIMATMUL" join A --shard-dir s -o B.bin
                cmp A.bin B.bin || { echo "$dims $dtype $axis"; return 1; }
                rm -r s
            done
        done
    done
}

@test "float64, float16 and whole numbers are joined byte for byte from shards of their own type" {
    need_numpy
    python << 'END'
import numpy as np
a = np.random.default_rng(1).integers(0, 200, (2, 7, 5))
for dtype in ("f8", "f2", "i4", "i8", "u1", "i1", "i2", "u2", "u4", "b1"):
    np.save(f"{dtype}.npy", a.astype(dtype))
np.save("f8.npy", a / 7)
np.save("i8.npy", a + 2**60)
END
    for axis in rows cols; do
        for dtype in f8 f2 i4 i8 u1 i1 i2 u2 u4 b1; do
            # More parts than columns, so some shards are empty.
            "$MPIMATMUL" split $dtype.npy --parts 6 --axis $axis --shard-dir s -q
            program join $dtype --shard-dir s -o back.npy -q
            expect_quiet_success
            python -c "import numpy as np, sys
x, y = np.load(sys.argv[1]).reshape(1, 2, 7, 5), np.load('back.npy')
assert x.dtype == y.dtype and (x == y).all()" $dtype.npy
            rm -r s
        done
    done
    program split f8.npy --parts 2 --shard-dir s
    expect_quiet_success
    expect_line "    1     7      7   14  s/f8_shard_1.npy"
    python -c "import numpy as np
assert np.load('s/f8_shard_1.npy').dtype == np.float64"
    program join f8 --shard-dir s -o f8.bin
    expect_failure 64 "cannot write 'f8.bin' as float64: .bin has no such type"
    program join f8 --shard-dir s
    expect_quiet_success
    [ "$output" = "f8_combined.npy: 2 x 7 x 5" ]
    rm s/f8_shards.json
    program join f8 --shard-dir s -o rows.npy
    expect_quiet_success
    python -c "import numpy as np
assert (np.load('rows.npy') == np.load('f8.npy').reshape(14, 5)).all()"
}

@test "a row shard equals numpy's slice" {
    need_numpy
    "$MPIMATMUL" gen A.bin --dims 7x5 --seed 1
    "$MPIMATMUL" split A.bin --parts 2 --axis cols --shard-dir s
    python << 'END'
import numpy as np
from matrices import read_bin, same_bits
a = read_bin("A.bin")[1][0, 0]
left, right = (read_bin(f"s/A_shard_{i}.bin")[1][0, 0] for i in (0, 1))
assert same_bits(left, np.ascontiguousarray(a[:, :3])) and same_bits(right, np.ascontiguousarray(a[:, 3:]))
END
}

@test "shards without a description are joined by rows" {
    "$MPIMATMUL" gen A.bin --dims 11x5 --seed 1
    "$MPIMATMUL" split A.bin --parts 3 --shard-dir s
    rm s/A_shards.json
    program join A --shard-dir s -o B.bin
    expect_quiet_success
    cmp A.bin B.bin
}

@test "the environment may name the folder, and the command line wins" {
    "$MPIMATMUL" gen A.bin --dims 11x5 --seed 1
    export MPIMATMUL_SHARD_DIR=from_environment
    "$MPIMATMUL" split A.bin --parts 2
    [ -f from_environment/A_shard_1.bin ]
    "$MPIMATMUL" split A.bin --parts 2 --shard-dir given
    [ -f given/A_shard_1.bin ]
    program join A --verbose
    expect_status 0
    grep -q -x -F 'mpimatmul: option --shard-dir is from_environment (MPIMATMUL_SHARD_DIR)' <<< "$stderr"
}

@test "a changed, missing or foreign shard is found" {
    "$MPIMATMUL" gen A.bin --dims 11x5 --seed 1
    "$MPIMATMUL" split A.bin --parts 2 --shard-dir s
    printf '\001' | dd of=s/A_shard_1.bin bs=1 seek=40 conv=notrunc status=none
    program join A --shard-dir s -o B.bin
    expect_status 65
    [[ "$stderr" == *"'s/A_shard_1.bin' has changed"* ]]
    rm s/A_shard_1.bin
    program join A --shard-dir s -o B.bin
    expect_status 66
    program join nothing --shard-dir s -o B.bin
    expect_status 66
    program join A --shard-dir missing -o B.bin
    expect_status 66
    program join ../A --shard-dir s -o B.bin
    expect_failure 64 "'../A' cannot name a set of shards: expected a file name without '/'"
    [ ! -e B.bin ]
}

@test "a folder that is a symbolic link or open to others is refused" {
    "$MPIMATMUL" gen A.bin --dims 11x5 --seed 1
    mkdir real open
    chmod 0777 open
    ln -s real link
    program split A.bin --parts 2 --shard-dir link
    expect_failure 73 "shard folder 'link' is a symbolic link: not used"
    program split A.bin --parts 2 --shard-dir open
    expect_failure 73 "shard folder 'open' can be written to by other users: not used" "chmod go-w 'open'"
    expect_only_files A.bin real open link
    "$MPIMATMUL" split A.bin --parts 2 --shard-dir made -q
    [ "$(stat -c %a made)" = 700 ]
}

@test "the number of parts has to be given, once" {
    "$MPIMATMUL" gen A.bin --dims 11x5 --seed 1
    program split A.bin --shard-dir s
    expect_failure 64 "split: the number of parts is missing" "give --parts N or --weights 0.5,0.25,0.25"
    program split A.bin --parts 3 --weights 1,2 --shard-dir s
    expect_failure 64 "split: 2 weights for 3 parts"
    program split A.bin --weights auto --shard-dir s
    expect_failure 64 "--weights: 'auto' works only with mul, split measures nothing"
    program split A.bin --parts 0 --shard-dir s
    expect_failure 64 "--parts: '0' is not a whole number from 1 to 65536"
    program split A.bin --weights @missing --shard-dir s
    expect_failure 66 "cannot open 'missing': No such file or directory"
    program split missing.bin --parts 2 --shard-dir s
    expect_failure 66 "cannot open 'missing.bin': No such file or directory"
    expect_only_files A.bin
}
