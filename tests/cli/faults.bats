#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Faults while two ranks of one machine multiply: devices, system calls, disks, drivers, ranks,
# versions. Each job ends by itself with the right code and at most one line of the program, and
# leaves a complete new result or the old one.
# shellcheck disable=SC2154,SC2016 # status, output and stderr are set by bats; scripts are written in quotes
load helper

# The timeout of a driver that never answers takes twenty seconds and no CPU, so that job runs
# beside the other tests.
setup_file() {
    export HANG=$BATS_FILE_TMPDIR/hang
    mkdir "$HANG" && cd "$HANG" || return 1
    make_operands
    bad_driver bad_icd_hang
    {
        local code=0
        OCL_ICD_VENDORS=$HANG/vendors/ timeout 60 mpirun -q -n 2 "$MPIMATMUL" mul A.bin B.bin -o D.bin \
            --weights equal --progress none > out 2> err < /dev/null &
        echo $! > pid
        wait $! || code=$?
        echo $code > code.new && mv code.new code
    } 3>&- &
    HAS_OPENCL=$("$MPIMATMUL" devices --json | grep -c '"0:0"' || true)
    export HAS_OPENCL
}

# If its test did not run, the job may still be waiting.
teardown_file() {
    [ -e "$HANG/code" ] || kill "$(< "$HANG/pid")"
}

need_opencl() {
    [ "$HAS_OPENCL" -gt 0 ] || skip "opencl: no device 0:0"
}

# Distinct odd sizes, whole numbers.
make_operands() {
    "$MPIMATMUL" gen A.bin --dims 61x203 --kind integer --seed 1
    "$MPIMATMUL" gen B.bin --dims 203x47 --kind integer --seed 2
}

# bad_driver NAME: makes the folder `vendors` with PoCL and a faulty driver of tests/lib.
bad_driver() {
    mkdir vendors
    find "$OCL_ICD_VENDORS" -name '*.icd' -exec cp {} vendors/ \; 2> /dev/null || true
    echo "$BUILD/tests/$1.so" > vendors/bad.icd
}

# An old result exists before each job.
setup() {
    need_numpy
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return 1
    make_operands
    "$MPIMATMUL" gen D.bin --dims 5x3 --kind integer --seed 3
    cp D.bin old.bin
    write_script rank 'exec "$@" 2> "err.$OMPI_COMM_WORLD_RANK"'
}

# job OPTIONS OPTIONS ARGUMENTS...: writes A B to D, rank 0 with the first options and rank 1 with
# the second (one word each, which is split), both with the rest. $wrap_0 and $wrap_1 stand before
# the program. mpirun ends with the code of a failing rank, without its usual second of delay before
# it kills the others. It may not forward late output of those, so each rank's stderr is a file, and
# stderr is all of them.
job() {
    local mine=$1 theirs=$2
    shift 2
    # shellcheck disable=SC2086 # several words, or none
    run --separate-stderr timeout 60 mpirun -q --mca odls_base_sigkill_timeout 0 ${mca:-} \
        -n 1 ./rank ${wrap_0:-} "$MPIMATMUL" mul A.bin B.bin -o D.bin --progress none "$@" $mine \
        : -n 1 ./rank ${wrap_1:-} "$MPIMATMUL" mul A.bin B.bin -o D.bin --progress none "$@" $theirs < /dev/null
    take_stderr
}

# Prints the files that ./rank has written, of every rank.
take_stderr() {
    stderr+=$(cat err.0 err.1)
    rm err.0 err.1
}

# write_script NAME LINE...: writes a script for sh.
write_script() {
    printf '%s\n' '#!/bin/sh' "${@:2}" > "$1"
    chmod 755 "$1"
}

# Rank 0 uses the CPU, the choice of auto beside PoCL. Rank 1 uses the given device.
device_job() {
    local device=$1
    shift
    job "--device auto" "--device $device" --weights "${weights:-equal}" "$@"
}

count_lines() {
    grep -c '^mpimatmul: ' <<< "$stderr" || true
}

# expect_refusal CODE TEXT: one line of the program with TEXT, no table, the old result and no
# temporary file.
expect_refusal() {
    expect_status "$1" || return 1
    if [ "$(count_lines)" -ne 1 ] || [[ "$stderr" != "mpimatmul: "*"$2"* ]] || [ -n "$output" ]; then
        printf 'expected one line with\n%s\n' "$2"
        show
        return 1
    fi
    cmp old.bin D.bin && [ ! -e D.bin.part ]
}

