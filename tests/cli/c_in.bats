#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A C_in with sizes of 1 that repeat: a bias, a column, a number, one matrix for a whole stack. The
# result equals numpy's broadcasting on all ranks, devices and splits, in core and out of core.
# shellcheck disable=SC2154 # status, output and stderr are set by bats
load helper

make_stacks() {
    python << 'END'
import itertools
import numpy as np
from matrices import integers, write_bin
np.save("A.npy", integers(1, 2, 3, 37, 19))
np.save("B.npy", integers(2, 2, 3, 19, 23))
for dims in itertools.product((1, 2), (1, 3), (1, 37), (1, 23)):
    name = "D" + "x".join(map(str, dims))
    np.save(name + ".npy", integers(3, *dims))
write_bin("H.bin", integers(4, 1, 1, 1, 23), tag=-2)
np.save("F.npy", np.asfortranarray(integers(5, 37, 1)))
np.save("v.npy", integers(6, 23))
END
}

# equals_numpy C_IN: C.npy is 2 A B - C_in.
equals_numpy() {
    python "$1" << 'END'
import sys
import numpy as np
from matrices import read_bin
d = np.load(sys.argv[1]) if sys.argv[1].endswith(".npy") else read_bin(sys.argv[1])[1]
a, b, c = (np.load(name).astype("f8") for name in ("A.npy", "B.npy", "C.npy"))
assert np.array_equal(c, 2 * (a @ b) - np.broadcast_to(d, c.shape)), sys.argv[1]
END
}

@test "C_in repeats in all sixteen ways, and may be 16-bit, in Fortran order or 1-D" {
    need_numpy
    make_stacks
    count=0
    for d in D*.npy H.bin F.npy v.npy; do
        program mul A.npy B.npy -o C.npy --alpha 2 --beta -1 --c-in "$d" -q --device cpu
        expect_quiet_success
        equals_numpy "$d"
        count=$((count + 1))
    done
    [ "$count" -eq 19 ]
}

@test "C_in repeats on three ranks, by rows and by columns, with work stealing and other devices" {
    need_numpy
    make_stacks
    for options in "--split rows --tail 0.5" "--split cols --tail 0.5" "--device 0:0 --device-memory 2MiB"; do
        for d in D1x1x1x23.npy D2x1x37x1.npy D1x1x1x1.npy; do
            # shellcheck disable=SC2086 # words
            ranks 3 mul A.npy B.npy -o C.npy --alpha 2 --beta -1 --c-in "$d" -q $options
            expect_status 0
            equals_numpy "$d"
        done
    done
}

@test "C_in repeats in more than one round when memory is short" {
    need_numpy
    python << 'END'
import numpy as np
from matrices import integers
np.save("A.npy", integers(1, 2500, 40))
np.save("B.npy", integers(2, 40, 2500))
np.save("row.npy", integers(3, 1, 2500))
np.save("column.npy", integers(4, 2500, 1))
END
    # A process's own memory differs between machines, so the test searches for the largest limit
    # that is too small for one round.
    for memory in 140MiB 120MiB 100MiB 80MiB 60MiB 40MiB; do
        program plan A.npy B.npy --beta -1 --c-in row.npy --memory $memory --device cpu
        expect_status 0
        ! grep -q -E '^([2-9]|[1-9][0-9]+) rounds' <<< "$output" || break
    done
    grep -q -E '^([2-9]|[1-9][0-9]+) rounds' <<< "$output"
    for split in rows cols; do
        for d in row column; do
            program mul A.npy B.npy -o C.npy --alpha 2 --beta -1 --c-in $d.npy -q --memory "$memory" --split $split \
                --device cpu
            expect_quiet_success
            equals_numpy $d.npy
        done
    done
}

@test "plan counts the C_in that root expands, and C_in sizes that do not repeat are refused" {
    need_numpy
    make_stacks
    # In place, C_in is mapped as a whole. A C_in with repeating sizes is expanded into memory of
    # the node.
    for row in "D2x3x37x23.npy True" "D1x1x1x23.npy False"; do
        read -r name mapped <<< "$row"
        "$MPIMATMUL" plan A.npy B.npy --beta 1 --c-in "$name" --device cpu --json > plan.json
        python "$mapped" << 'END'
import json
import sys
node = json.load(open("plan.json"))["nodes"][0]
mapped = sys.argv[1] == "True"
assert ("C_in" in node["maps"]) == mapped, node
assert node["c_in_bytes"] == 2 * 3 * 37 * 23 * 4, node
assert (node["segment_bytes"] >= node["c_in_bytes"]) != mapped, node
END
    done
    python << 'END'
import numpy as np
np.save("w.npy", np.zeros(22, "f4"))
END
    program mul A.npy B.npy --beta 1 --c-in w.npy
    expect_failure 65 "cannot add 'w.npy' (1 x 22) to a result of 2 x 3 x 37 x 23: shapes differ" \
        "sizes of 1 are broadcast: a bias is 1 x 23, a column 37 x 1"
}

@test "a C that no beta reads gives a warning, also under --quiet, but not with --beta 0" {
    need_numpy
    python << 'END'
import numpy as np
np.save("a.npy", np.ones((2, 3), "f4"))
np.save("b.npy", np.ones((3, 4), "f4"))
np.save("bias.npy", np.ones(4, "f4"))
END
    ranks 2 mul a.npy b.npy -o c.npy --c-in bias.npy --quiet --device cpu
    expect_status 0
    [ "$stderr" = "mpimatmul: warning: 'bias.npy' is ignored: --beta is 0 by default, --beta 1 adds it" ] || {
        show
        return 1
    }
    ranks 2 mul a.npy b.npy -o c.npy --c-in bias.npy --quiet --device cpu --beta 0
    expect_quiet_success
}
