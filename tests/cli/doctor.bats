#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154 # status, output and stderr are set by bats
#
# doctor on this machine alone, its refused arguments, and its remote side, --probe.
# tests/lab/doctor.bats runs it on several hosts.

load helper

setup_file() {
    mend_kernels
}

setup() {
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return 1
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    unset OMPI_MCA_plm_rsh_agent
}

@test "this machine alone gives READY and a table" {
    program doctor
    expect_quiet_success
    [ "${lines[-1]}" = READY ]
    grep -q -E "^$(hostname) +- +0\.1\.0 +Open MPI v[0-9.]+ +[0-9]+ of [0-9]+ +[0-9.]+ [KMGT]iB " <<< "$output"
    program doctor --quiet
    expect_quiet_success
    [ -z "$output" ]
}

@test "doctor --json prints the machine's own description" {
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

# Measured speeds are not tested here: only the blamed cause and the advice. Kernels for old
# processors lose half the speed on any newer processor.
@test "forced kernels, or kernels too old for the processor, are found, with the remedy" {
    local widest setting loses none own
    widest=$(widest_kernels)
    [ "$widest" = SkylakeX ] || [ "$widest" = Haswell ] || skip "the processor has no AVX2"
    [ "$MODE" = release ] || [ "$MODE" = debug ] || skip "sanitizers do not know a library that is loaded twice"
    loses="GFLOP/s on a core; with(out it [0-9.]+ \\([A-Za-z]+\\)| OPENBLAS_CORETYPE=$widest [0-9.]+)$"
    for setting in OPENBLAS_CORETYPE=Nehalem OPENBLAS_CORETYPE=Sandybridge; do
        run --separate-stderr env "$setting" "$MPIMATMUL" doctor < /dev/null
        expect_status 78
        [ "$stderr" = "mpimatmul: not ready: 1 problem to fix" ]
        grep -qE "^$(hostname) +cpu .*OpenBLAS [0-9.]+ \(${setting#*=}\) +yes: $setting is set$" \
        <<< "$output" || { show; return 1; }
        grep -qE "^1\. $(hostname): $setting is set: [0-9.]+ $loses" <<< "$output" || { show; return 1; }
        grep -qxE "   fix: (unset OPENBLAS_CORETYPE|export OPENBLAS_CORETYPE=$widest)" \
        <<< "$output" || { show; return 1; }
    done
    # In a clean environment the only possible finding is the library's own choice of kernels.
    none=$(env -u OPENBLAS_CORETYPE "$MPIMATMUL" devices --device cpu)
    run --separate-stderr env -u OPENBLAS_CORETYPE "$MPIMATMUL" doctor < /dev/null
    if [[ "$none" == *"not of this processor's"* ]]; then
        expect_status 78
        own="OpenBLAS takes its [A-Za-z0-9]+ kernels \([A-Z0-9-]+\) for a processor with [A-Z0-9-]+"
        grep -qE "^1\. $(hostname): $own: [0-9.]+ $loses" \
        <<< "$output"
        expect_line "   fix: export OPENBLAS_CORETYPE=$widest"
    else
        expect_quiet_success
        [[ "$output" != *"is set"* ]]
    fi
}

@test "kernels that could not be measured give a note and no plain READY" {
    local widest note
    widest=$(widest_kernels)
    [ "$widest" = SkylakeX ] || [ "$widest" = Haswell ] || skip "the processor has no AVX2"
    need_plain "knows no library that is loaded twice"
    note="OPENBLAS_CORETYPE=Nehalem is set: what that costs could not be measured"
    run --separate-stderr env OPENBLAS_CORETYPE=Nehalem LD_PRELOAD="$BUILD/tests/no_second_load.so" \
        "$MPIMATMUL" doctor < /dev/null
    expect_quiet_success
    [ "${lines[-2]}" = "note: $(hostname): $note: run doctor again when the machine is idle" ]
    [ "${lines[-1]}" = "READY, except for facts that could not be measured" ]
    run --separate-stderr env OPENBLAS_CORETYPE=Nehalem LD_PRELOAD="$BUILD/tests/no_second_load.so" \
        "$MPIMATMUL" doctor --json < /dev/null
    expect_quiet_success
    python "$output" "$(hostname)" "$note" << 'END'
import json, sys
assert json.loads(sys.argv[1])["notes"] == [{"machine": sys.argv[2], "what": sys.argv[3]}]
END
}

@test "doctor says beforehand that mpirun refuses to run as root" {
    [ "$(id -u)" -eq 0 ] || skip "needs root"
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='' program doctor
    expect_status 78
    [ "$stderr" = "mpimatmul: not ready: 1 problem to fix" ]
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
    run --separate-stderr env -u HWLOC_COMPONENTS -u HWLOC_PLUGINS_PATH OCL_ICD_VENDORS="$PWD/drivers" \
        "$MPIMATMUL" doctor < /dev/null
    expect_status 78
    [[ "$output" == *": OpenCL driver '$PWD/drivers/libbad.so' ($PWD/drivers/bad.icd) "*": not used"* ]]
    expect_line "   fix: sudo mv '$PWD/drivers/bad.icd' '$PWD/drivers/bad.icd.off'"
    expect_line "1. $(hostname): mpirun starts no job: it crashed (signal 11)"
    expect_line "   fix: export HWLOC_COMPONENTS=-opencl,-gl   # or mend the driver"
}

@test "a machine without OpenCL uses its CPU and is ready" {
    mkdir drivers
    OCL_ICD_VENDORS=$PWD/drivers program doctor
    expect_quiet_success
    grep -q -E "^$(hostname) +- +- +- +no OpenCL device: CPU only$" <<< "$output"
}

@test "localhost and this machine's own name need no ssh and count as one machine" {
    printf 'localhost\n%s\n' "$(hostname)" > hosts
    OMPI_MCA_plm_rsh_agent=none program doctor --hostfile hosts --json
    [[ "$output" == *'"slots": 2'* && "$output" == *'"connections": []'* ]]
    [ "$(grep -c '"machine": "'"$(hostname)"'"' <<< "$output")" -ge 1 ]
}

@test "without ssh, doctor reports that other machines cannot be reached" {
    echo 'node1.invalid slots=1' > hosts
    export OMPI_MCA_oob_tcp_keepalive_time=5
    OMPI_MCA_plm_rsh_agent="no-such-agent : none-either" program doctor --hostfile hosts
    expect_status 78
    expect_line "1. node1: cannot be reached: none of 'no-such-agent : none-either' is installed here"
}

# expect_mended FINDING FIX: mpirun refuses the file, doctor names the line, and its command repairs
# it.
expect_mended() {
    ! mpirun -q --hostfile hosts true < /dev/null || return 1
    program doctor --hostfile hosts
    expect_status 78 || return 1
    expect_line "1. 'hosts' $1" || return 1
    expect_line "   fix: $2" || return 1
    eval "$2"
    mpirun -q --hostfile hosts true < /dev/null
}

@test "for a hostfile that mpirun refuses, doctor prints mpirun's words, the line and a command that repairs it" {
    local parse="mpirun says \"Open RTE detected a parse error in the hostfile: hosts It occured on line number"
    printf 'localhost slots=1\r\n# end\r\n' > hosts
    expect_mended "line 1: ends with a carriage return, as on Windows: $parse 1 on token 1.\"" \
        "sed -i 's/\\r\$//' 'hosts'"
    printf 'localhost slots=1\n# end' > hosts
    expect_mended "line 2: the comment ends without a line end: $parse 2 on token 1.\"" "echo >> 'hosts'"
    printf '# two\nlocalhost slots=1\n127.0.0.1 slots=1\n' > hosts
    expect_mended "line 3: gives slots of '127.0.0.1', the same machine as 'localhost' of line 2: mpirun says \"A \
hostfile was provided that contains multiple definitions of the slot count for at least one node: hostfile: hosts \
node: $(hostname -s)\"" "sed -i '2s/slots *= *[0-9]*/slots=2/;3d' 'hosts'"
    [ "$(cat hosts)" = $'# two\nlocalhost slots=2' ]
    echo 'localhost slots=2 max_slots=1' > hosts
    expect_mended "line 1: max_slots is below the slots: mpirun says \"Open RTE detected a bad parameter in the \
hostfile: hosts The max_slots parameter is less than the slots parameter: slots=2 max_slots=1\"" \
        "sed -i '1s/max_slots *= *[0-9]*//' 'hosts'"
}

@test "for a user without a home, doctor says that mpirun crashes, and why" {
    [ "$(id -u)" -eq 0 ] || skip "needs root"
    local nobody=(setpriv --reuid 54321 --regid 54321 --clear-groups)
    "${nobody[@]}" test -x "$MPIMATMUL" || skip "the program is in a folder of one user"
    local folder # that this user can reach
    folder=$(mktemp -d /tmp/mmul.XXXX)
    cd "$folder" && chmod 777 .
    echo localhost > hosts
    run --separate-stderr env -u HOME TMPDIR="$folder" "${nobody[@]}" "$MPIMATMUL" doctor --hostfile hosts < /dev/null
    cd / && rm -rf "$folder"
    expect_status 78
    expect_line "1. $(hostname): mpirun starts no job on 'hosts': it crashed (signal 11)"
    expect_line "   fix: export HOME=/tmp   # the user has no other home"
}

@test "an agent that is no program stops mpirun from starting anything, also on this machine" {
    OMPI_MCA_plm_rsh_agent=none program doctor
    expect_status 78
    expect_line "1. $(hostname): mpirun starts no job: The value of the MCA parameter \"plm_rsh_agent\" was set to a \
path that could not be found: plm_rsh_agent: none"
    expect_line "   fix: unset OMPI_MCA_plm_rsh_agent   # it names no program"
}

@test "invalid hostfiles are refused" {
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
    expect_failure 64 "--timeout: '0' is out of range, expected 1 to 600"
}

@test "--probe says hello, answers questions and ends with its input" {
    run --separate-stderr "$MPIMATMUL" doctor --probe < /dev/null
    expect_quiet_success
    [ "$output" = 'mpimatmul-doctor: {   "hello": "0.1.0" } ' ]
    # A listener without a connection stops waiting when further input arrives.
    run --separate-stderr timeout 20 "$MPIMATMUL" doctor --probe \
        < <(echo "listen 0123456789abcdef 25"; sleep 0.3; echo)
    expect_quiet_success
    [[ "${lines[1]}" == *'"token": "0123456789abcdef",   "port": '* ]]
    [[ "${lines[2]}" == *'"received": false'* ]]
    run --separate-stderr "$MPIMATMUL" doctor --probe < <(echo "remove everything")
    expect_status 64
    [ "$stderr" = "mpimatmul: doctor --probe: unknown question 'remove everything'" ]
}

@test "under mpirun --probe answers once, about the first process's machine" {
    ranks 2 doctor
    expect_status 0
    [ "$(grep -c -x READY <<< "$output")" -eq 1 ]
    [ "$stderr" = "mpimatmul: this checks only the machine of the first process: to check all, run 'mpimatmul doctor \
--hostfile FILE' without mpirun" ]
}
