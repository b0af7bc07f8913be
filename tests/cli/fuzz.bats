#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Runs the fuzz targets of tests/fuzz on the inputs of tests/data/fuzz, without a fuzzer. `make
# fuzz` searches for new findings.
# shellcheck disable=SC2154 # status and output are set by bats
load helper

@test "no input of the corpora is a finding" {
    targets=0
    for target in "$REPO"/tests/fuzz/*_fuzz.c; do
        name=$(basename "$target" _fuzz.c)
        inputs=("$REPO/tests/data/fuzz/$name"/*)
        run "$BUILD/tests/fuzz/${name}_fuzz" "${inputs[@]}"
        echo "$name: $output"
        [ "$status" -eq 0 ]
        [ "$output" = "${#inputs[@]} inputs" ]
        targets=$((targets + 1))
    done
    [ $targets -ge 4 ]
}
