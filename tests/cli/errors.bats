#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Invalid input files and impossible outputs: the exact line and code, the same from every command
# that opens files, with no files left behind.
# shellcheck disable=SC2154,SC2016 # bats sets status, output and stderr; bash -c expands what stands in ''
load helper

# input_refused NAME CODE LINE [HINT]: every command that reads a matrix prints this error about the
# file NAME.
input_refused() {
    local name=$1
    shift
    [ -e good.bin ] || "$MPIMATMUL" gen good.bin --dims 3x3 --kind identity
    program info "$name"
    expect_failure "$@" || return 1
    program convert "$name" out.bin
    expect_failure "$@" || return 1
    program diff good.bin "$name"
    expect_failure "$@" || return 1
    program verify "$name" good.bin good.bin
    expect_failure "$@" || return 1
    program split "$name" --parts 2 --shard-dir s
    expect_failure "$@" || return 1
    program mul "$name" good.bin -o out.bin
    expect_failure "$@" || return 1
    ranks 2 mul good.bin "$name" -o out.bin
    expect_failure "$@" || return 1
    [ ! -e out.bin ] && [ ! -e out.bin.part ] && [ ! -e s ]
}

# header NUMBER...: writes little-endian int32.
header() {
    local number
    for number in "$@"; do
        # shellcheck disable=SC2059 # the format is the bytes
        printf "$(printf '\\x%02x\\x%02x\\x%02x\\x%02x' $((number & 255)) $((number >> 8 & 255)) \
            $((number >> 16 & 255)) $((number >> 24 & 255)))"
    done
}

@test "a missing file is refused" {
    input_refused A.bin 66 "cannot open 'A.bin': No such file or directory"
    input_refused no/A.bin 66 "cannot open 'no/A.bin': No such file or directory"
    program mul good.bin good.bin --c-in A.bin --beta 1
    expect_failure 66 "cannot open 'A.bin': No such file or directory"
    program plan A.bin good.bin
    expect_failure 66 "cannot open 'A.bin': No such file or directory"
    program plan good.bin A.bin
    expect_failure 66 "cannot open 'A.bin': No such file or directory"
}

@test "a folder and a FIFO are refused" {
    mkdir A.bin
    input_refused A.bin 66 "cannot read 'A.bin': it is a folder"
    rmdir A.bin
    mkfifo A.bin
    input_refused A.bin 66 "cannot read 'A.bin': it is a FIFO"
}

# Root may read and write everything. Without these two capabilities root has an ordinary user's
# rights.
obey_permissions() {
    [ "$(id -u)" -eq 0 ] || return 0
    printf '#!/bin/sh\nexec setpriv --bounding-set -dac_override,-dac_read_search "%s" "$@"\n' "$MPIMATMUL" \
        > "$BATS_TEST_TMPDIR/limited"
    chmod +x "$BATS_TEST_TMPDIR/limited"
    MPIMATMUL=$BATS_TEST_TMPDIR/limited
}

@test "a file without read permission is refused" {
    "$MPIMATMUL" gen A.bin --dims 3x3 --seed 1
    chmod 000 A.bin
    obey_permissions
    input_refused A.bin 66 "cannot open 'A.bin': Permission denied"
}

@test "an empty file is refused" {
    : > A.bin
    input_refused A.bin 65 "'A.bin' is not a valid matrix file: it is empty"
}

@test "a file that ends within its header is refused" {
    header 4 1 1 3 > A.bin
    input_refused A.bin 65 "'A.bin' is not a valid .bin matrix: 16 bytes, but its header alone takes 20"
}

@test "a .bin file that is one byte short or one byte long is refused" {
    "$MPIMATMUL" gen whole.bin --dims 3x3 --seed 1
    head -c 55 whole.bin > A.bin
    input_refused A.bin 65 "'A.bin' is shorter than its header says: 55 bytes, expected 56 for 3 x 3 float32"
    { cat whole.bin && printf 'x'; } > A.bin
    input_refused A.bin 65 "'A.bin' is longer than its header says: 57 bytes, expected 56 for 3 x 3 float32"
}

@test "a .npy file that is one byte short or one byte long is refused" {
    "$MPIMATMUL" gen whole.npy --dims 3x3 --seed 1
    head -c -1 whole.npy > A.npy
    input_refused A.npy 65 "'A.npy' is shorter than its header says: 163 bytes, expected 164 for 3 x 3 float32"
    { cat whole.npy && printf 'x'; } > A.npy
    input_refused A.npy 65 "'A.npy' is longer than its header says: 165 bytes, expected 164 for 3 x 3 float32"
}

@test "a byte-swapped file is refused" {
    { printf '\0\0\0\4\0\0\0\1\0\0\0\1\0\0\0\1\0\0\0\1' && printf '\x3f\x80\0\0'; } > A.bin
    input_refused A.bin 65 \
        "'A.bin' is not a valid .bin matrix: its header looks big-endian, expected little-endian"
}