# expect_product LINES: success, LINES lines of the program on stderr, and a result equal to numpy's
# product of A and B.
expect_product() {
    expect_status 0 || return 1
    if [ "$(count_lines)" -ne "$1" ]; then
        echo "expected $1 lines of ours on stderr"
        show
        return 1
    fi
    is_product D.bin && [ ! -e D.bin.part ]
}

is_product() {
    python "$1" << 'END'
import sys
import numpy as np
from matrices import read_bin
a, b, found = (read_bin(name)[1].astype("f8") for name in ("A.bin", "B.bin", sys.argv[1]))
assert np.array_equal(found, a @ b), "not the product"
END
}

# report EXPRESSION...: each is true; r is the report, r1 its rank 1.
report() {
    python "$@" << 'END'
import json
import sys
r = json.load(open("report.json"))
for expression in sys.argv[1:]:
    assert eval(expression, {"r": r, "r1": r["ranks"][1]}), f"{expression} is not so in {json.dumps(r, indent=1)}"
END
}

# ------------------------------------------------------------------------------------------------ devices

# expect_take_over RULE...: rank 1 loses its device, and the next device takes over, once and with a
# warning.
expect_take_over() {
    local rule
    for rule in "$@"; do
        echo "$rule"
        device_job "faulty:$rule" --report report.json
        expect_product 1 || return 1
        [[ "$stderr" == *"mpimatmul: warning: rank 1: device 'faulty:$rule"* ]] || { show; return 1; }
        report "r1['device_replacements'] == 1" "r['ranks'][0]['device_replacements'] == 0" \
            "len(r['warnings']) == 1" "r['check']['result'] == 'passed'" || return 1
        case $rule in
            fail-alloc*:0:0) ;;  # fails before the first product
            *) report "r['fallback_products'] == 1" "r1['fallback_products'] == 1" || return 1 ;;
        esac
    done
}

# A device in host memory reads float32 operands in place. Only 16-bit operands are uploaded to it.
@test "after a CPU is lost on one rank, the reference device takes over" {
    expect_take_over "fail=*:cpu" "fail-alloc=1:cpu"
    "$MPIMATMUL" convert A.bin half.bin --dtype float16
    mv half.bin A.bin
    expect_take_over "fail-upload=1:cpu"
}

@test "after an OpenCL device is lost on one rank, the CPU takes over" {
    need_opencl
    expect_take_over fail=1:0:0 fail-alloc=2:0:0 fail-upload=2:0:0 fail-download=1:0:0
}

# Each rank's own exit code is in code.RANK. An option of mpirun stops it from ending the other
# ranks because of it, and mpirun ends with 0.
expect_all_69() {
    local device wrap_0=./code wrap_1=./code mca="--mca orte_abort_on_non_zero_status 0"
    write_script code '"$@"' 'echo $? > "code.$OMPI_COMM_WORLD_RANK"'
    for device in "$@"; do
        device_job "$device" --no-fallback
        expect_refusal 0 "$device" || return 1
        [ "$(cat code.0 code.1 | xargs)" = "69 69" ] || { tail code.?; return 1; }
        rm code.?
    done
}

@test "under --no-fallback a lost device ends all ranks with 69" {
    expect_all_69 "faulty:fail=*:cpu"
}

@test "under --no-fallback a device lost in its measurement ends all ranks with 69" {
    local weights=auto
    expect_all_69 faulty:fail=1:cpu
}

@test "under --no-fallback a lost OpenCL device ends all ranks with 69" {
    need_opencl
    expect_all_69 faulty:fail-alloc=1:0:0 faulty:fail-upload=1:0:0 faulty:fail-download=1:0:0
}

# expect_repair DEVICE LEAST MOST: the only wrong element lies in one column of rank 1, and all 47
# are correct afterwards. LEAST to MOST elements are computed again.
expect_repair() {
    device_job "$1" --report report.json
    expect_product 1 || return 1
    [[ "$stderr" == *"mpimatmul: warning: rank 1: "*"1 wrong column in rows 31-61 of matrix 0"* ]] ||
        { show; return 1; }
    report "r['check']['result'] == 'passed after recomputation'" "r['check']['lines_wrong'] == 1" \
        "$2 <= r['check']['lines_recomputed'] <= $3" "r1['lines_wrong'] == 1" "r1['device_replacements'] == 1"
}

@test "a wrong element is found, computed again and counted" {
    expect_repair "faulty:corrupt=1:cpu" 47 47
    # In the second cut, of four parts, each part has a wrong element. The plain loops compute
    # these.
    expect_repair "faulty:corrupt=*:cpu" 48 51
}

