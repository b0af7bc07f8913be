#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Numbers as text: tables (.csv, .tsv) that numpy has written, and Matrix Market files made by hand;
# written tables compared with numpy; refusals with their place.
# shellcheck disable=SC2154 # status, output and stderr are set by bats
load helper

# skipped FILE: the notice about a skipped header.
skipped() {
    echo "mpimatmul: notice: the first line of '$1' is a header and was skipped"
}

@test "tables of numpy.savetxt are read" {
    need_numpy
    python << 'END'
import numpy as np
a = np.random.default_rng(3).standard_normal((31, 17)) * 10.0 ** np.arange(-200, 140, 20)
a[3, 4], a[5, 6], a[7, 8] = np.nan, np.inf, -np.inf
np.save("a.npy", a)
np.savetxt("comma.csv", a, delimiter=",")
np.savetxt("tab.tsv", a, delimiter="\t", fmt="%.17g")
np.savetxt("semicolon.csv", a, delimiter=";", fmt="%.17g")
np.savetxt("blanks.txt", a, fmt="%26.17g")
np.savetxt("comment.csv", a, delimiter=",", header=",".join("abcdefghijklmnopq"))
np.savetxt("header.csv", a, delimiter=",", header=",".join("abcdefghijklmnopq"), comments="")
np.savetxt("quoted.csv", a, delimiter=",", header=",".join('"%s, 1"' % c for c in "abcdefghijklmnopq"), comments="",
           newline="\r\n", fmt='"%.17g"')
open("mark.csv", "wb").write(b"\xef\xbb\xbf" + open("header.csv", "rb").read()[:-1])
END
    for file in comma.csv tab.tsv semicolon.csv blanks.txt comment.csv header.csv quoted.csv mark.csv; do
        program convert $file out.npy
        expect_status 0
        case $file in
            header.csv | quoted.csv | mark.csv) [ "$stderr" = "$(skipped $file)" ] ;;
            *) [ -z "$stderr" ] ;;
        esac
        cmp out.npy a.npy
        # shellcheck disable=SC2002 # a pipe is meant
        cat $file | "$MPIMATMUL" convert - - --format npy > out.npy
        cmp out.npy a.npy
    done
    program info --quick comma.csv tab.tsv
    expect_quiet_success
    expect_line "csv     31 x 17  float64  $(stat -c %s comma.csv)  comma.csv"
    expect_line "tsv     31 x 17  float64  $(stat -c %s tab.tsv)  tab.tsv"
}

@test "numpy reads written tables, and they are the same when read again" {
    need_numpy
    python << 'END'
import numpy as np
random = np.random.default_rng(4)
np.save("f8.npy", random.standard_normal((13, 7)) * 10.0 ** np.arange(-210, 210, 60))
np.save("f4.npy", (random.standard_normal((13, 7)) * 10.0 ** np.arange(-35, 35, 10)).astype("f4"))
np.save("f2.npy", random.standard_normal((13, 7)).astype("f2"))
np.save("i8.npy", random.integers(-2**53, 2**53, (13, 7)))
np.save("u1.npy", random.integers(0, 256, (1, 7)).astype("u1"))
np.save("b1.npy", random.integers(0, 2, (13, 1)).astype("?"))
END
    for kind in f8 f4 f2 i8 u1 b1; do
        for ending in csv tsv; do
            program convert $kind.npy $kind.$ending
            expect_quiet_success
            type=$(py -c "import numpy; print(numpy.load('$kind.npy').dtype)")
            [ $kind = f8 ] || [ $kind = f4 ] || [ $kind = f2 ] || type=float64
            program convert $kind.$ending again.npy --dtype "$type"
            expect_status 0
            program diff $kind.npy again.npy -q
            expect_quiet_success
            python $kind $ending << 'END'
import sys
import numpy as np
kind, ending = sys.argv[1:]
a = np.load(kind + ".npy")
found = np.loadtxt(kind + "." + ending, delimiter="," if ending == "csv" else "\t", ndmin=2)
assert found.shape == a.shape and (found.astype(a.dtype) == a).all(), (found, a)
END
        done
    done
    [ "$(head -n 1 u1.csv | tr -d '0-9')" = ",,,,,," ]
    program convert f8.csv half.csv --dtype float16
    expect_status 0
    "$MPIMATMUL" convert f4.npy - --format csv > out.csv
    cmp out.csv f4.csv
}

