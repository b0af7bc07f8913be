#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# scripts/check-layers on copies of the sources that break a rule.

load helper

# Copies the checked files, for the tests to modify.
copy_sources() {
    mkdir -p copy/scripts && cp -r "$REPO/src" "$REPO/include" copy/ && cp "$REPO/scripts/check-layers" copy/scripts/
}

# expect_wrong LINE...: check-layers prints exactly these lines and fails.
expect_wrong() {
    run copy/scripts/check-layers
    expect_status 1
    [ "$output" = "$(printf '%s\n' "$@")" ] || { show; return 1; }
}

@test "the sources keep their layers" {
    copy_sources
    run copy/scripts/check-layers
    expect_status 0
    [ -z "$output" ]
}

@test "only comm calls MPI or names its types, independent of the included headers" {
    copy_sources
    printf '%s\n' '#include "comm/comm.h"' '// MPI_Test in a comment' 'int f(MPI_Comm mpi);' \
        'int f(MPI_Comm mpi) { return PMPI_Barrier(mpi); }' > copy/src/exec/job/new.c
    echo 'int g(void) { return MPI_Barrier(MPI_COMM_WORLD); }' > copy/src/cli/session.c
    expect_wrong "src/cli/session.c:1: 'MPI_Barrier' belongs behind src/comm: only comm calls MPI" \
        "src/exec/job/new.c:3: 'MPI_Comm' belongs behind src/comm: only comm calls MPI" \
        "src/exec/job/new.c:4: 'MPI_Comm' belongs behind src/comm: only comm calls MPI" \
        "src/exec/job/new.c:4: 'PMPI_Barrier' belongs behind src/comm: only comm calls MPI"
}

@test "an unneeded exception fails" {
    copy_sources
    sed -i 's|^MPI_EXCEPTIONS = {|&\n    "src/exec/conduct/run.c": "why",|' copy/scripts/check-layers
    expect_wrong "src/exec/conduct/run.c: is an exception in scripts/check-layers that is not needed any more"
}

@test "no layer includes one above it" {
    copy_sources
    echo '#include "exec/conduct/run.h"' > copy/src/plan/product/new.c
    expect_wrong "src/plan/product/new.c:1: 'exec/conduct/run.h' is out of reach for layer plan, which may include: \
plan base model"
}

@test "no room includes one above it or has too many files, and a layer has no other folder" {
    copy_sources
    echo '#include "exec/job/matmul.h"' > copy/src/exec/memory/new.c
    mkdir copy/src/exec/attic copy/src/base/attic
    for folder in exec base/attic exec/attic; do echo 'int f(void);' > "copy/src/$folder/new.h"; done
    for i in {1..30}; do echo 'int f(void);' > "copy/src/exec/job/new$i.h"; done
    run copy/scripts/check-layers
    expect_status 1
    [ "${lines[0]}" = "src/exec/memory/new.c:1: 'exec/job/matmul.h' is out of reach for room memory of exec, whose \
rooms are, from the bottom up: threads setup status memory worker steps tasks traffic conduct job" ]
    [ "${lines[1]}" = "src/base/attic: is no room of its layer" ]
    [ "${lines[2]}" = "src/exec/attic: is no room of its layer" ]
    [[ ${lines[3]} =~ ^src/exec/job:\ has\ [0-9]+\ files,\ a\ room\ has\ at\ most\ 30$ ]]
    [ "${lines[4]}" = "src/exec: is no room of its layer" ]
    [ "${#lines[@]}" -eq 5 ]
}