@test "a wrong element of an OpenCL device is found, computed again and counted" {
    need_opencl
    expect_repair "faulty:corrupt=1:0:0" 47 47
}

@test "a repeated wrong result ends with 79 and no result file" {
    device_job "faulty:corrupt=*,everywhere:cpu"
    expect_refusal 79 "rank 1: result is wrong in rows "
    rm D.bin
    device_job "faulty:corrupt=*:reference"
    expect_status 79
    [ "$(count_lines)" -eq 1 ] && [ ! -e D.bin ] && [ ! -e D.bin.part ]
}

# The check finds the wrong element: without the check the same job succeeds with a wrong file.
@test "with --verify off a wrong element remains in the result" {
    device_job "faulty:corrupt=*:cpu" --verify off --report report.json
    expect_status 0
    [ "$(count_lines)" -eq 0 ]
    report "r['check']['result'] == 'off'" "r['check']['lines_wrong'] == 0"
    run is_product D.bin
    [ "$status" -ne 0 ] && [[ "$output" == *"not the product"* ]]
}

@test "a device that is absent or malformed on one rank is refused" {
    device_job 7:7
    expect_refusal 69 "'7:7'"
    device_job gpu:x
    expect_refusal 64 "--device"
    device_job faulty:fail=*:7:7
    expect_refusal 69 "'7:7'"
}

@test "differing options are both named where they must agree, and devices may differ" {
    job "--alpha 2" "--alpha 3" --device cpu
    expect_refusal 64 "rank 1 has 'alpha=3', root has 'alpha=2'"
    job "--device reference --threads 1" "--device faulty:delay=1ms:cpu" --weights auto
    expect_product 0
}

# The rank that leads the node does not need OpenCL, the other one does.
@test "one rank uses the CPU by name, the other an OpenCL device" {
    need_opencl
    job "--device cpu" "--device 0:0" --weights 1,2 --report report.json
    expect_product 0
    report "[x['device'] for x in r['ranks']] == ['cpu', '0:0']"
}

# ----------------------------------------------------------------------------------------- OpenCL itself

@test "without any OpenCL, auto takes the CPU and a GPU named by hand is absent" {
    OCL_ICD_VENDORS=/nonexistent job "" "" --weights equal --report report.json
    expect_product 0
    report "[x['device'] for x in r['ranks']] == ['cpu', 'cpu']"
    cp old.bin D.bin
    OCL_ICD_VENDORS=/nonexistent job "--device gpu" "--device gpu"
    expect_refusal 69 "gpu"
}

@test "a crashing driver is named and left out, and the others work" {
    need_opencl
    bad_driver bad_icd_crash
    OCL_ICD_VENDORS=$PWD/vendors/ job "--device auto" "--device 0:0" --weights equal
    expect_product 1
    [[ "$stderr" == *"mpimatmul: warning: "*bad_icd_crash.so*"crashed (signal 11)"* ]] || { show; return 1; }
}

# ------------------------------------------------------------------------------------------- system calls

need_strace() {
    command -v strace > /dev/null || skip "strace: not installed"
    strace -o /dev/null true 2> /dev/null || skip "strace: may not trace here"
}

# fault CALL ERROR [PATH]: prints the words before a program in which CALL (on PATH) shall fail.
fault() {
    echo "strace --quiet=path-resolution -o trace${3:+ -P $3} -e trace=$1 -e inject=$1:error=$2"
}

# The fault was injected, and by no other call.
expect_injected() {
    grep -q INJECTED trace || { echo "nothing was injected"; return 1; }
}

@test "a system call that fails on one rank ends all of them with 71" {
    need_strace
    local wrap_0 wrap_1
    wrap_0=$(fault memfd_create ENOSPC) device_job cpu
    expect_refusal 71 "shared memory: No space left on device"
    expect_injected
    wrap_0=$(fault fallocate ENOMEM /memfd:mpimatmul) device_job cpu
    expect_refusal 71 "cannot allocate "
    expect_injected
    wrap_1=$(fault mmap ENOMEM /memfd:mpimatmul) device_job cpu
    expect_refusal 71 "shared memory: Cannot allocate memory"
    expect_injected
}