@test "tables are operands of mul and run on one rank and on two, and the result has their format" {
    "$MPIMATMUL" gen A.npy --dims 31x17 --kind integer --seed 1
    "$MPIMATMUL" gen B.npy --dims 17x13 --kind integer --seed 2
    "$MPIMATMUL" convert A.npy A.csv
    "$MPIMATMUL" convert B.npy B.csv
    "$MPIMATMUL" mul A.npy B.npy -o C.npy -q
    "$MPIMATMUL" convert C.npy C.csv
    program mul A.csv B.csv -q
    expect_quiet_success
    cmp AxB_combined.csv C.csv
    rm AxB_combined.csv
    ranks 2 mul A.csv B.csv -q
    expect_quiet_success
    cmp AxB_combined.csv C.csv
    program mul A.csv B.npy -o out.tsv
    expect_status 0
    [[ "$stderr" == *"notice: 'A.csv' is float64 and is read as float32"* ]]
    tr '\t' , < out.tsv | cmp - C.csv
    program add C.csv C.npy
    expect_status 0
    "$MPIMATMUL" add C.npy C.npy -o two.npy -q
    program diff C_add_C.csv two.npy -q
    expect_quiet_success
    echo 'save("r.csv", load("A.csv") @ load("B.csv"))' > a.py
    program run a.py -q
    expect_quiet_success
    cmp r.csv C.csv
    program mul A.csv B.csv -o out.bin
    expect_failure 64 "cannot write 'out.bin' as float64: .bin has no such type" \
        "all other formats have it; --dtype float32 computes in float32"
}

# refused TEXT LINE [HINT]: of the file t.csv with this text.
refused() {
    printf '%b' "$1" > t.csv
    program info t.csv
    expect_failure 65 "${@:2}" || return 1
    # shellcheck disable=SC2002 # a pipe is meant
    run bash -c 'cat t.csv | "$MPIMATMUL" info -'
    expect_status 65
}

