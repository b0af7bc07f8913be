#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# scripts/check-layers on copies of the sources that break a rule.

load helper

# A copy of what it looks at, to spoil.
copy_sources() {
    mkdir -p copy/scripts && cp -r "$REPO/src" "$REPO/include" copy/ && cp "$REPO/scripts/check-layers" copy/scripts/
}

# expect_wrong LINE...: exactly these are printed.
expect_wrong() {
    run copy/scripts/check-layers
    expect_status 1
    [ "$output" = "$(printf '%s\n' "$@")" ] || { show; return 1; }
}

@test "the layers of the sources are kept" {
    copy_sources
    run copy/scripts/check-layers
    expect_status 0
    [ -z "$output" ]
}

@test "only comm calls MPI or names its types, whatever was included" {
    copy_sources
    printf '%s\n' '#include "comm/comm.h"' '// MPI_Test in a comment' 'int f(MPI_Comm mpi);' \
        'int f(MPI_Comm mpi) { return PMPI_Barrier(mpi); }' > copy/src/exec/new.c
    echo 'int g(void) { return MPI_Barrier(MPI_COMM_WORLD); }' > copy/src/cli/session.c
    expect_wrong "src/cli/session.c:1: 'MPI_Barrier' belongs behind src/comm: only comm calls MPI" \
        "src/exec/new.c:3: 'MPI_Comm' belongs behind src/comm: only comm calls MPI" \
        "src/exec/new.c:4: 'MPI_Comm' belongs behind src/comm: only comm calls MPI" \
        "src/exec/new.c:4: 'PMPI_Barrier' belongs behind src/comm: only comm calls MPI"
}

@test "an exception that is not needed any more is wrong" {
    copy_sources
    sed -i 's|^MPI_EXCEPTIONS = {|&\n    "src/exec/run.c": "why",|' copy/scripts/check-layers
    expect_wrong "src/exec/run.c: is an exception in scripts/check-layers that is not needed any more"
}

@test "no layer includes one above it" {
    copy_sources
    echo '#include "exec/run.h"' > copy/src/plan/new.c
    expect_wrong "src/plan/new.c:1: 'exec/run.h' is out of reach for layer plan, which may include: plan base model"
}
