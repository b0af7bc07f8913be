#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# scripts/check-cycles on small sources of its own, and on copies of src/ that break a rule.

load helper

setup_sources() {
    mkdir -p copy/scripts && cp "$REPO/scripts/check-cycles" copy/scripts/
    sed -i '/^EXCEPTIONS = {/,/^}/ { /^    /d }' copy/scripts/check-cycles  # no exceptions
}

# Copies the sources of the project with their exceptions.
copy_sources() {
    mkdir -p copy/scripts && cp -r "$REPO/src" copy/ && cp "$REPO/scripts/check-cycles" copy/scripts/
}

# calls FILE.c OTHER...: writes a file in copy/src with a function of its own name that calls the
# functions of the others.
calls() {
    local file=$1 other
    shift
    mkdir -p "copy/src/${file%/*}"
    {
        echo '#include "mpimatmul_local.h"'
        echo "enum mmul_status mmul_$(name_of "$file")(char text[static 64], struct mmul_error *err) {"
        for other in "$@"; do echo "    return mmul_$(name_of "$other")(text, err); // {"; done
        echo '}'
    } >> "copy/src/$file"
}

name_of() {
    local name=${1##*/}
    echo "${name%.*}"
}

# expect_wrong LINE...: check-cycles prints exactly these lines and fails.
expect_wrong() {
    run copy/scripts/check-cycles
    expect_status 1
    [ "$output" = "$(printf '%s\n' "$@")" ] || { show; return 1; }
}

expect_right() {
    run copy/scripts/check-cycles
    expect_status 0
    [ -z "$output" ]
}

# ring FILE...: writes files of which each calls the next one and the last calls the first.
ring() {
    local first=$1
    while [ $# -gt 1 ]; do
        calls "$1" "$2"
        shift
    done
    calls "$1" "$first"
}

@test "the files of the sources form no cycle beyond the exceptions" {
    copy_sources
    expect_right
}

@test "a cycle of four files passes, one of five fails" {
    setup_sources
    ring io/a.c io/b.c io/c.c io/d.c
    expect_right
    rm copy/src/io/*
    calls io/top.c io/a.c  # a file that only calls the cycle
    ring io/a.c io/b.c io/c.c io/d.c io/e.c
    calls io/e.c io/bottom.c
    calls io/bottom.c
    expect_wrong "5 files in a circle, at most 4: src/io/a src/io/b src/io/c src/io/d src/io/e"
    run copy/scripts/check-cycles -v
    expect_status 1
    [ "${lines[1]}" = "    src/io/a -> src/io/b: mmul_b" ]
    [ "${#lines[@]}" -eq 6 ]
}

@test "a cycle between folders fails, even one of two" {
    setup_sources
    ring exec/memory/a.c exec/steps/b.c
    calls exec/steps/b.c exec/steps/c.c
    calls exec/steps/c.c
    expect_wrong "folders in a circle: src/exec/memory src/exec/steps"
    rm -r copy/src/exec/*
    calls exec/memory/a.c exec/steps/b.c  # a call through another file of the folder
    calls exec/steps/b.c
    calls exec/steps/c.c exec/memory/a.c
    expect_wrong "folders in a circle: src/exec/memory src/exec/steps"
}

@test "a call in a table, a macro or a header is found, and a name in a struct, comment or string is no call" {
    setup_sources
    ring io/a.c io/b.c io/c.c io/d.c
    expect_right
    calls io/e.c io/a.c
    echo 'static enum mmul_status (*const rows[])(char *, struct mmul_error *) = {mmul_e};' > copy/src/io/d2.c
    cat copy/src/io/d2.c >> copy/src/io/d.c && rm copy/src/io/d2.c  # a call in a table
    expect_wrong "5 files in a circle, at most 4: src/io/a src/io/b src/io/c src/io/d src/io/e"

    sed -i '/rows\[\]/d' copy/src/io/d.c
    expect_right
    printf '#define CHECKED(x) \\\n    mmul_e((x), NULL)\n' > copy/src/io/e.h
    expect_right
    # a call through a macro of another header
    echo 'int mmul_count(void) { return CHECKED(""); }' >> copy/src/io/d.c
    expect_wrong "5 files in a circle, at most 4: src/io/a src/io/b src/io/c src/io/d src/io/e"

    sed -i '/CHECKED/d' copy/src/io/d.c
    printf '%s\n' 'static inline int mmul_f(int x) {' '    return mmul_d(x);' '}' > copy/src/io/f.h
    expect_right
    sed -i 's|^}$|    mmul_f(1);\n}|' copy/src/io/a.c  # a header's function that calls
    expect_wrong "5 files in a circle, at most 4: src/io/a src/io/b src/io/c src/io/d src/io/f"

    sed -i '/mmul_f(1)/d' copy/src/io/a.c
    printf '%s\n' 'int mmul_say(void) { // mmul_e {' '#if 0' '#endif' '    struct mmul_e held; /* mmul_e' \
        '    and }*/ const char *text = "mmul_e }"; return text[0] == '"'{';" '}' >> copy/src/io/d.c
    expect_right
}

@test "a layer's exception equals its largest cycle, and an unneeded exception fails" {
    setup_sources
    ring io/a.c io/b.c io/c.c io/d.c io/e.c
    sed -i 's|^EXCEPTIONS = {|&\n    "io": 5,|' copy/scripts/check-cycles
    expect_right
    calls io/e.c io/f.c
    calls io/f.c io/a.c
    expect_wrong "6 files in a circle, at most 5: src/io/a src/io/b src/io/c src/io/d src/io/e src/io/f"
    rm copy/src/io/[ef].c
    expect_wrong "src/io: is an exception in scripts/check-cycles that is not needed any more"
}

@test "an upward call in the project's own sources is found" {
    copy_sources
    echo 'static void *upwards(void) { return (void *)mmul_matrix_open; }' >> copy/src/io/bin_header.c
    run copy/scripts/check-cycles
    expect_status 1
    [[ ${lines[0]} =~ ^[0-9]+\ files\ in\ a\ circle,\ at\ most\ 4:\ src/io/bin_header\ .*src/io/matrix_open ]]
    copy_sources
    cp "$REPO/src/io/bin_header.c" copy/src/io/
    echo 'static void *upwards(void) { return (void *)mmul_device_open; }' >> copy/src/base/clock.c
    run copy/scripts/check-cycles
    expect_status 1
    [[ ${lines[-1]} =~ ^folders\ in\ a\ circle:\ src/base\ .*src/device ]]
}

@test "an unreadable source is reported" {
    setup_sources
    calls io/a.c
    echo 'int f(void) { {' >> copy/src/io/a.c
    run copy/scripts/check-cycles
    expect_status 1
    [ "$output" = "src/io/a.c: its braces do not match" ]
}