@test "text that is not a number is refused with its line and column" {
    first="a first line is a header if each cell begins with a letter or is text in quotes; any other: tail -n +2"
    missing="--missing nan reads empty cells, NA and N/A as NaN"
    refused 'a,b\n1,2\n3,x\n' "line 3 of 't.csv': column 2 is 'x', expected a number"
    refused 'a,b\n\n# c\n1,2\n"3 4",5\n' "line 5 of 't.csv': column 1 is '3 4', expected a number"
    refused '1,2\n3,\n' "line 2 of 't.csv': column 2 is empty, expected a number" "$missing"
    refused '1,2,\n' "line 1 of 't.csv': column 3 is empty, expected a number" "$missing"
    refused '1,b\n2,3\n' "line 1 of 't.csv': column 2 is 'b', expected a number" "$first"
    refused 'a,2\n2,3\n' "line 1 of 't.csv': column 1 is 'a', expected a number" "$first"
    refused '1,2\n3\n' "line 2 of 't.csv' has 1 column, expected 2 as in line 1"
    refused 'a,b\n1,2,3\n' "line 2 of 't.csv' has 3 columns, expected 2 as in line 1"
    refused '1 2\n3 4 5\n' "line 2 of 't.csv' has 3 columns, expected 2 as in line 1"
    refused '1;2\n3;4,5\n' "line 2 of 't.csv': column 2 is '4,5', expected a number" \
        "numbers have a decimal comma there, expected a point: tr , ."
    refused '0x10,1_000\n1,2\n' "line 1 of 't.csv': column 1 is '0x10', expected a number" "$first"
    refused '1,1_000\n1,2\n' "line 1 of 't.csv': column 2 is '1_000', expected a number" "$first"
    refused '1 000,2 000\n1,2\n' "line 1 of 't.csv': column 1 is '1 000', expected a number" "$first"
    refused '"1 000","2 000"\n1,2\n' "line 1 of 't.csv': column 1 is '1 000', expected a number" "$first"
    refused '\xe2\x88\x921,2\n1,2\n' "line 1 of 't.csv': column 1 is '−1', expected a number" "$first"
    refused ',a\n1,2\n' "line 1 of 't.csv': column 1 is empty, expected a number" "$missing"
    refused 'a,\n1,2\n' "line 1 of 't.csv': column 2 is empty, expected a number" "$missing"
    refused 'a,"2 b",3c\n1,2,3\n' "line 1 of 't.csv': column 3 is '3c', expected a number" "$first"
    refused '1,2\n#DIV/0!,3\n' "line 2 of 't.csv': column 1 is '#DIV/0!', expected a number"
    refused 'a,b\nkg,m\n1,2\n' "line 2 of 't.csv': column 1 is 'kg', expected a number" \
        "names take one line and no column: tail -n +2, or cut -d ',' -f 2-"
    refused '1,2\n3,0x10\n' "line 2 of 't.csv': column 2 is '0x10', expected a number"
    refused "1,2\n3,$(printf 'n%.0s' {1..99})\n" \
        "line 2 of 't.csv': column 2 is '$(printf 'n%.0s' {1..37})...', expected a number"
    refused 'a,b\n' "'t.csv' holds no numbers: its only line is a header"
    "$MPIMATMUL" gen A.npy --dims 2x3x4
    program convert A.npy out.csv
    expect_failure 65 "cannot write 'out.csv': text holds one matrix, not 2 x 3 x 4"
    program gen out.csv --dims 3x3 --seed 1
    expect_quiet_success
    program convert out.csv out.tsv --bin-version 2
    expect_failure 64 "cannot write 'out.tsv' as version 2: only .bin files have versions"
    expect_only_files A.npy out.csv t.csv
}

@test "numbers in every form do not count as a header: beyond float64, with D, nan and inf" {
    need_numpy
    printf '1e400,-1e400\n1e-400,-1D-400\n1d5,-2.5D+03\nnan,-inf\n+Infinity,NaN\n' > t.csv
    printf 'nan,inf\n1,2\n' > words.csv
    printf '%%%%MatrixMarket matrix array real general\n3 1\n1e400\n-1d-400\n2.5D2\n' > t.mtx
    printf '#REF! is a comment\n1,2\n' > comment.csv
    for file in t.csv words.csv t.mtx comment.csv; do
        program convert $file $file.npy
        expect_quiet_success
    done
    python << 'END'
import numpy as np
nan, inf = np.nan, np.inf
def expect(name, rows):
    found = np.load(name + ".npy")
    np.testing.assert_array_equal(found, np.array(rows))
    assert (np.signbit(found) == np.signbit(np.array(rows))).all(), found
expect("t.csv", [[inf, -inf], [0., -0.], [1e5, -2500], [nan, -inf], [inf, nan]])
expect("words.csv", [[nan, inf], [1, 2]])
expect("t.mtx", [[inf], [0.], [250]])  # entries are added to 0, and 0 + -0 is 0
expect("comment.csv", [[1, 2]])
END
}

