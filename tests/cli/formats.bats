#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Formats: outputs by their ending or --format, inputs by their first bytes, refused files of other
# programs, standard input and output as files.
# shellcheck disable=SC2154 # status, output and stderr are set by bats
load helper

known="expected .bin, .npy, .npz, .safetensors, .csv, .tsv or .mtx"
hint="--format bin, npy, npz, safetensors, csv, tsv or mtx writes under any name"

@test "an output with an unknown ending is refused before any file is written" {
    "$MPIMATMUL" gen A.bin --dims 3x3 --kind identity
    "$MPIMATMUL" split A.bin --parts 2 --shard-dir s -q
    for ending in xls h5 gz; do
        line="cannot write 'out.npy.$ending': unknown ending '.$ending', $known"
        program mul A.bin A.bin -o out.npy.$ending
        expect_failure 64 "$line" "$hint"
        ranks 2 mul A.bin A.bin -o out.npy.$ending
        expect_failure 64 "$line" "$hint"
        program convert A.bin out.npy.$ending
        expect_failure 64 "$line" "$hint"
        program gen out.npy.$ending --dims 3x3
        expect_failure 64 "$line" "$hint"
        program join A --shard-dir s -o out.npy.$ending
        expect_failure 64 "$line" "$hint"
    done
    rm -r s
    expect_only_files A.bin
}

@test "--format accepts any name, a name without an ending is .bin, and endings may be capitals" {
    "$MPIMATMUL" gen A.bin --dims 3x5 --seed 1
    "$MPIMATMUL" gen A.npy --dims 3x5 --seed 1
    "$MPIMATMUL" split A.bin --parts 2 --shard-dir s -q
    "$MPIMATMUL" convert A.npy A.npz
    "$MPIMATMUL" convert A.npy A.safetensors
    "$MPIMATMUL" convert A.npy A.csv
    "$MPIMATMUL" convert A.npy A.tsv
    "$MPIMATMUL" convert A.npy A.mtx
    for format in bin npy npz safetensors csv tsv mtx; do
        program convert A.bin out.xls --format $format
        expect_quiet_success
        cmp out.xls A.$format
        program gen out.$format.part --dims 3x5 --seed 1 --format $format
        expect_quiet_success
        cmp out.$format.part A.$format
        program join A --shard-dir s -o out.2 --format $format -q
        expect_quiet_success
        cmp out.2 A.$format
        rm out.*
    done
    mkdir d.npy
    "$MPIMATMUL" convert A.npy d.npy/none
    cmp d.npy/none A.bin
    "$MPIMATMUL" convert A.bin A2.NPY
    cmp A2.NPY A.npy
    program convert A.bin B.bin --format xls
    expect_failure 64 "--format: unknown format 'xls': expected bin, npy, npz, safetensors, csv, tsv or mtx"
}

@test "without -o the result is .npy when both inputs are, or has the type of --format" {
    "$MPIMATMUL" gen A.npy --dims 3x3 --seed 1
    "$MPIMATMUL" gen B.npy --dims 3x3 --seed 2
    "$MPIMATMUL" gen D.bin --dims 3x3 --seed 2
    program mul A.npy B.npy -q
    expect_quiet_success
    program mul A.npy D.bin -q
    expect_quiet_success
    program mul D.bin D.bin -q --format npy
    expect_quiet_success
    expect_only_files A.npy B.npy D.bin AxB_combined.npy AxD_combined.bin DxD_combined.npy
    [ "$(head -c 6 AxB_combined.npy | tail -c 5)" = NUMPY ]
    [ "$(head -c 6 DxD_combined.npy | tail -c 5)" = NUMPY ]
}

# refused_as NAME WHAT HINT
refused_as() {
    program info "$1"
    expect_failure 65 "'$1' is $2, which is not read yet" "$3" || return 1
    program mul A.bin "$1" -o out.bin
    expect_failure 65 "'$1' is $2, which is not read yet" "$3"
}