# Rank 1 opens rank 0's segment by process and number, which rank 0 sends first.
@test "a segment that cannot be opened ends all ranks with 71" {
    need_strace
    write_script root 'echo $$ > root.new && mv root.new root.pid' \
        'until [ -e go ]; do sleep 0.05; done' 'exec "$@"'
    write_script other 'until [ -e root.pid ]; do sleep 0.05; done' \
        'for fd in $(seq 11 60); do paths="$paths -P /proc/$(cat root.pid)/fd/$fd"; done' \
        'exec strace --quiet=path-resolution -o trace $paths -e trace=openat -e inject=openat:error=EACCES \
            sh -c "touch go; exec \"\$@\"" sh "$@"'
    wrap_0=./root wrap_1=./other device_job cpu
    expect_refusal 71 "cannot open shared memory "
    expect_injected
}

@test "a result that cannot be written, flushed or renamed ends all ranks with 74" {
    need_strace
    local fault wrap_0
    for fault in "pwrite64 ENOSPC" "pwrite64 EIO:when=3" "fsync EIO"; do
        # shellcheck disable=SC2086 # two words
        wrap_0=$(fault $fault "$(pwd -P)/D.bin.part")
        device_job cpu --dtype float16
        expect_refusal 74 "cannot write 'D.bin': "
        expect_injected
    done
    wrap_0=$(fault rename EIO D.bin.part)
    device_job cpu
    expect_refusal 74 "cannot write 'D.bin': "
    expect_injected
}

# Elements of 64 bits are read and narrowed. Other types are used in place.
@test "an input that becomes unreadable ends all ranks with 66" {
    need_strace
    local wrap_0
    py -c 'import numpy; [numpy.save(open(f, "wb"), numpy.ones(s)) for f, s in
        (("A.bin", (61, 203)), ("B.bin", (203, 47)))]'
    wrap_0=$(fault pread64 EIO "$(pwd -P)/A.bin") device_job cpu --quiet --dtype float32
    expect_refusal 66 "'A.bin': Input/output error"
    expect_injected
    wrap_0="$(fault pread64 EIO "$(pwd -P)/B.bin"):when=3" device_job cpu --quiet --dtype float32
    expect_refusal 66 "'B.bin': Input/output error"
    expect_injected
}

# -------------------------------------------------------------------------------------------------- files

# wait_for FILE [SECONDS]: waits ten seconds at most by default.
wait_for() {
    local i
    for ((i = 0; i < ${2:-10} * 10; i++)); do
        [ ! -e "$1" ] || return 0
        sleep 0.1
    done
    echo "no $1 after ${2:-10} s"
    return 1
}

# wait_for_segment: waits, ten seconds at most, until the job that ./record started has the node's
# memory.
wait_for_segment() {
    local i
    wait_for D.bin.part || return 1
    for ((i = 0; i < 100; i++)); do
        ! grep -qs memfd:mpimatmul "/proc/$(< pid)/maps" || return 0
        kill -0 "$(< pid)" 2> /dev/null || break
        sleep 0.1
    done
    echo "no segment, or no job any more, after $((i / 10)) s" >&2
    return 1
}

# A 16-bit result is written to the file, a 32-bit one is computed in place. The limit is set while
# rank 1 computes: by then the file's space is reserved and the node's segment exists.
@test "a file size limit set during the run ends all ranks with 71" {
    write_script record 'echo $$ > pid' 'exec "$@"'
    {
        wait_for_segment
        prlimit --pid "$(< pid)" --fsize=4096
    } 3>&- &
    wrap_0=./record device_job faulty:delay=2s:cpu --dtype float16
    wait $!
    expect_refusal 71 "cannot write 'D.bin': the limit on file size (ulimit -f) is 4.0 KiB"
}

@test "a full disk ends all ranks with 74" {
    [ "$(id -u)" -eq 0 ] || skip "root: a disk is mounted"
    mkdir small
    mount -t tmpfs -o size=8k none small 2> /dev/null || skip "root: mount is not permitted"
    cp old.bin small/D.bin
    run --separate-stderr timeout 60 mpirun -q -n 2 \
        ./rank "$MPIMATMUL" mul A.bin B.bin -o small/D.bin --device cpu --weights equal < /dev/null
    take_stderr
    local found
    found=$(cd small && echo * && cmp D.bin ../old.bin)
    umount small
    expect_refusal 74 "cannot write 'small/D.bin': "
    [[ "$stderr" == *"No space left on device"* ]]
    [ "$found" = D.bin ]
}

# The output is created before devices are measured, which here takes two seconds. The files are
# read afterwards.
@test "an input that gets shorter between plan and run ends all ranks with 65" {
    { wait_for D.bin.part && truncate -s 20000 A.bin; } 3>&- &
    job "--device cpu" "--device faulty:delay=500ms:cpu" --weights auto
    wait $!
    expect_refusal 65 "'A.bin' has become shorter"
}