@test "a skipped header is named by every command, and by info" {
    need_numpy
    printf 'a,"1 b"\n1,2\n3,4\n' > h.csv
    printf '1,2\n3,4\n' > n.csv
    for command in "mul h.csv n.csv -o o.npy" "add n.csv h.csv -o o.npy" "convert h.csv o.npy" "diff n.csv h.csv" \
        "split h.csv --parts 2 --shard-dir shards" "plan h.csv n.csv"; do
        # shellcheck disable=SC2086 # words are meant
        program $command
        expect_status 0
        [ "$(grep -v float64 <<< "$stderr")" = "$(skipped h.csv)" ]
    done
    echo 'for i in loop(2):
    print(sum(load("h.csv") * i, axis=None))
save("o.npy", load("h.csv"))' > a.py
    ranks 2 run a.py
    expect_status 0
    [ "${stderr_lines[-1]}" = "$(skipped h.csv)" ]
    program run a.py -q
    expect_status 0
    [ -z "$stderr" ]
    program info --quick h.csv n.csv
    expect_line "csv header  2 x 2  float64     16  h.csv"
    expect_line "csv         2 x 2  float64      8  n.csv"
    [[ "$("$MPIMATMUL" info --json h.csv)" == *'"header": true'* ]]
    [[ "$("$MPIMATMUL" info --json n.csv)" == *'"header": false'* ]]
}

@test "a table too large for the memory is refused" {
    "$MPIMATMUL" gen A.csv --dims 30x30 --seed 1
    mkdir small
    unshare --mount true 2> /dev/null || skip "namespaces are not permitted"
    # shellcheck disable=SC2016 # expanded there
    run --separate-stderr unshare --mount bash -c 'mount -t tmpfs -o size=4k none small &&
        TMPDIR=small "$MPIMATMUL" info A.csv'
    expect_failure 74 "cannot store the elements of 'A.csv' in 'small': No space left on device" \
        "set TMPDIR to store them in another folder"
}

@test "a table takes no more memory than its buffers" {
    need_plain "the sanitizer's own memory counts"
    "$MPIMATMUL" gen A.npy --dims 3000x1000 --seed 1
    "$MPIMATMUL" convert A.npy A.csv
    # 24 MB of elements, 33 MB of text.
    run "$PYTHON" -c 'import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
sys.exit(f"{peak} KiB" if peak > 32 << 10 else 0)' "$MPIMATMUL" convert A.csv out.bin --dtype float32
    expect_status 0
}

@test "Matrix Market files are read by the format's description" {
    need_numpy
    python << 'END'
import numpy as np
random = np.random.default_rng(5)
def store(name, kind, sizes, lines):
    with open(name + ".mtx", "w") as file:
        print("%%MatrixMarket matrix " + kind, "% a comment", "", *[sizes], *lines, sep="\n", file=file)
def triangle(n, below):
    return [(i, j) for j in range(n) for i in range(j + below, n)]
a = random.standard_normal((13, 7))
a[3, 2], a[4, 1] = np.nan, -np.inf
whole = random.integers(-9, 10, (7, 7))
sides = [whole + 3 * whole.T, whole - whole.T]
store("array", "array real general", "13 7", [repr(float(x)) for x in a.T.flat])
np.save("array.npy", a)
places = [(i, j) for i in range(13) for j in range(7) if (i + j) % 3 == 0]
part = np.where(np.add.outer(np.arange(13), np.arange(7)) % 3 == 0, a, 0)
random.shuffle(places)
store("coordinate", "COORDINATE Real General", f"13 7 {len(places)}",
      [f"{i + 1}  {j + 1}\t{float(a[i, j])!r} " for i, j in places])
np.save("coordinate.npy", part)
store("pattern", "coordinate pattern general", f"13 7 {len(places)}", [f"{i + 1} {j + 1}" for i, j in places])
np.save("pattern.npy", np.add.outer(np.arange(13), np.arange(7)) % 3 == 0)
store("twice", "coordinate integer general", "2 3 3", ["1 2 5", "2 3 7", "1 2 -3"])
np.save("twice.npy", np.array([[0, 2, 0], [0, 0, 7]]))
for name, below in ("symmetric", 0), ("skew-symmetric", 1):
    s = whole + whole.T if below == 0 else whole - whole.T
    lines = [(i, j) for i, j in triangle(7, below)]
    store(name + ".array", "array integer " + name, "7 7", [s[i, j] for i, j in lines])
    store(name, "coordinate real " + name, f"7 7 {len(lines)}", [f"{i + 1} {j + 1} {s[i, j]}" for i, j in lines])
    np.save(name + ".array.npy", s)
    np.save(name + ".npy", s.astype("f8"))
store("hermitian", "coordinate real hermitian", "2 2 2", ["1 1 1.5", "2 1 -2"])
np.save("hermitian.npy", np.array([[1.5, -2], [-2, 0]]))
store("unsigned", "array unsigned-integer general", "1 2", [3, 4])
np.save("unsigned.npy", np.array([[3, 4]]))
END
    for name in array hermitian unsigned coordinate pattern twice symmetric symmetric.array skew-symmetric \
        skew-symmetric.array; do
        program convert $name.mtx out.npy
        expect_quiet_success
        cmp out.npy $name.npy
        # shellcheck disable=SC2002 # a pipe is meant
        cat $name.mtx | "$MPIMATMUL" convert - - --format npy > out.npy
        cmp out.npy $name.npy
        program convert $name.npy again.mtx
        expect_quiet_success
        program diff again.mtx $name.npy -q
        expect_quiet_success
    done
    "$MPIMATMUL" convert twice.npy twice2.mtx
    [ "$(cat twice2.mtx)" = "%%MatrixMarket matrix array integer general"$'\n2 3\n0\n0\n2\n0\n0\n7' ]
    "$MPIMATMUL" mul array.mtx symmetric.mtx -o C.mtx -q
    "$MPIMATMUL" mul array.npy symmetric.npy -o C.npy -q
    program diff C.mtx C.npy -q
    expect_quiet_success
}

