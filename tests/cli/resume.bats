#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# --resume: a product that was killed continues from its journal, and refuses a journal that does not fit.
# shellcheck disable=SC2154,SC2030,SC2031 # status, output and stderr are set by bats
load helper

setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
    "$MPIMATMUL" gen A.npy --dims 8192x32 --kind integer --seed 1
    "$MPIMATMUL" gen B.npy --dims 32x24 --kind integer --seed 2
    launcher=()
    slow=(--weights equal --device faulty:delay=300ms:cpu --journal-seconds 0.001 --resume)
}

# Prints the number of entries in the journal.
entries() {
    if [ -e C.npy.journal ]; then grep -c '^done' C.npy.journal; else echo 0; fi
}

# killed ENTRIES ARGUMENT...: starts a product and kills it when its journal has this many entries.
killed() {
    local least=$1 process i
    shift
    "${launcher[@]}" "$MPIMATMUL" mul "$@" -o C.npy --quiet "${slow[@]}" 3>&- &
    process=$!
    for ((i = 0; i < 400; i++)); do
        [ "$(entries)" -ge "$least" ] && break
        sleep 0.02
    done
    kill -9 "$process"
    wait "$process" 2>/dev/null || true
    [ -e C.npy.part ] && [ ! -e C.npy ] && [ "$(entries)" -ge "$least" ] && return
    ls -l
    return 1
}

# expect EXPRESSION: C.npy is equal to this expression of numpy.
expect() {
    "$PYTHON" -c "import numpy as np, json
A, B = np.load('A.npy').astype(float), np.load('B.npy').astype(float)
C = np.load('C.npy')
assert C.shape == ($1).shape and np.array_equal(C, $1), C.shape" && [ ! -e C.npy.part ] && [ ! -e C.npy.journal ]
}

# resumed FIELD: prints a field of what the report says of the earlier run.
resumed() {
    "$PYTHON" -c "import json; print(json.load(open('r.json'))['resumed']['$1'])"
}

@test "a product that was killed twice continues with other ranks and another axis, and computes the rest only" {
    killed 2 A.npy B.npy
    killed 4 A.npy B.npy
    run --separate-stderr mpirun -q --oversubscribe -n 2 "$MPIMATMUL" mul A.npy B.npy -o C.npy --split cols --resume \
        --report r.json < /dev/null
    [ "$status" -eq 0 ] || { show; return 1; }
    expect "A @ B"
    [ "$(resumed complete)" -ge 4096 ] && [ "$(resumed total) $(resumed lines)" = "8192 rows" ]
    [ "$stderr" = "mpimatmul: resume: $(resumed complete) of 8192 rows of 'C.npy' are complete" ]
    "$PYTHON" -c "import json; r = json.load(open('r.json'))
assert r['problem']['m'] == 8192 - r['resumed']['complete'], r['problem']"
}

@test "columns, transposes, --beta and float64 continue" {
    "$PYTHON" -c "import numpy as np
np.save('A.npy', np.load('A.npy').T.copy().astype('f8')); np.save('B.npy', np.load('B.npy').T.copy().astype('f8'))
np.save('D.npy', (np.arange(8192 * 24) % 9).reshape(24, 8192).astype('f8'))"
    local arguments=(B.npy A.npy --c-in D.npy --beta 2 --alpha 3 --split cols)
    killed 4 "${arguments[@]}"
    "$MPIMATMUL" mul "${arguments[@]}" -o C.npy --resume --quiet --report r.json
    expect "3 * B @ A + 2 * np.load('D.npy')"
    [ "$(resumed complete)" -ge 4096 ] && [ "$(resumed lines)" = columns ]
}

