#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# oclgrind watches every access of the project's OpenCL kernels: accesses out of bounds, races
# between work-items, and reads of values never written.
# shellcheck disable=SC2154 # status and output are set by bats
load helper

# The compiler's optimisations produce instructions that oclgrind does not support.
watch() {
    run timeout 120 oclgrind --build-options -cl-opt-disable --max-errors 3 --data-races --uninitialized "$@"
    printf '%s\n' "$output"
}

setup() {
    command -v oclgrind > /dev/null || skip "oclgrind: not installed"
    need_plain "oclgrind brings libraries of its own"
}

@test "kernels of operations make no access out of bounds, no race and no read of unwritten memory" {
    cd "$REPO" || return 1
    watch "$BUILD/tests/device/map_small_test" 0:0
    [ "$status" -eq 0 ]
    [ "$(grep -c '^ok' <<< "$output")" -eq 5 ]
    [ "$(wc -l <<< "$output")" -eq 6 ]  # any finding adds a line
}

@test "kernels of the check's sums are clean too, with doubles and with pairs of floats" {
    cd "$REPO" || return 1
    local preload
    # the card's driver would load before oclgrind's own library
    for preload in '' "$BUILD/tests/card.so:"; do
        # shellcheck disable=SC2016 # the inner shell's LD_PRELOAD
        MMUL_CARD=single watch sh -c 'LD_PRELOAD="$1$LD_PRELOAD" exec "$2" 0:0 small' sh "$preload" \
            "$BUILD/tests/device/project_test"
        [ "$status" -eq 0 ]
        [ "$(grep -c '^ok' <<< "$output")" -eq 8 ]
        [ "$(wc -l <<< "$output")" -eq 9 ]
    done
}