# mtx_refused TEXT LINE [HINT]: of a file m.mtx with this first line, behind %%MatrixMarket matrix.
mtx_refused() {
    printf '%b' "%%MatrixMarket matrix $1" > m.mtx
    program info m.mtx
    expect_failure 65 "${@:2}"
}

@test "invalid Matrix Market files are refused" {
    complex="'m.mtx' holds complex numbers, which are not read"
    parts="save the real and the imaginary part as two matrices: x.real and x.imag"
    mtx_refused 'coordinate complex general\n1 1 1\n1 1 1 0\n' "$complex" "$parts"
    mtx_refused 'coordinate complex hermitian\n1 1 1\n1 1 1 0\n' "$complex" "$parts"
    mtx_refused 'band real general\n1 1 1\n' "line 1 of 'm.mtx': expected coordinate or array, found 'band'"
    mtx_refused 'array text general\n' "line 1 of 'm.mtx': expected real, integer or pattern, found 'text'"
    mtx_refused 'array real\n' "line 1 of 'm.mtx': expected general, symmetric or skew-symmetric"
    mtx_refused 'array pattern general\n1 1\n' \
        "'m.mtx' is not a valid .mtx file: a pattern must be general or symmetric, and in coordinates"
    mtx_refused 'array real general\n% c\n' "line 3 of 'm.mtx': expected sizes"
    mtx_refused 'array real general\n2\n' "line 2 of 'm.mtx': expected a number of columns"
    mtx_refused 'array real general\n0 2\n' "line 2 of 'm.mtx': expected a number of rows, found '0'"
    mtx_refused 'array real general\n2 2 4\n' "line 2 of 'm.mtx': expected the end of the line, found '4'"
    mtx_refused 'array real symmetric\n2 3\n' "line 2 of 'm.mtx': a matrix of 2 x 3 is not symmetric"
    mtx_refused 'array real general\n1 2\n1\n' "'m.mtx' ends after 1 entries, expected 2"
    mtx_refused 'array real general\n1 2\n1\n2\n\n3\n' "line 6 of 'm.mtx': expected no more than 2 entries"
    mtx_refused 'array real general\n1 2\n1\nx\n' "line 4 of 'm.mtx': expected a number, found 'x'"
    mtx_refused 'array integer general\n1 1\n1.5\n' "line 3 of 'm.mtx': expected a whole number, found '1.5'"
    mtx_refused 'coordinate real general\n2 2 1\n3 1 5\n' "line 3 of 'm.mtx': expected the number of a row, found '3'"
    mtx_refused 'coordinate real general\n2 2 1\n1 0 5\n' \
        "line 3 of 'm.mtx': expected the number of a column, found '0'"
    mtx_refused 'coordinate real general\n2 2 1\n1 1\n' "line 3 of 'm.mtx': expected a number"
    mtx_refused 'coordinate real symmetric\n2 2 1\n1 2 5\n' \
        "line 3 of 'm.mtx': entry (1, 2) is not in the lower triangle"
    mtx_refused 'coordinate real skew-symmetric\n2 2 1\n2 2 5\n' \
        "line 3 of 'm.mtx': entry (2, 2) is not in the lower triangle"
    mtx_refused 'coordinate integer general\n1 1 2\n1 1 9223372036854775807\n1 1 1\n' \
        "line 4 of 'm.mtx': a sum beyond int64"
    printf '%%%%MatrixMarket matrix coordinate real general\n1000000000 1000000 1\n1 1 5\n' > m.mtx
    program info m.mtx
    expect_failure 74 "cannot store the elements of 'm.mtx' in '$TMPDIR': No space left on device" \
        "set TMPDIR to store them in another folder"
    expect_only_files m.mtx
}

