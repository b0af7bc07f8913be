#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Every access of our OpenCL kernels, watched by oclgrind: outside of buffers, races between work-items, and values that
# were never written.
# shellcheck disable=SC2154 # status and output are set by bats
load helper

# The compiler's optimizations make instructions that oclgrind does not know.
watch() {
    run timeout 120 oclgrind --build-options -cl-opt-disable --max-errors 3 --data-races --uninitialized "$@"
    printf '%s\n' "$output"
}

setup() {
    command -v oclgrind > /dev/null || skip "oclgrind: not installed"
    need_plain "oclgrind brings libraries of its own"
}

@test "kernels of operations: no access outside, no race, nothing that was not written" {
    cd "$REPO" || return 1
    watch "$BUILD/tests/device/map_small_test" 0:0
    [ "$status" -eq 0 ]
    [ "$(grep -c '^ok' <<< "$output")" -eq 5 ]
    [ "$(wc -l <<< "$output")" -eq 6 ] # whatever it has to say is a line more
}

@test "kernels of the check's sums, with doubles and with pairs of floats: the same" {
    cd "$REPO" || return 1
    local preload
    for preload in '' "$BUILD/tests/card.so:"; do # oclgrind's own library stays behind the card's
        # shellcheck disable=SC2016 # the inner shell's LD_PRELOAD
        MMUL_CARD=single watch sh -c 'LD_PRELOAD="$1$LD_PRELOAD" exec "$2" 0:0 small' sh "$preload" \
            "$BUILD/tests/device/project_test"
        [ "$status" -eq 0 ]
        [ "$(grep -c '^ok' <<< "$output")" -eq 8 ]
        [ "$(wc -l <<< "$output")" -eq 9 ]
    done
}