@test "files of other programs are refused with the name of their format" {
    need_numpy
    "$MPIMATMUL" gen A.bin --dims 3x3 --kind identity
    python << 'END'
import gzip, bz2, lzma, io, pickle, struct, zipfile
import numpy as np
a = np.eye(3, dtype="f4")
with zipfile.ZipFile("a.zip", "w") as z:
    z.writestr("readme", "text")
open("a.h5", "wb").write(b"\x89HDF\r\n\x1a\n" + bytes(600))
open("a.parquet", "wb").write(b"PAR1" + bytes(600))
open("a.feather", "wb").write(b"ARROW1\0\0" + bytes(600))
open("old.feather", "wb").write(b"FEA1" + bytes(600))
open("a.png", "wb").write(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(600))
open("a.jpg", "wb").write(b"\xff\xd8\xff\xe0\0\x10JFIF\0" + bytes(600))
open("a.onnx", "wb").write(b"\x08\x08\x12\x07pytorch\x1a\x052.1.0" + bytes(600))
open("a.json", "w").write('\n {"a": [1, 2]}')
open("lines.jsonl", "w").write("[1, 2]\n[3, 4]\n")
open("list", "w").write("[[1, 2], [3, 4]]")
open("a.mat", "wb").write(b"MATLAB 5.0 MAT-file" + bytes(600))
open("a.npy.gz", "wb").write(gzip.compress(a.tobytes()))
open("a.npy.bz2", "wb").write(bz2.compress(a.tobytes()))
open("a.npy.xz", "wb").write(lzma.compress(a.tobytes()))
open("a.npy.zst", "wb").write(b"\x28\xb5\x2f\xfd" + bytes(20))
open("a.pickle", "wb").write(pickle.dumps({"w": 1}, protocol=2))
open("a.txt", "w").write("some text\nof two lines\n")
open("r\u00e9sum\u00e9.txt", "w", encoding="utf-8").write("r\u00e9sum\u00e9\n")
END
    py="in Python: numpy.save('a.npy',"
    refused_as a.zip "a zip archive" "unpack it first: unzip 'a.zip'"
    refused_as a.h5 "an HDF5 file" "$py h5py.File('a.h5')['NAME'][...])"
    refused_as a.parquet "a Parquet file" "$py pandas.read_parquet('a.parquet').to_numpy())"
    refused_as a.feather "a Feather (Arrow) file" "$py pandas.read_feather('a.feather').to_numpy())"
    refused_as old.feather "a Feather file" \
        "in Python: numpy.save('old.npy', pandas.read_feather('old.feather').to_numpy())"
    refused_as a.png "a PNG image" "$py numpy.asarray(PIL.Image.open('a.png'), dtype='float32'))"
    refused_as a.jpg "a JPEG image" "$py numpy.asarray(PIL.Image.open('a.jpg'), dtype='float32'))"
    onnx="{t.name: onnx.numpy_helper.to_array(t) for t in onnx.load('a.onnx').graph.initializer}"
    refused_as a.onnx "an ONNX model" "in Python: numpy.savez('a.npz', **$onnx)"
    refused_as a.mat "a MATLAB file" "$py scipy.io.loadmat('a.mat')['NAME'])"
    refused_as a.npy.gz "a gzip file" "unpack it first: gunzip 'a.npy.gz'"
    refused_as a.npy.bz2 "a bzip2 file" "unpack it first: bunzip2 'a.npy.bz2'"
    refused_as a.npy.xz "an xz file" "unpack it first: unxz 'a.npy.xz'"
    refused_as a.npy.zst "a Zstandard file" "unpack it first: unzstd 'a.npy.zst'"
    refused_as a.pickle "a Python pickle" \
        "load it where you trust it and write the array with numpy.save('a.npy', ...)"
    holds="if it holds numbers, in Python: numpy.save("
    json="dtype='float32'))"
    refused_as a.json "a JSON file" "${holds}'a.npy', numpy.array(json.load(open('a.json')), $json"
    refused_as lines.jsonl "a file of JSON lines" \
        "${holds}'lines.npy', numpy.array([json.loads(line) for line in open('lines.jsonl')], $json"
    refused_as list "a JSON file" "${holds}'list.npy', numpy.array(json.load(open('list')), $json"
    refused_as a.txt "a text file" "${holds}'a.npy', numpy.loadtxt('a.txt', dtype='float32'))"
    refused_as résumé.txt "a text file" "${holds}'résumé.npy', numpy.loadtxt('résumé.txt', dtype='float32'))"
    # Names in a folder, a text at the name that the hint proposes, and names with quotes or line
    # breaks.
    mkdir in.to
    cp a.txt in.to/a
    refused_as in.to/a "a text file" "${holds}'in.to/a.npy', numpy.loadtxt('in.to/a', dtype='float32'))"
    cp a.txt b.npy
    refused_as b.npy "a text file" "${holds}'b.new.npy', numpy.loadtxt('b.npy', dtype='float32'))"
    cp a.txt "it's"
    refused_as "it's" "a text file" "${holds}'A.npy', numpy.loadtxt('A', dtype='float32'))"
    long=$(printf 'n%.0s' {1..120})
    cp a.txt "$long"
    refused_as "$long" "a text file" "${holds}'A.npy', numpy.loadtxt('A', dtype='float32'))"
    # Runs the commands of the hints, which must work.
    "$MPIMATMUL" info list 2> said || true
    sed -n 's/.*in Python: /import json, numpy; /p' said | py -
    python <<< 'import numpy; assert (numpy.load("list.npy") == [[1, 2], [3, 4]]).all()'
    [ ! -e out.bin ]
}