# --------------------------------------------------------------------------------------------------- ranks

# A killed root cannot clean up. The next run does and says so. A root that mpirun ends prints a
# line if it is given the time.
@test "a rank that is killed during the run ends the job, and the old result stays" {
    local victim
    write_script record 'echo $$ > "pid.$OMPI_COMM_WORLD_RANK"' 'exec "$@"'
    for victim in 1 0; do
        rm -f pid.? D.bin.part
        { wait_for D.bin.part && sleep 0.5 && kill -KILL "$(< pid.$victim)"; } 3>&- &
        wrap_0=./record wrap_1=./record device_job faulty:delay=50s:cpu
        wait $!
        expect_status 137
        [ -z "${stderr/#mpimatmul: stopped by SIGTERM: no result was written/}" ] || { show; return 1; }
        [ "$(count_lines)" -le "$victim" ] && [ -z "$output" ]
        cmp old.bin D.bin
    done
    [ -e D.bin.part ]
    device_job cpu
    expect_product 1
    [[ "$stderr" == *"mpimatmul: warning: 'D.bin.part' replaces a file left by a killed run"* ]]
}

@test "ranks of different versions end with 71 and both versions" {
    local version
    version=$("$MPIMATMUL" --version)
    version=${version#mpimatmul }
    local other=9${version#?}  # the linker may merge the end of another string with this one
    mkdir -p other/bin other/lib
    cp "$MPIMATMUL" other/bin/
    cp -P "$BUILD"/lib/libmpimatmul.so* other/lib/
    sed -i "s/\x00${version//./\\.}\x00/\x00$other\x00/g" other/bin/mpimatmul "other/lib/libmpimatmul.so.$version"
    [ "$(other/bin/mpimatmul --version)" = "mpimatmul $other" ]
    run --separate-stderr timeout 60 mpirun -q -n 1 ./rank "$MPIMATMUL" mul A.bin B.bin -o D.bin --device cpu \
        : -n 1 ./rank other/bin/mpimatmul mul A.bin B.bin -o D.bin --device cpu < /dev/null
    take_stderr
    expect_refusal 71 "runs mpimatmul $other, root on "
    [[ "$stderr" == *" runs $version"* ]]
}

# ---------------------------------------------------------------------------------------------------- data

# expect_classes DEVICE SPLIT: finite elements equal numpy's, and the others are of the same kind
# (NaN or infinity).
expect_classes() {
    job "--device $1" "--device $1" --weights 2,1 --split "$2"
    expect_status 0 || return 1
    [ "$(count_lines)" -eq 0 ] || { show; return 1; }
    python << 'END'
import numpy as np
from matrices import read_bin
with np.errstate(invalid="ignore"):
    expected = read_bin("A.bin")[1].astype("f8") @ read_bin("B.bin")[1].astype("f8")
found = read_bin("D.bin")[1].astype("f8")
assert np.isnan(expected).sum() > 100 and np.isinf(expected).sum() > 100
wrong = np.argwhere(~((found == expected) | (np.isnan(found) & np.isnan(expected))))
assert len(wrong) == 0, (len(wrong), wrong[0], found[tuple(wrong[0])], expected[tuple(wrong[0])])
END
}

make_classes() {
    python << 'END'
import numpy as np
from matrices import integers, write_bin
a, b = integers(7, 61, 83), integers(8, 83, 47)
a[5, 7], a[5, 9], a[40, 0], a[41, 82], a[42, 3], a[42, 4] = np.nan, np.inf, np.inf, -np.inf, np.inf, -np.inf
b[11, 13], b[12, 20], b[0, 30], b[0, 31] = np.nan, -np.inf, 0, np.inf
a[50, :], a[50, 1] = 0, np.inf
write_bin("A.bin", a)
write_bin("B.bin", b)
END
}

@test "NaN and infinity are at numpy's places" {
    make_classes
    expect_classes cpu rows
    expect_classes reference cols
}

@test "NaN and infinity from an OpenCL device are at numpy's places" {
    need_opencl
    make_classes
    expect_classes 0:0 rows
    expect_classes 0:0 cols
}

# This test stands last because its job was started first.
@test "a hanging driver is named and left out" {
    cd "$HANG"
    wait_for code 60
    status=$(< code) output=$(< out) stderr=$(< err)
    expect_product 2
    [[ "$stderr" == "mpimatmul: waiting for OpenCL drivers to list their devices ("*bad_icd_hang.so*"), at most 10 s
mpimatmul: warning: "*bad_icd_hang.so*"did not answer"* ]] || { show; return 1; }
}