@test "Matrix Market: the first line in any case, exponents with D, zeros on the diagonal of a skew-symmetric matrix" {
    printf '%%%%MATRIXMARKET MATRIX ARRAY REAL GENERAL\n1 2\n1D2\n-1.5d-1\n' > case.mtx
    printf '%%%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 3\n1 1 0\n2 1 3\n2 2 -0.0\n' > skew.mtx
    printf '%%%%MatrixMarket matrix coordinate integer skew-symmetric\n2 2 2\n1 1 0\n2 1 3\n' > whole.mtx
    for file in "case 100,-0.14999999999999999" $'skew 0,-3\n3,0' $'whole 0,-3\n3,0'; do
        program convert "${file%% *}.mtx" - --format csv -q
        expect_status 0
        [ "$output" = "${file#* }" ]
    done
    mtx_refused 'coordinate integer skew-symmetric\n2 2 1\n2 2 5\n' \
        "line 3 of 'm.mtx': entry (2, 2) is not in the lower triangle"
}

@test "the ending of a name decides the refusal of an invalid first line" {
    printf '%%MatrixMarket matrix array real general\n1 2\n1\n2\n' > single.mtx
    program info single.mtx
    expect_failure 65 "line 1 of 'single.mtx': expected %%MatrixMarket, found '%MatrixMarket'"
    printf '3 3 2\n1 1 5\n2 2 6\n' > bare.MTX
    program info bare.MTX
    expect_failure 65 "line 1 of 'bare.MTX': expected %%MatrixMarket, found '3'"
    printf 'hello world\nfoo bar\n' > words.csv
    cp words.csv words.tsv
    cp words.csv words.txt
    for file in words.csv words.tsv; do
        program info $file
        expect_failure 65 "line 2 of '$file': column 1 is 'foo', expected a number" \
            "names take one line and no column: tail -n +2, or cut -d ' ' -f 2-"
    done
    program info words.txt
    expect_failure 65 "'words.txt' is a text file, which is not read yet" \
        "if it holds numbers, in Python: numpy.save('words.npy', numpy.loadtxt('words.txt', dtype='float32'))"
    # A Matrix Market file is recognised under any name.
    printf '%%%%MatrixMarket matrix array real general\n1 2\n1\n2\n' > array.csv
    program convert array.csv - --format csv -q
    [ "$status $output" = "0 1,2" ]
}