@test "lines with other bytes are computed again, and so is a torn last entry" {
    killed 3 A.npy B.npy
    printf 'done 0 4096 5' >> C.npy.journal
    "$PYTHON" -c "f = open('C.npy.part', 'r+b'); f.seek(128 + 1500 * 96); f.write(b'spoiled')"
    run --separate-stderr "$MPIMATMUL" mul A.npy B.npy -o C.npy --resume --report r.json
    [ "$status" -eq 0 ] || { show; return 1; }
    expect "A @ B"
    [[ $stderr = "mpimatmul: warning: 'C.npy': 1024 recorded rows are not in the file: computed again
mpimatmul: resume: "* ]]
}

# refuses TEXT ARGUMENT...: the product is refused with this reason, and nothing is touched.
refuses() {
    local text=$1 before
    shift
    before=$(cat C.npy.part C.npy.journal | cksum)
    run --separate-stderr "$MPIMATMUL" mul "$@" -o C.npy --resume
    local hint="  hint: remove 'C.npy.journal' to start again, or leave out --resume"
    # shellcheck disable=SC2053 # a pattern
    [ "$status" -eq 65 ] && [[ ${stderr_lines[0]} = "mpimatmul: cannot resume 'C.npy': "$text ]] &&
        [ "${stderr_lines[1]}" = "$hint" ] && [ "${#stderr_lines[@]}" -eq 2 ] &&
        [ "$(cat C.npy.part C.npy.journal | cksum)" = "$before" ] && return
    show
    return 1
}

@test "a journal of another product, of other inputs, or a damaged one is refused" {
    killed 2 A.npy B.npy
    refuses "its journal has another alpha: 1, this job has 2" A.npy B.npy --alpha 2
    cp -p B.npy kept.npy
    touch B.npy
    refuses "its journal has another time of B: *" A.npy B.npy
    cp -p kept.npy B.npy
    sed -i '5s/./x/' C.npy.journal
    refuses "line 5 of 'C.npy.journal' is damaged" A.npy B.npy
    "$MPIMATMUL" mul A.npy B.npy -o C.npy --quiet # starts anew and leaves nothing
    expect "A @ B"
}

@test "a rank that outlives root keeps other jobs from the file that it still writes" {
    local i launcher line
    "${launch[@]}" -n 2 "$(recorder)" "$MPIMATMUL" mul A.npy B.npy -o C.npy --quiet --resume --journal-seconds 0.001 \
        --weights equal --tail off --device faulty:delay=1500ms,garble=3,everywhere:cpu > out 2>&1 < /dev/null 3>&- &
    launcher=$!
    for ((i = 0; i < 400; i++)); do
        [ "$(entries)" -lt 2 ] || break
        sleep 0.02
    done
    kill -STOP "$launcher" # it would end rank 1
    kill -9 "$(< pid.0)"
    run --separate-stderr "$MPIMATMUL" mul A.npy B.npy -o C.npy --resume
    line="mpimatmul: cannot create 'C.npy': process $(< pid.1) on * is writing it ('C.npy.part' is locked)"
    # shellcheck disable=SC2053 # a pattern
    [ "$status" -eq 73 ] && [[ ${stderr_lines[0]} = $line ]] || { show; return 1; }
    [ "${stderr_lines[1]}" = "  hint: wait for the other run, or give another output name" ]
    kill -9 "$launcher" "$(< pid.1)"
    wait "$launcher" || true
    "$MPIMATMUL" mul A.npy B.npy -o C.npy --resume --quiet --report r.json
    expect "A @ B"
    [ "$(resumed complete)" -ge 1024 ]
}

@test "a stack continues with its missing matrices" {
    "$PYTHON" -c "import numpy as np
draw = np.random.default_rng(1)
np.save('A.npy', draw.integers(-4, 5, (2, 15, 300, 20)).astype('f4'))
np.save('B.npy', draw.integers(-4, 5, (2, 1, 20, 24)).astype('f4')) # repeats
np.save('D.npy', draw.integers(-4, 5, (2, 15, 1, 24)).astype('f4'))"
    local arguments=(A.npy B.npy --c-in D.npy --beta 3 --tail off)
    killed 3 "${arguments[@]}"
    "$MPIMATMUL" mul "${arguments[@]}" -o C.npy --resume --quiet --report r.json
    expect "A @ B + 3 * np.load('D.npy')"
    [ "$(resumed complete)" -ge 3 ] && [ "$(resumed total) $(resumed lines)" = "30 matrices" ]
}

# 16 bits are rounded on their way into the file, so they are recorded round by round.
@test "a 16-bit result continues" {
    "$MPIMATMUL" gen A.npy --dims 6000x64 --kind integer --seed 1 --dtype float16
    "$MPIMATMUL" gen B.npy --dims 64x900 --kind integer --seed 2 --dtype float16
    killed 2 A.npy B.npy
    killed 4 A.npy B.npy
    "$MPIMATMUL" mul A.npy B.npy -o C.npy --resume --quiet --report r.json
    expect "(A @ B).astype('f2')"
    [ "$(resumed complete)" -ge 4000 ]
}

# Each of two ranks has begun its half. The missing rows then lie apart in the file.
@test "rows that lie apart are recorded, too" {
    launcher=(mpirun -q -n 2)
    killed 2 A.npy B.npy --tail off
    launcher=()
    killed 4 A.npy B.npy
    "$MPIMATMUL" mul A.npy B.npy -o C.npy --resume --quiet --report r.json
    expect "A @ B"
    [ "$(resumed complete)" -ge 4000 ]
}

@test "a product beyond --memory continues in its passes" {
    "$PYTHON" -c "import numpy as np
np.save('A.npy', np.asfortranarray(np.load('A.npy'))); np.save('B.npy', np.asfortranarray(np.load('B.npy')))" # copied
    local least
    least=$("$MPIMATMUL" mul A.npy B.npy -o C.npy --memory 1MiB 2>&1 | sed -n 's/.*--memory \(.*\) is enough.*/\1/p')
    killed 3 A.npy B.npy --memory "$least"
    "$MPIMATMUL" mul A.npy B.npy -o C.npy --resume --quiet --memory "$least" --report r.json
    expect "A @ B"
    [ "$(resumed complete)" -ge 1024 ]
}

@test "a second job is refused while the first still runs" {
    "$MPIMATMUL" mul A.npy B.npy -o C.npy --quiet "${slow[@]}" --device faulty:delay=600ms:cpu 3>&- &
    local first=$! line i
    for ((i = 0; i < 400; i++)); do
        [ ! -e C.npy.journal ] || break
        sleep 0.01
    done
    run --separate-stderr "$MPIMATMUL" mul A.npy B.npy -o C.npy --resume
    line="mpimatmul: cannot create 'C.npy': process $first on * is writing it ('C.npy.part' is locked)"
    # shellcheck disable=SC2053 # a pattern
    [ "$status" -eq 73 ] && [[ ${stderr_lines[0]} = $line ]] || { show; return 1; }
    wait "$first"
    expect "A @ B"
    # Results of one name in two folders, and one folder for their journals.
    mkdir x y
    "$MPIMATMUL" mul A.npy B.npy -o x/C.npy --quiet "${slow[@]}" --device faulty:delay=600ms:cpu --journal . 3>&- &
    first=$!
    for ((i = 0; i < 400; i++)); do
        [ ! -s C.npy.journal ] || break
        sleep 0.01
    done
    run --separate-stderr "$MPIMATMUL" mul A.npy B.npy -o y/C.npy --resume --journal .
    [ "$status" -eq 73 ] && [ "$stderr" = "mpimatmul: cannot use './C.npy.journal': another job is writing it
  hint: wait for the other job, or give another --journal" ] || { show; return 1; }
    wait "$first"
    [ -e x/C.npy ] && [ -z "$(ls y)" ]
}

# forge SED: changes lines of the journal and gives them their checksums.
forge() {
    sed -i -E "s/\t[0-9a-f]{8}\$//;$1" C.npy.journal
    "$PYTHON" -c "import ctypes
digest = ctypes.CDLL('libxxhash.so.0').XXH3_64bits
digest.restype, digest.argtypes = ctypes.c_uint64, [ctypes.c_char_p, ctypes.c_size_t]
lines = open('C.npy.journal', 'rb').read().splitlines()
lines = [b'%s\t%08x\n' % (x, digest(x, len(x)) & 0xffffffff) for x in lines]
open('C.npy.journal', 'wb').write(b''.join(lines))"
}

@test "a journal of another version, operation, type or input is refused with its line" {
    local version
    version=$("$MPIMATMUL" --version | sed 's/.* //;1q')
    "$MPIMATMUL" gen B2.npy --dims 32x24 --kind integer --seed 3
    "$MPIMATMUL" gen T.npy --dims 32x8192 --kind integer --seed 4
    "$MPIMATMUL" gen D.npy --dims 1x24 --kind integer --seed 5
    killed 3 A.npy B.npy
    cp C.npy.journal kept
    forge ''
    cmp C.npy.journal kept
    forge '1s/journal 1/journal 2/'
    refuses "'C.npy.journal' begins with 'mpimatmul journal 2', expected 'mpimatmul journal 1'" A.npy B.npy
    cp kept C.npy.journal
    forge '2s/.*/version: 0.0.1/'
    refuses "its journal has another version: 0.0.1, this job has $version" A.npy B.npy
    cp kept C.npy.journal
    forge '3s/.*/operation: run/'
    refuses "its journal has another operation: run, this job has mul" A.npy B.npy
    cp kept C.npy.journal
    forge '7s/.*/extra: 1/'
    refuses "its journal has 'extra: 1', this job has alpha" A.npy B.npy
    cp kept C.npy.journal
    refuses "its journal has another file of B: $PWD/B.npy, this job has $PWD/B2.npy" A.npy B2.npy
    refuses "its journal has another orientation of A: as stored, this job has transposed" T.npy B.npy --transpose-a
    refuses "its journal has another beta: 0, this job has 1" A.npy B.npy --beta 1 --c-in D.npy
    cp -p B.npy B.kept
    "$PYTHON" -c "import os
s = os.stat('B.npy'); f = open('B.npy', 'r+b'); f.seek(128 + 4 * 700); f.write(b'spoiled'); f.close()
os.utime('B.npy', ns=(s.st_atime_ns, s.st_mtime_ns))" # the same size and time
    refuses "its journal has another content of B: *" A.npy B.npy
    cp -p B.kept B.npy
    cp -p B.npy B.data && mv B.data B.npy # another inode is no other content
    # shellcheck disable=SC2016 # the last line
    forge '$s/.*/done 0 8000 9000 0 24 00/'
    refuses "'done 0 8000 9000 0 24 00' in 'C.npy.journal' is no entry" A.npy B.npy
    cp kept C.npy.journal
    "$MPIMATMUL" mul A.npy B.npy -o C.npy --resume --quiet --report r.json
    expect "A @ B"
    [ "$(resumed complete)" -ge 2048 ]
}

@test "results that cannot be continued are refused" {
    local arguments hint="  hint: name the result .bin, .npy or .safetensors, or leave out --resume"
    run --separate-stderr "$MPIMATMUL" mul A.npy B.npy -o C.csv --resume
    [ "$status" -eq 64 ] || { show; return 1; }
    [ "$stderr" = "mpimatmul: cannot resume 'C.csv': its elements are packed when all of them are there
$hint" ] || { show; return 1; }
    run --separate-stderr "$MPIMATMUL" mul A.npy B.npy -o - --resume
    [ "$status" -eq 64 ] && [ "$stderr" = "mpimatmul: cannot resume '-': it is not a file
$hint" ] || { show; return 1; }
    for arguments in "--activation relu" "--keep" "--dry-run"; do
        # shellcheck disable=SC2086 # one or two words
        run --separate-stderr "$MPIMATMUL" mul A.npy B.npy -o C.npy --resume $arguments
        [ "$status" -eq 64 ] || { show; return 1; }
    done
    [ "$(echo C*)" = "C*" ]
}

@test "--journal DIR holds the journal" {
    mkdir elsewhere
    slow+=(--journal elsewhere)
    "$MPIMATMUL" mul A.npy B.npy -o C.npy --quiet "${slow[@]}" 3>&- &
    sleep 1.2
    [ -e elsewhere/C.npy.journal ] && [ ! -e C.npy.journal ]
    kill -9 $!
    "$MPIMATMUL" mul A.npy B.npy -o C.npy --quiet --resume --journal elsewhere --report r.json
    expect "A @ B"
    [ "$(resumed complete)" -gt 0 ] && [ ! -e elsewhere/C.npy.journal ]
}

@test "--journal and --journal-seconds need --resume, but their variables do not" {
    for arguments in "--journal ." "--journal-seconds 1"; do
        # shellcheck disable=SC2086 # two words
        run --separate-stderr "$MPIMATMUL" mul A.npy B.npy -o C.npy $arguments
        [ "$status" -eq 64 ] && [[ ${stderr_lines[0]} = "mpimatmul: "*"${arguments% *} needs --resume" ]] ||
            { show; return 1; }
        [ ! -e C.npy ]
    done
    MPIMATMUL_JOURNAL=. "$MPIMATMUL" mul A.npy B.npy -o C.npy --quiet
    expect "A @ B"
}

@test "with nothing to continue the whole product is computed" {
    run --separate-stderr "$MPIMATMUL" mul A.npy B.npy -o C.npy --resume --report r.json
    [ "$status" -eq 0 ] && [ "$stderr" = "" ] || { show; return 1; }
    expect "A @ B"
    [ "$(resumed complete)" -eq 0 ]
}

# interrupted SIGNAL... -- COMMAND...: starts the product with one block under way, sends the signals, and sets code.
# The journal gets no entry before.
interrupted() {
    local signals=() i signal
    while [ "$1" != -- ]; do
        signals+=("$1")
        shift
    done
    shift
    # Ctrl-C does not reach what a script starts in the background.
    env --default-signal=INT,TERM "$@" mul A.npy B.npy -o C.npy --resume --journal-seconds 100 --quiet --weights equal \
        --device "faulty:delay=$delay:cpu" > out 2> err < /dev/null 3>&- &
    for ((i = 0; i < 400; i++)); do
        [ ! -s C.npy.journal ] || break
        sleep 0.02
    done
    sleep "$pause"
    for signal in "${signals[@]}"; do
        kill "-$signal" $!
        sleep 0.1
    done
    code=0
    wait $! || code=$?
    if [ ! -e C.npy.part ] || [ ! -e C.npy.journal ] || [ -e C.npy ]; then
        cat err
        return 1
    fi
}

@test "Ctrl-C ends the job after the work in flight, which is recorded" {
    delay=2s pause=0.5 interrupted INT -- "$MPIMATMUL"
    [ "$code" -eq 75 ] && [ "$(cat err)" = "mpimatmul: stopped by SIGINT: no result was written
  hint: the same command continues it" ] || { cat err; return 1; }
    [ "$(entries)" -eq 1 ]
    "$MPIMATMUL" mul A.npy B.npy -o C.npy --resume --quiet --report r.json
    expect "A @ B"
    [ "$(resumed complete)" -eq 1024 ]
}

@test "a second Ctrl-C ends the job at once" {
    delay=100s pause=0.5 interrupted INT INT -- timeout --foreground 60 "$MPIMATMUL"
    [ "$code" -eq 75 ] && [ "$(cat err)" = "mpimatmul: stopped by SIGINT: no result was written
mpimatmul: the same command continues 'C.npy'" ] || { cat err; return 1; }
    [ "$(entries)" -eq 0 ]
}

# mpirun kills the ranks a second after it has passed a signal on.
@test "a job of mpirun records what is complete before it ends" {
    delay=600ms pause=1 interrupted INT -- mpirun -q -n 2 "$MPIMATMUL"
    [ "$code" -eq 1 ] && [ "$(cat err)" = "mpimatmul: stopped by SIGTERM: no result was written
mpimatmul: the same command continues 'C.npy'" ] || { cat err; return 1; }
    [ "$(entries)" -ge 1 ]
    "$MPIMATMUL" mul A.npy B.npy -o C.npy --resume --quiet --report r.json
    expect "A @ B"
    [ "$(resumed complete)" -ge 2048 ]
}

@test "SIGTERM, which a SIGKILL may follow, ends the job at once, and what is complete is recorded" {
    delay=600ms pause=1 interrupted TERM -- "$MPIMATMUL"
    [ "$code" -eq 75 ] && [ "$(cat err)" = "mpimatmul: stopped by SIGTERM: no result was written
mpimatmul: the same command continues 'C.npy'" ] || { cat err; return 1; }
    [ "$(entries)" -ge 1 ]
}

@test "random products survive ten kills" {
    need_plain "devices are slow enough"
    need_numpy
    run "$PYTHON" "$REPO/tests/kill_resume.py" 10 1
    [ "$status" -eq 0 ] || { show; return 1; }
    [[ ${lines[-1]} =~ ^[0-9]+" jobs, 10 kills, "[1-9][0-9]*" after entries, ".*", 0 wrong"$ ]] || { show; return 1; }
}
