#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Random products are killed a thousand times and continued with --resume. Takes up to an hour.
# shellcheck disable=SC2154 # status and output are set by bats
load ../cli/helper

@test "random products survive a thousand kills" {
    need_plain "devices are slow enough"
    need_numpy
    run "$PYTHON" "$REPO/tests/kill_resume.py" 1000 "$RANDOM"
    show
    [ "$status" -eq 0 ] && [[ ${lines[-1]} = *" jobs, 1000 kills, "*", 0 wrong" ]]
}