@test "tables in UTF-16 or with carriage returns alone are refused by name" {
    printf '1,2\n3,4\n' > a.csv
    for code in UTF-16 UTF-16LE UTF-16BE UTF-32 UTF-32LE UTF-32BE marked; do
        iconv -t "${code/marked/UTF-32BE}" a.csv > u.csv
        [ $code != marked ] || { printf '\0\0\376\377' && cat u.csv; } > marked.csv
        [ $code != marked ] || { mv marked.csv u.csv && code=UTF-32BE; }
        program info u.csv
        expect_failure 65 "'u.csv' is text in ${code:0:6}, which is not read yet" \
            "make UTF-8 of it first: iconv -f ${code%LE} -t UTF-8 'u.csv' -o 'u.new.csv'"
        eval "${stderr##*: }"
        program convert u.new.csv - --format csv -q
        [ "$output" = "$(cat a.csv)" ]
    done
    for text in '1,2\r3,4\r' '1\r2\r3' 'a b\r1 2\r'; do
        printf '%b' "$text" > r.csv
        program info r.csv
        expect_failure 65 "'r.csv' ends its lines with a carriage return alone, which is not read" \
            "convert them to line feeds: tr '\\r' '\\n'"
    done
    printf '1,2\r\n3,4\r\n' > both.csv
    printf '"a\rb",c\n1,2\n' > quoted.csv
    for file in both quoted; do
        program info --quick $file.csv
        expect_quiet_success
    done
}

@test "missing cells are refused with a hint, or read as NaN with --missing nan, in every command that reads a table" {
    need_numpy
    printf 'a,b,c\n1,NA,\n3,n/a,4\n' > na.csv
    printf ',b\nNA,2\n' > head.csv
    printf 'NA,,3\n1,"NA",#N/A\n' > first.csv
    printf ';\n;\n' > all.csv
    hint="--missing nan reads empty cells, NA and N/A as NaN"
    program info na.csv
    expect_failure 65 "line 2 of 'na.csv': column 2 is 'NA', expected a number" "$hint"
    program info head.csv
    expect_failure 65 "line 1 of 'head.csv': column 1 is empty, expected a number" "$hint"
    program convert first.csv out.npy --missing refuse
    expect_failure 65 "line 1 of 'first.csv': column 2 is empty, expected a number" "$hint"
    for file in na head first all; do
        program convert $file.csv $file.npy --missing nan -q
        expect_status 0
    done
    python << 'END'
import numpy as np
nan = np.nan
arrays = {"na": [[1, nan, nan], [3, nan, 4]], "head": [[nan, 2]], "first": [[nan, nan, 3], [1, nan, nan]],
          "all": [[nan, nan], [nan, nan]]}
for name, right in arrays.items():
    assert np.array_equal(np.load(name + ".npy"), right, equal_nan=True), name
END
    program info --missing nan --quick na.csv
    expect_quiet_success
    [[ "$output" == *"csv header  2 x 3  float64"* ]]
    program diff first.csv first.npy --missing nan -q
    expect_status 0
    echo 'save("sum.npy", load("first.csv") + 1)' > p.py
    for ranks in 1 2; do
        ranks $ranks run p.py --missing nan -q
        expect_status 0
        ranks $ranks add first.csv first.csv -o twice.npy --missing nan -q
        expect_status 0
        ranks $ranks mul first.csv na.npy --transpose-b -o C.npy --missing nan -q
        expect_status 0
        python << 'END'
import numpy as np
nan = np.nan
assert np.array_equal(np.load("sum.npy"), [[nan, nan, 4], [2, nan, nan]], equal_nan=True)
assert np.array_equal(np.load("twice.npy"), [[nan, nan, 6], [2, nan, nan]], equal_nan=True)
assert np.isnan(np.load("C.npy")).all()
END
    done
    program add first.csv first.csv --missing nan -q
    expect_status 0
    [ -e first_add_first.csv ]
    program split first.csv --parts 2 --shard-dir s --missing nan -q
    expect_status 0
    program run p.py -q
    expect_status 65
    [[ "$stderr" == *"line 1 of 'first.csv': column 2 is empty, expected a number"*"  hint: $hint" ]]
    program info --missing zero na.csv
    [ "$status" -eq 64 ]
}

