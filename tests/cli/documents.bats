#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154 # status and output are set by bats
# Runs the commands of README.md and of the manual pages as a user of the installed program types
# them. lab/documents.bats runs those for several machines.
load helper

setup_file() {
    export INSTALLED=$BATS_FILE_TMPDIR/root
    make_built install PREFIX="$INSTALLED/usr/local"
}

setup() {
    need_plain "what the documents run has a Python in it"
    need_numpy
    mkdir "$BATS_TEST_TMPDIR/work" "$BATS_TEST_TMPDIR/bin" && cd "$BATS_TEST_TMPDIR/work" || return 1
    ln -s "$PYTHON" "$BATS_TEST_TMPDIR/bin/python3"
    export PATH=$INSTALLED/usr/local/bin:$BATS_TEST_TMPDIR/bin:$PATH
    export PYTHONPATH=$INSTALLED/usr/local/lib/python3/dist-packages MPIMATMUL_SHARD_DIR=$BATS_TEST_TMPDIR/shards
    mkdir -m 700 "$BATS_TEST_TMPDIR/run" && export XDG_RUNTIME_DIR=$BATS_TEST_TMPDIR/run
    export PKG_CONFIG_PATH=$INSTALLED/usr/local/lib/pkgconfig LD_LIBRARY_PATH=$INSTALLED/usr/local/lib
    mend_kernels
}

document() {
    run "$PYTHON" "$REPO/tests/documents.py" run "$REPO/$1"
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "README.md" {
    [ "$(wc -l < "$REPO/README.md")" -le 150 ]
    document README.md
}

@test "mpimatmul-files(5)" {
    document src/io/mpimatmul-files.5.md
}

@test "mpimatmul-programs(7)" {
    document src/tensor/mpimatmul-programs.7.md
}

@test "mpimatmul-jobs(7)" {
    document src/cli/mpimatmul-jobs.7.md
}

@test "mpimatmul-clusters(7)" {
    document src/doctor/mpimatmul-clusters.7.md
}

@test "mpimatmul-python(7)" {
    document src/python/mpimatmul-python.7.md
}

@test "libmpimatmul(3)" {
    document src/api/libmpimatmul.3.md
}

@test "installed examples print the output that their comments quote" {
    cp -r "$INSTALLED"/usr/local/share/doc/mpimatmul/examples/* .
    said=0
    for text in *.txt; do
        mkdir "${text%.txt}"
        cp ./*.py ./*.c "${text%.txt}/"
        (cd "${text%.txt}" && "$PYTHON" "$REPO/tests/documents.py" run "../$text")
        said=$((said + 1))
    done
    [ $said -ge 6 ]
}

@test "the pictures match the measured data" {
    cp -r "$REPO/bench" .
    rm bench/pictures/*.svg
    "$PYTHON" bench/pictures/draw
    for picture in timeline speedup; do
        cmp "bench/pictures/$picture.svg" "$REPO/bench/pictures/$picture.svg"
    done
}

@test "every command that the tests leave out still stands in a document" {
    "$PYTHON" "$REPO/tests/documents.py" check "$REPO"/README.md "$REPO"/src/*/*mpimatmul*.[357].md
}

@test "links of README.md and of the pages lead to files" {
    links=0
    for document in "$REPO"/README.md "$REPO"/src/*/*mpimatmul*.[357].md; do
        while read -r link; do
            [ -e "$(dirname "$document")/$link" ] || { echo "$document: $link"; false; }
            links=$((links + 1))
        done < <(grep -o -E '\]\([^)#: ]+' "$document" | cut -c 3-)
    done
    [ $links -ge 12 ]
}