@test "the header of a .safetensors file may begin with any white space behind its brace" {
    need_numpy
    python << 'END'
import json, struct
import numpy as np
a = np.arange(6, dtype="f4").reshape(2, 3)
inner = json.dumps({"a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}})[1:]
for name, blank in {"space": " ", "tab": "\t", "lines": "\r\n  ", "line": "\n"}.items():
    header = ("{" + blank + inner).encode()
    open(name + ".safetensors", "wb").write(struct.pack("<Q", len(header)) + header + a.tobytes())
np.save("a.npy", a)
END
    for name in space tab lines line; do
        program diff "$name.safetensors:a" a.npy -q
        expect_quiet_success
    done
}

@test "no .bin matrix is taken for a file of another program" {
    need_numpy
    # Depths of 123 ('{', as at the start of a safetensors header), and texts and magic numbers as
    # elements.
    python << 'END'
import struct
import numpy as np
open("a.bin", "wb").write(struct.pack("<5i", 4, 1, 123, 1, 2) + b"{\"a\":{}}" * 123)
open("b.bin", "wb").write(struct.pack("<3i", 2, 123, 2) + b"GGUFPK\3\4" * 123)
open("c.bin", "wb").write(struct.pack("<5i", -2, 2, 123, 1, 2) + b"PAR1" * 246)
END
    program info --quick a.bin b.bin c.bin
    expect_quiet_success
    [ "$(grep -c '^bin ' <<< "$output")" -eq 3 ]
}

@test "- is standard input and output, for .bin and .npy" {
    "$MPIMATMUL" gen A.bin --dims 31x17 --seed 1 --kind integer
    "$MPIMATMUL" gen B.npy --dims 17x13 --seed 2 --kind integer
    "$MPIMATMUL" mul A.bin B.npy -o C.bin -q
    "$MPIMATMUL" convert C.bin C.npy
    "$MPIMATMUL" gen - --dims 31x17 --seed 1 --kind integer > out
    cmp out A.bin
    "$MPIMATMUL" gen /dev/stdout --dims 31x17 --seed 1 --kind integer | cat > out
    cmp out A.bin
    # shellcheck disable=SC2002 # a pipe is meant
    cat A.bin | "$MPIMATMUL" convert - - --format npy | "$MPIMATMUL" mul /dev/stdin B.npy -o - 2> tables | cat > out
    cmp out C.bin
    grep -q '^-: 31 x 13$' tables
    # shellcheck disable=SC2002
    cat B.npy | "$MPIMATMUL" mul A.bin - -o - --format npy -q > out
    cmp out C.npy
    "$MPIMATMUL" info - < A.bin | grep -q '^bin 1 .*  -$'
    # shellcheck disable=SC2002
    cat C.npy | "$MPIMATMUL" diff - C.bin -q
    # shellcheck disable=SC2002
    cat A.bin | "$MPIMATMUL" split - --parts 3 --shard-dir s -q
    "$MPIMATMUL" join stdin --shard-dir s -o - > out
    cmp out A.bin
}

@test "under mpirun root alone reads and writes -" {
    "$MPIMATMUL" gen A.bin --dims 310x170 --seed 1 --kind integer
    "$MPIMATMUL" gen B.bin --dims 170x130 --seed 2 --kind integer
    "$MPIMATMUL" mul A.bin B.bin -o C.bin -q
    # shellcheck disable=SC2002 # a pipe is meant
    cat B.bin | "${launch[@]}" -n 2 "$MPIMATMUL" mul A.bin - -o - 2> tables > out
    cmp out C.bin
    grep -q '^-: 310 x 130$' tables
}

@test "unusable standard streams are refused" {
    "$MPIMATMUL" gen A.bin --dims 3x3 --seed 1
    program mul - - -o out.bin
    expect_failure 64 "mul: 2 inputs are standard input, which can be read only once"
    program mul A.bin /dev/stdin --c-in - --beta 1
    expect_failure 64 "mul: 2 inputs are standard input, which can be read only once"
    program info A.bin - -
    expect_failure 64 "info: 2 inputs are standard input, which can be read only once"
    program info -
    expect_failure 65 "'-' is not a valid matrix file: it is empty"
    run bash -c '"$MPIMATMUL" gen - --dims 3x3 --seed 1 2>&1 > /dev/full'
    [ "$status" -eq 74 ]
    [ "$output" = "mpimatmul: cannot write to standard output: No space left on device" ]
    TMPDIR=A.bin program gen - --dims 3x3
    expect_failure 74 "cannot create a temporary file in 'A.bin': Not a directory"
    expect_only_files A.bin
}

@test "1-D files are rows, and the refusal tells how to make columns of them" {
    need_numpy
    python << 'END'
import numpy as np
np.save("v.npy", np.arange(64, dtype="f4"))
np.save("M.npy", np.eye(64, dtype="f4"))
END
    program mul M.npy v.npy -o C.npy
    expect_failure 65 "cannot multiply 'M.npy' (64 x 64) by 'v.npy' (1 x 64): inner sizes 64 and 1 differ" \
        "'v.npy' has one dimension and counts as a row; --transpose-b makes it a column"
    program mul v.npy M.npy --transpose-a -o C.npy
    expect_failure 65 "cannot multiply 'v.npy' (1 x 64) by 'M.npy' (64 x 64): inner sizes 1 and 64 differ"
    program mul M.npy v.npy --transpose-b -o C.npy -q
    expect_quiet_success
    program mul v.npy M.npy -o C.npy -q
    expect_quiet_success
}

@test "control characters in names do not reach the terminal" {
    esc=$'\e[31mred\n\xc2\x9b2Jname.bin'
    shown='?[31mred??2Jname.bin'
    "$MPIMATMUL" gen "$esc" --dims 3x3 --kind identity
    program info "$esc"
    expect_quiet_success
    expect_line "$shown, corner of 3 x 3:"
    grep -q -F "  $shown" <<< "$output"
    program mul "$esc" "$esc" -o "$esc.npy"
    expect_status 0
    expect_line "$shown.npy: 3 x 3"
    program verify "$esc" "$esc" "$esc.npy"
    expect_status 0
    expect_line "'$shown.npy' is '$shown' times '$shown': 3 rows checked"
    program plan "$esc" "$esc"
    expect_status 0
    [[ "$output" != *$'\e'* ]]
    program split "$esc" --parts 2 --shard-dir s
    expect_status 0
    grep -q -F "s/?[31mred??2Jname_shard_0.bin" <<< "$output"
    program join "${esc%.bin}" --shard-dir s -o "$esc.2.bin"
    expect_status 0
    expect_line "$shown.2.bin: 3 x 3"
    program mul "$esc" missing.bin
    expect_failure 66 "cannot open 'missing.bin': No such file or directory"
    program convert "$esc" "$esc.xls"
    expect_failure 64 "cannot write '$shown.xls': unknown ending '.xls', $known" "$hint"
}

@test "names may be as long as the file system allows" {
    long=$(printf 'n%.0s' {1..251}).bin  # 255 bytes: no room for .part
    program gen "$long" --dims 3x3 --kind identity
    expect_quiet_success
    program mul "$long" "$long" -o "m${long:1}" --report "${long%.bin}.rep" -q
    expect_quiet_success
    program diff "$long" "m${long:1}" -q
    expect_quiet_success
    program gen "n$long" --dims 3x3
    expect_failure 73 "cannot create 'n$long': File name too long"
    expect_only_files "$long" "m${long:1}" "${long%.bin}.rep"
}
