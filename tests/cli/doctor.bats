#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154 # status, output and stderr are set by bats
#
# doctor on this machine alone, what it refuses, and its other end, --probe. Several hosts: tests/lab/doctor.bats.

load helper

setup() {
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return 1
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    unset OMPI_MCA_plm_rsh_agent
}

@test "this machine alone: READY, and a table of it" {
    program doctor
    expect_quiet_success
    [ "${lines[-1]}" = READY ]
    grep -q -E "^$(hostname) +- +0\.1\.0 +Open MPI v[0-9.]+ +[0-9]+ of [0-9]+ +[0-9.]+ [KMGT]iB " <<< "$output"
    program doctor --quiet
    expect_quiet_success
    [ -z "$output" ]
}

@test "as JSON: what the machine says of itself" {
    program doctor --json
    expect_quiet_success
    printf '%s' "$output" > said.json
    python "$(nproc)" << 'END'
import json, os, sys
said = json.load(open("said.json"))
assert said["ready"] is True and said["findings"] == [] and said["connections"] == []
(machine,) = said["machines"]
facts = machine["facts"]
assert machine["state"] == "answered" and abs(machine["clock_difference_seconds"]) < 60
assert facts["version"] == "0.1.0" and facts["folder"] == os.getcwd() and facts["folder_problem"] == ""
assert 1 <= facts["cores"] <= facts["machine_cores"] and facts["memory_available_bytes"] > 0
assert facts["machine"] == os.uname().machine and os.access(facts["orted"], os.X_OK)
END
}

@test "mpirun would refuse root: said before it does" {
    [ "$(id -u)" -eq 0 ] || skip "needs root"
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='' program doctor
    expect_status 78
    [ "$stderr" = "mpimatmul: not ready: 1 thing to mend" ]
    expect_line "1. $(hostname): mpirun refuses to run as root"
    expect_line "   fix: su - USER   # or export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"
    OMPI_ALLOW_RUN_AS_ROOT=0 program doctor --json
    expect_status 78
    [[ "$output" == *'"ready": false'* && "$output" == *'"what": "mpirun refuses to run as root"'* ]]
}

@test "a binding that leaves every rank one core is named" {
    OMPI_MCA_hwloc_base_binding_policy=core program doctor
    expect_status 78
    expect_line "   fix: unset OMPI_MCA_hwloc_base_binding_policy"
}

@test "a broken OpenCL driver is named with its file" {
    mkdir drivers
    ln -s "$BUILD/tests/bad_icd_crash.so" drivers/libbad.so
    echo "$PWD/drivers/libbad.so" > drivers/bad.icd
    OCL_ICD_VENDORS=$PWD/drivers program doctor
    expect_status 78
    [[ "$output" == *": OpenCL driver '$PWD/drivers/libbad.so' ($PWD/drivers/bad.icd) "*": not used"* ]]
    expect_line "   fix: sudo mv '$PWD/drivers/bad.icd' '$PWD/drivers/bad.icd.off'"
}

@test "a machine without OpenCL uses its CPU, and is ready" {
    mkdir drivers
    OCL_ICD_VENDORS=$PWD/drivers program doctor
    expect_quiet_success
    grep -q -E "^$(hostname) +- +- +- +no OpenCL device: CPU only$" <<< "$output"
}

@test "localhost and this machine's own name need no ssh, and are one machine" {
    printf 'localhost slots=1\n%s slots=1\n' "$(hostname)" > hosts
    OMPI_MCA_plm_rsh_agent=none program doctor --hostfile hosts --json
    [[ "$output" == *'"slots": 2'* && "$output" == *'"connections": []'* ]]
    [ "$(grep -c '"machine": "'"$(hostname)"'"' <<< "$output")" -ge 1 ]
}

@test "without ssh other machines cannot be reached, which is said" {
    echo 'node1.invalid slots=1' > hosts
    export OMPI_MCA_oob_tcp_keepalive_time=5
    OMPI_MCA_plm_rsh_agent="no-such-agent : none-either" program doctor --hostfile hosts
    expect_status 78
    expect_line "1. node1.invalid: cannot be reached: none of 'no-such-agent : none-either' is installed here"
}

@test "hostfiles that are none" {
    program doctor --hostfile none
    expect_failure 66 "cannot open 'none': No such file or directory"
    mkfifo fifo
    program doctor --hostfile fifo
    expect_failure 66 "cannot read 'fifo': not a regular file"
    printf 'node1\n%s slots=2\n' "-oProxyCommand=touch\${IFS}owned" > hosts
    program doctor --hostfile hosts
    expect_failure 65 "'hosts' line 2: '-oProxyCommand=touch\${IFS}owned' is not the name of a host"
    [ ! -e owned ]
    echo '# nobody' > hosts
    program doctor --hostfile hosts
    expect_failure 65 "'hosts' names no host"
    program doctor --tune none
    expect_failure 66 "cannot open 'none': No such file or directory"
    program doctor --output none
    expect_failure 73 "no folder 'none': No such file or directory"
    program doctor --timeout 0
    expect_failure 64 "--timeout: '0' is not from 1 to 600"
}

@test "the other end says hello, answers questions and ends with its input" {
    run --separate-stderr "$MPIMATMUL" doctor --probe < /dev/null
    expect_quiet_success
    [ "$output" = 'mpimatmul-doctor: {   "hello": "0.1.0" } ' ]
    # A listener that nobody comes to waits no longer when the input goes on.
    run --separate-stderr timeout 20 "$MPIMATMUL" doctor --probe \
        < <(echo "listen 0123456789abcdef 25"; sleep 0.3; echo)
    expect_quiet_success
    [[ "${lines[1]}" == *'"token": "0123456789abcdef",   "port": '* ]]
    [[ "${lines[2]}" == *'"received": false'* ]]
    run --separate-stderr "$MPIMATMUL" doctor --probe < <(echo "remove everything")
    expect_status 64
    [ "$stderr" = "mpimatmul: doctor --probe: unknown question 'remove everything'" ]
}

@test "under mpirun it answers once, about the first process's machine" {
    ranks 2 doctor
    expect_status 0
    [ "$(grep -c -x READY <<< "$output")" -eq 1 ]
    [ "$stderr" = "mpimatmul: this is about the first process's machine alone: for all of them run 'mpimatmul doctor \
--hostfile FILE' without mpirun" ]
}
