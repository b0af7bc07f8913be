#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154 # status and output are set by bats
# Random combinations of the options of `mul`, in every type, compared with numpy:
# tests/random_products.py.

load helper

@test "any two values of two options of mul meet in a command with numpy's result or the expected refusal" {
    need_numpy
    "$MPIMATMUL" devices --json < /dev/null | grep -q '"id": "0:0"' || skip "opencl: no OpenCL device"
    run py "$REPO/tests/random_products.py" pairs products "${PRODUCTS_SEED:-1}"
    echo "# ${lines[-1]}" >&3
    [ "$status" -eq 0 ] || { echo "$output"; return 1; }
    [[ ${lines[-1]} =~ ^seed\ .*:\ ([0-9]+)\ commands,\ ([0-9]+)\ refused,\ ([0-9]+)\ results\ in\ float64 ]]
    [ "${BASH_REMATCH[1]}" -gt 90 ] && [ "${BASH_REMATCH[2]}" -gt 20 ] && [ "${BASH_REMATCH[3]}" -gt 10 ]
}