@test "control bytes are refused with their line, in tables, Matrix Market files and other text" {
    hint="delete control bytes: tr -d '\\000-\\010\\013\\014\\016-\\037\\177'"
    for text in '1 1,\x1b4' '2 2,3\n\x014,5' '2 1,2\n3\f4,5' '1 \x027,8' '3 1;2\n3;4\n\000\000\000' '1 1,2\177'; do
        printf '%b' "${text#* }" > t.csv
        program info t.csv
        line="mpimatmul: line ${text%% *} of 't.csv': column "
        [[ "${stderr_lines[0]}" =~ ^"$line"[12]" has the control byte 0x"[017][0-9A-F]", expected a number"$ ]]
        [ "$status ${stderr_lines[1]}" = "65   hint: $hint" ]
        eval "${hint#*: }" < t.csv > clean.csv
        program info --quick clean.csv
        expect_quiet_success
    done
    for text in '1 2\n3 4\0' '1 2\n3 4\0\0\0\0\0\0'; do
        printf '%b' "$text" > t.txt
        program convert t.txt out.npy
        expect_failure 65 "line 2 of 't.txt': column 2 has the control byte 0x00, expected a number" "$hint"
    done
    mtx_refused 'array real general\n1 1\n1\0\n' "line 3 of 'm.mtx': expected a number, found the control byte 0x00" \
        "$hint"
    mtx_refused 'array integer general\n1 1\n9223372036854775808\n' \
        "line 3 of 'm.mtx': expected a number within int64, found '9223372036854775808'"
    # A .bin file is read under any name.
    "$MPIMATMUL" gen bin.csv --format bin --dims 2x3
    program info --quick bin.csv
    [[ "$output" == *"bin 1   2 x 3"* ]]
}

@test "a first line sep= names the separator, and a byte order mark may precede Matrix Market" {
    for text in 'sep=;\n1;2\n3;4\n' '\xef\xbb\xbfsep=;\r\na;b\r\n1;2\r\n3;4\r\n' '"sep=|"\n1|2\n3|4' \
        'SEP=\t\n1\t2\n3\t4' '\xef\xbb\xbf%%MatrixMarket matrix array real general\n2 2\n1\n3\n2\n4\n'; do
        printf '%b' "$text" > s.csv
        program convert s.csv - --format csv -q
        expect_status 0
        [ "$output" = $'1,2\n3,4' ]
    done
    refused 'sep=;\n1;2\n1;x\n' "line 3 of 't.csv': column 2 is 'x', expected a number"
    refused 'sep=;;\n1;2\n' "line 1 of 't.csv': column 2 is empty, expected a number" \
        "--missing nan reads empty cells, NA and N/A as NaN"
}

@test "a decimal comma is refused with a hint that names it" {
    hint="numbers have a decimal comma there, expected a point: tr , ."
    for text in '1,5;2,5\n' '1,5\t2\n' 'x;y\n1,5;2\n' '-1,5e3\t2\n'; do
        printf '%b' "$text" > d.csv
        program info d.csv
        cell=$(grep -o -- '-*1,5[e3]*' d.csv)
        expect_failure 65 "line $(grep -c . d.csv) of 'd.csv': column 1 is '$cell', expected a number" "$hint"
    done
    refused 'sep=;\n"1,5";"2,5"\n' "line 2 of 't.csv': column 1 is '1,5', expected a number" "$hint"
    refused '"1,5","-2,5e1"\n' "line 1 of 't.csv': column 1 is '1,5', expected a number" \
        "numbers have a decimal comma there, expected a point: sed -E 's/\"([^\",]*),([^\",]*)\"/\\1.\\2/g'"
    sed -E 's/"([^",]*),([^",]*)"/\1.\2/g' t.csv > points.csv
    program convert points.csv - --format csv -q
    [ "$output" = 1.5,-25 ]
}