@test "a file of arbitrary bytes is refused" {
    local or=" or -1, -2 or -3 (element type)" more=".npz, .safetensors and numbers as text are read"
    printf '\7\0\0\0 and so on, more than twenty bytes' > A.bin
    input_refused A.bin 65 \
        "'A.bin' is not a valid matrix file: it starts with the number 7, expected 2, 3 or 4 (dimensions)$or" \
        "no other known format begins like this; .bin (4D float), .npy, $more"
    printf 'a text, say' > A.bin
    input_refused A.bin 65 "'A.bin' holds no numbers: its only line is a header"
}

@test "dims with a product that wraps around are refused" {
    header 4 65536 65536 65536 65536 > A.bin  # 2^64 elements: 0 in 64 bits
    input_refused A.bin 65 \
        "'A.bin' is not a valid .bin matrix: 65536 x 65536 x 65536 x 65536 elements are too many to count"
    header 4 1 2 1073741824 2147483646 > A.bin  # over 2^62 elements: the byte count wraps
    program info A.bin
    expect_status 65
    [ "${#stderr_lines[@]}" -eq 1 ]
}

@test "dims that are zero or negative are refused" {
    header 4 1 1 0 3 > A.bin
    input_refused A.bin 65 "'A.bin' is not a valid .bin matrix: its sizes are 0 x 3, expected at least 1 each"
    header 4 1 -1 3 3 > A.bin
    input_refused A.bin 65 \
        "'A.bin' is not a valid .bin matrix: its sizes are -1 x 3 x 3, expected at least 1 each"
}

# output_refused NAME CODE LINE [HINT]: every command that writes a matrix refuses to write NAME.
output_refused() {
    local name=$1
    shift
    program convert A.bin "$name"
    expect_failure "$@" || return 1
    program mul A.bin A.bin -o "$name"
    expect_failure "$@" || return 1
    ranks 2 mul A.bin A.bin -o "$name"
    expect_failure "$@" || return 1
}

@test "a missing output folder is refused" {
    "$MPIMATMUL" gen A.bin --dims 3x3 --seed 1
    output_refused no/C.bin 73 "cannot create 'no/C.bin': No such file or directory"
    output_refused A.bin/C.bin 73 "cannot create 'A.bin/C.bin': Not a directory"
    expect_only_files A.bin
}

@test "an output folder without write permission is refused" {
    "$MPIMATMUL" gen A.bin --dims 3x3 --seed 1
    mkdir locked
    chmod 555 locked
    obey_permissions
    output_refused locked/C.bin 73 "cannot create 'locked/C.bin': Permission denied"
}

@test "an output that is a folder or a device is refused" {
    "$MPIMATMUL" gen A.bin --dims 3x3 --seed 1
    mkdir C.bin
    output_refused C.bin 73 "cannot create 'C.bin': it is a folder"
    output_refused /dev/null 73 "cannot create '/dev/null': it is not a regular file"
    ln -s nowhere dangling
    output_refused dangling 73 \
        "cannot create 'dangling': it is a symbolic link to a missing file: No such file or directory"
    expect_only_files A.bin C.bin dangling
}

@test "an output that is an input is refused: by name, by another path, by symbolic and by hard link" {
    "$MPIMATMUL" gen A.bin --dims 3x3 --seed 1
    cp A.bin copy
    ln -s A.bin symbolic.bin
    ln A.bin hard.bin
    for name in A.bin ./A.bin "$PWD/A.bin" symbolic.bin hard.bin; do
        output_refused "$name" 73 "cannot create '$name': it is one of the inputs" \
            "give the output another name"
    done
    "$MPIMATMUL" gen C.bin --dims 3x3 --seed 2
    program mul A.bin A.bin --c-in C.bin --beta 1 -o C.bin
    expect_failure 73 "cannot create 'C.bin': it is one of the inputs" "give the output another name"
    cmp A.bin copy
    expect_only_files A.bin C.bin copy hard.bin symbolic.bin
}

@test "an existing output stays unchanged when the command fails" {
    "$MPIMATMUL" gen A.bin --dims 3x4 --seed 1
    "$MPIMATMUL" gen C.bin --dims 2x2 --seed 2
    cp C.bin copy
    program mul A.bin A.bin -o C.bin
    expect_failure 65 "cannot multiply 'A.bin' (3 x 4) by 'A.bin' (3 x 4): inner sizes 4 and 3 differ"
    program convert missing.bin C.bin
    expect_status 66
    cmp C.bin copy
    expect_only_files A.bin C.bin copy
}

@test "an output through a symbolic link replaces the target of the link" {
    "$MPIMATMUL" gen A.bin --dims 3x3 --seed 1
    mkdir far
    "$MPIMATMUL" gen far/C.bin --dims 2x2 --seed 2
    ln -s far/C.bin C.bin
    program convert A.bin C.bin
    expect_quiet_success
    [ -L C.bin ]
    cmp A.bin far/C.bin
    expect_only_files A.bin C.bin far far/C.bin
}

@test "a file above the process's size limit ends with 71 and the limit" {
    "$MPIMATMUL" gen A.bin --dims 300x300 --seed 1
    run --separate-stderr bash -c 'ulimit -f 100; exec "$MPIMATMUL" convert A.bin C.bin'
    expect_failure 71 "cannot write 'C.bin': 360020 bytes (351.6 KiB) needed: the limit on file size \
(ulimit -f) is 100.0 KiB"
    expect_only_files A.bin
}
