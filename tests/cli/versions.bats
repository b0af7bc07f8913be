#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Files that are replaced or modified while a job reads them. A job computes with one version, or
# reports the change.
# shellcheck disable=SC2154 # status, output and stderr are set by bats

load helper.bash

# Writes c5 and c10: checkpoints of 60 tensors, all 5 with turn 5, and all 10 with turn 10, without
# checksums.
two_checkpoints() {
    python << 'END'
import json, struct
import numpy as np
for turn in 5, 10:
    header = {"__metadata__": {"turn": str(turn)}}
    for i in range(60):
        header[str(i)] = {"dtype": "F32", "shape": [8, 8], "data_offsets": [256 * i, 256 * i + 256]}
    text = json.dumps(header).encode()
    with open(f"c{turn}", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + np.full(60 * 64, turn, "<f4").tobytes())
END
}

# Replaces `$1` by copies of c5 and c10 in turn, until it is killed.
replace_for_ever() {
    while :; do
        cp c10 new && mv new "$1"
        cp c5 new && mv new "$1"
    done
}

@test "a restore, and loads of several tensors, see one version of a file that is replaced meanwhile" {
    need_numpy
    two_checkpoints
    cp c5 c.safetensors
    names=$(printf 'x, %.0s' {1..60})
    printf '%s\n' 'x = zeros((8, 8))' "state, turn = restore(\"c.safetensors\", ($names))" \
        'print(turn, mean(concat(state, -2), axis=None))' > restore.py
    all=$(for i in {0..59}; do printf 'load("c.safetensors:%s"), ' "$i"; done)
    printf '%s\n' "state = ($all)" 'print(mean(concat(state, -2), axis=None))' > load.py
    replace_for_ever c.safetensors 3>&- &
    replacing=$!
    for round in {1..15}; do
        program run restore.py --quiet
        [ "$status" -eq 0 ] && [[ "$output" == "5 5" || "$output" == "10 10" ]] || break
        program run load.py --quiet
        [ "$status" -eq 0 ] && [[ "$output" == "5" || "$output" == "10" ]] || break
    done
    kill $replacing
    wait $replacing || true
    [ "$round" -eq 15 ] && [[ "$output" == "5" || "$output" == "10" ]] || { show; return 1; }
}

@test "a checkpoint with parts of two versions is refused with the reason" {
    need_numpy
    script 'x = generate((4, 8), seed=3)
checkpoint("k.safetensors", (x, (x[0:1], x * 2)), turn=7)'
    program run e.py --quiet
    expect_quiet_success
    cp k.safetensors good
    x='(zeros((4, 8)), (zeros((1, 8)), zeros((4, 8))))'
    script "state, turn = restore(\"k.safetensors\", $x)
print(turn)"
    hint='it was changed in place, or mixes several versions: use another copy'
    python << 'END'
good = bytearray(open("good", "rb").read())
one, other = bytearray(good), bytearray(good)
one[-5] ^= 1
other[good.index(b'"turn":"7"') + 8] = ord("8")
open("one", "wb").write(one)
open("other", "wb").write(other)
END
    for ranks in 1 2; do
        cp one k.safetensors
        ranks $ranks run e.py --quiet
        expect_failure 65 "e.py:1:15: 'k.safetensors' is not what was written: the checksum of '1.1' differs" "$hint"
        cp other k.safetensors
        ranks $ranks run e.py --quiet
        expect_failure 65 "e.py:1:15: 'k.safetensors' is not what was written: its header and its checksums differ" \
            "$hint"
        cp good k.safetensors
        ranks $ranks run e.py --quiet
        [ "$status" -eq 0 ] && [ "$output" = 7 ]
    done
}

@test "checksums are XXH3 of the elements, of all names and of all other texts" {
    need_numpy
    script 'x = generate((4, 8), seed=3)
checkpoint("k.safetensors", (x, x * 2), turn=7)'
    program run e.py --quiet
    expect_quiet_success
    python << 'END'
import ctypes, json, struct
hash3 = ctypes.CDLL("libxxhash.so.0").XXH3_64bits
hash3.restype, hash3.argtypes = ctypes.c_uint64, (ctypes.c_char_p, ctypes.c_size_t)
data = open("k.safetensors", "rb").read()
length = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + length])
def digest(bytes):
    return f"{hash3(bytes, len(bytes)):016x}"
texts, all = header.pop("__metadata__"), b""
for name, tensor in header.items():
    begin, end = tensor["data_offsets"]
    hash = digest(data[8 + length + begin:8 + length + end])
    assert texts.pop("xxh3:" + name) == hash, name
    all += name.encode() + b"\0" + int(hash, 16).to_bytes(8, "little")
assert texts.pop("xxh3") == digest(all + b"turn\0" + b"7\0")
assert texts == {"turn": "7"}
END
}

# The corpus of a training: batches are drawn from it until the end.
@test "a text modified while a training reads it ends the job" {
    for kind in chars bytes; do
        rm -f out
        yes 'to be or not to be' | head -c 40000 > book.txt
        printf '%s\n' "text = tokens(\"book.txt\", kind=\"$kind\")" \
            'for i in loop(100000):' '    x, y = batch(text, 4, 8, seed=1, turn=i)' \
            '    if i == 5:' '        print(i, sum(x, axis=None))' > t.py
        timeout 60 "$MPIMATMUL" run t.py --quiet > out 2> err < /dev/null 3>&- &
        for ((i = 0; i < 200; i++)); do
            [ ! -s out ] || break
            sleep 0.05
        done
        truncate -s 100 book.txt
        code=0
        wait $! || code=$?
        [ $code -eq 65 ] || { cat err; return 1; }
        [ "$(head -1 err)" = "mpimatmul: t.py:3:12: 'book.txt' was written to after it was opened" ] ||
            { cat err; return 1; }
        grep -q -x "  hint: do not change inputs while the job runs" err
    done
}

@test "an input of a program modified during its use is named in a warning" {
    need_numpy
    python << END
import numpy as np
np.save('x.npy', np.ones((64, 64), 'f4'))
END
    script 'save("y.npy", relu(load("x.npy")))'
    timeout 60 "$MPIMATMUL" run e.py --quiet --device faulty:delay=2s:cpu > out 2> err < /dev/null 3>&- &
    for ((i = 0; i < 100; i++)); do
        [ ! -e y.npy.part ] || break
        sleep 0.05
    done
    sleep 0.5
    touch x.npy
    code=0
    wait $! || code=$?
    [ $code -eq 0 ] || { cat err; return 1; }
    grep -x "mpimatmul: warning: 'x.npy' was modified while it was read: the result may mix its old and \
its new contents" err || { cat err; return 1; }
}

@test "loaded values in Python are those of the file at the time of the load" {
    need_numpy
    export PYTHONPATH=$REPO/src/python
    expected="npy ok
after a use ok
saved twice ok
npz ok
safetensors ok
csv ok
bin ok
mtx ok
kept ok
kept by name ok
kept part ok
large ok
65 'large.npy' was written to after it was loaded; load it again, or write new contents to another file and rename that
small, in place ok
state ok
another model's state ok"
    for count in 1 2; do
        rm -rf work$count && mkdir work$count
        (cd work$count && MPIMATMUL_SHARD_DIR=$PWD/shards "${launch[@]}" -n $count "$PYTHON" \
            "$REPO/tests/python_versions.py" > ../out 2> ../err < /dev/null) || { cat err; return 1; }
        diff out <(echo "$expected")
    done
}
