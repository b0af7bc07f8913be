#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# mpimatmul retry: codes that another try follows and those that end the tries, hosts that are left
# out of mpirun's options, and signals. A script named mpirun replaces Open MPI's. The agent in
# place of ssh runs commands on this machine, unless the file `off` lists the host.
# shellcheck disable=SC2154,SC2016 # status, output and stderr are set by bats; scripts are written in quotes
load helper

setup() {
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return 1
    # Ends with the next code of the file `codes`, 0 behind its end. Lists its words in `starts`, and
    # the hosts of a hostfile with them.
    printf '%s\n' '#!/bin/bash' 'words=("$@")' \
        'for ((i = 0; i < $#; i++)); do' \
        '    [ "${words[i]}" != --hostfile ] || words[i + 1]="{$(paste -s -d ";" "${words[i + 1]}")}"' \
        'done' 'printf "%s\n" "${words[*]}" >> starts' \
        'code=$(head -n 1 codes)' 'sed -i 1d codes' 'exit "${code:-0}"' > mpirun
    printf '%s\n' '#!/bin/sh' 'if grep -q -x "$1" off; then exit 255; fi' 'shift' 'exec sh -c "$*"' > agent
    chmod 755 mpirun agent
    : > off
    : > codes
    export OMPI_MCA_plm_rsh_agent=$PWD/agent TMPDIR=$PWD PATH=$PWD:$PATH
    printf 'a slots=2\n# comment\nb slots=1 # b\na slots=1\nc\n' > hosts
}

# retry CODES WORDS...: runs mpirun with these words, with these codes of its starts.
retry() {
    tr ' ' '\n' <<< "$1" > codes
    rm -f starts
    run --separate-stderr "$MPIMATMUL" retry --tries 3 -- mpirun "${@:2}" < /dev/null
}

# expect_tries CODE LINE...: the exit code and the lines on stderr, behind "mpimatmul: retry: ".
expect_tries() {
    local code=$1 expected=
    shift
    [ $# -eq 0 ] || expected=$(printf 'mpimatmul: retry: %s\n' "$@")
    expect_status "$code" || return 1
    [ "$stderr" = "$expected" ] || { printf 'expected\n%s\n' "$expected"; show; return 1; }
}

# expect_starts WORDS...: one argument for each start of mpirun. No temporary hostfile is left.
expect_starts() {
    diff <(printf '%s\n' "$@") starts && [ -z "$(find . -name 'mpimatmul-hosts-*')" ]
}

@test "another try follows a stopped job, a killed process and a lost host" {
    local code
    for code in 75 137 139 143 205; do
        retry $code -n 2 p
        expect_tries 0 "the command ended with $code; try 2 of 3"
        expect_starts '-n 2 p' '-n 2 p'
    done
    retry "" -n 2 p
    expect_tries 0
    run --separate-stderr "$MPIMATMUL" retry --tries 2 -- sh -c 'kill -KILL $$'
    expect_tries 137 "the command ended with 137; try 2 of 2" "the command ended with 137 in the last try"
}

@test "permanent errors, and unknown codes while all hosts answer, end the tries" {
    local code
    for code in 1 71; do
        retry $code -H a,b p
        expect_tries $code "the command ended with $code: no further try"
    done
    echo b > off
    for code in 64 65 66 69 70 73 74 78 79 126; do
        retry $code -H a,b p
        expect_tries $code "the command ended with $code: no further try"
        expect_starts '-H a,b p'
    done
}

@test "the code of the command is found even if SIGCHLD is ignored" {
    need_numpy
    run --separate-stderr py -c 'import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])' "$MPIMATMUL" retry -- false
    expect_status 1
    [ "$stderr" = "mpimatmul: retry: the command ended with 1: no further try" ]
}

@test "a command that does not exist is not tried again" {
    run -127 --separate-stderr "$MPIMATMUL" retry -- ./missing < /dev/null
    [ "$stderr" = "mpimatmul: retry: cannot start the command: No such file or directory
mpimatmul: retry: the command ended with 127: no further try" ]
}

@test "retry under mpirun is refused" {
    OMPI_COMM_WORLD_RANK=0 run --separate-stderr "$MPIMATMUL" retry -- true < /dev/null
    expect_failure 64 "retry: is itself started by mpirun or srun" "mpimatmul retry -- mpirun ..."
}

@test "an output that is held after a lost host is tried again" {
    retry "205 73" p
    expect_tries 0 "the command ended with 205; try 2 of 3" "the command ended with 73; try 3 of 3"
}

@test "the number of tries is a limit" {
    retry "75 75 75 75" p
    expect_tries 75 "the command ended with 75; try 2 of 3" "the command ended with 75; try 3 of 3" \
        "the command ended with 75 in the last try"
    expect_starts p p p
}

@test "hosts that do not answer are left out of a hostfile, and ranks beyond its slots" {
    echo b > off
    retry "205" --hostfile hosts -np 9 --map-by slot p -n 9
    cores=$("$MPIMATMUL" devices --json | "$PYTHON" -c 'import json, sys
print(json.load(sys.stdin)["nodes"][0]["cores"])')
    left=$((3 + cores < 9 ? 3 + cores : 9))
    expect_tries 0 "b does not answer; try 2 of 3 goes on with 2 hosts"
    expect_starts "--hostfile {a slots=2;# comment;b slots=1 # b;a slots=1;c} -np 9 --map-by slot p -n 9" \
        "--hostfile {a slots=2;# comment;a slots=1;c} -np $left --map-by slot p -n 9"
}

@test "hosts that do not answer are left out of lists, and programs without a host" {
    printf 'b\nc\n' > off
    retry "1" --mca x -n -H a:2,b:3,c -c 4 p -H b : -host c -n 1 q : --host a -n 1 r
    expect_tries 0 "b, c do not answer; try 2 of 3 goes on with 1 host"
    expect_starts '--mca x -n -H a:2,b:3,c -c 4 p -H b : -host c -n 1 q : --host a -n 1 r' \
        '--mca x -n -H a:2 -c 2 p -H b : --host a -n 1 r'
}

@test "a host that answers again is used again" {
    echo b > off
    printf '%s\n' 137 137 > codes
    # The second start brings b back.
    sed -i 's/^code=/[ "$(wc -l < starts)" -lt 2 ] || : > off; code=/' mpirun
    run --separate-stderr "$MPIMATMUL" retry -- mpirun -H a,b p < /dev/null
    expect_tries 0 "b does not answer; try 2 of 5 goes on with 1 host" "the command ended with 137; try 3 of 5"
    expect_starts '-H a,b p' '-H a p' '-H a,b p'
}

@test "the tries end when no host answers, with the last code" {
    printf 'a\nb\nc\n' > off
    retry 205 --machinefile hosts p
    expect_tries 205 "the command ended with 205: no host answers"
}

@test "the agent of the command line is used, and a bad list of hosts only loses the question" {
    unset OMPI_MCA_plm_rsh_agent
    echo b > off
    retry 75 --mca plm_rsh_agent "$PWD/agent" -H a,b p
    expect_tries 0 "b does not answer; try 2 of 3 goes on with 1 host"
    retry 75 -H 'a;b' p
    expect_tries 0 "cannot ask the hosts: --host: 'a;b' is not the name of a host" \
        "the command ended with 75; try 2 of 3"
}

# expect_signal SIGNAL CODE: the job gets a signal that was sent to retry alone, once, and its end
# is the last one.
expect_signal() {
    printf '%s\n' '#!/bin/bash' "trap 'echo got $1 >> got; kill \$!; exit $2' $1" \
        'sleep 20 & echo start >> got; wait' > job
    chmod 755 job
    rm -f got
    (exec "$MPIMATMUL" retry -- ./job 2> errors) 3>&- &
    local retry=$! code=0 i
    for ((i = 0; i < 100; i++)); do
        [ ! -e got ] || break
        sleep 0.05
    done
    kill -"$1" $retry
    wait $retry || code=$?
    [ "$code" -eq "$2" ] && [ "$(cat got)" = "start
got $1" ] && [ "$(cat errors)" = "mpimatmul: retry: the command ended with $2: no further try" ]
}

@test "a signal is passed on, and no further try follows" {
    expect_signal TERM 75
    expect_signal HUP 143
}

@test "a signal in the pause ends the tries" {
    printf '%s\n' 75 75 75 > codes
    (exec "$MPIMATMUL" retry -- mpirun p 2> errors) 3>&- &
    local retry=$! code=0 i
    for ((i = 0; i < 200; i++)); do
        ! grep -q 'try 3 of 5' errors 2> /dev/null || break
        sleep 0.05
    done
    kill $retry
    wait $retry || code=$?
    [ "$code" -eq 75 ] && [ "$(tail -n 1 errors)" = "mpimatmul: retry: the command ended with 75: no further try" ]
    expect_starts p p
}

@test "Ctrl-C reaches the job once, and no further try follows" {
    cat > terminal.py << 'END'
import os, pty, sys, time
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], [sys.argv[1], "retry", "--", "./job"])
while not os.path.exists("got"):
    time.sleep(0.05)
os.write(terminal, b"\x03")
time.sleep(0.5)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
END
    printf '%s\n' '#!/bin/bash' "trap 'echo got >> got' INT" 'echo start >> got' \
        'sleep 1 & wait; sleep 1; exit 75' > job
    chmod 755 job
    run --separate-stderr timeout 20 "$PYTHON" terminal.py "$MPIMATMUL" < /dev/null
    expect_status 75
    [ "$(cat got)" = "start
got" ]
}

@test "a training under retry is killed again and again and ends right" {
    need_plain "it takes too long"
    need_numpy
    printf '%s\n' 'w = load("w.npy")' 'state, first = restore("state.safetensors", (w,))' \
        'for turn in loop(first, 60):' '    state = (state[0] @ load("p.npy") + 1,)' \
        '    checkpoint("state.safetensors", state, turn=turn + 1)' 'save("r.npy", state[0])' > t.py
    "$MPIMATMUL" gen w.npy --dims 31x31 --kind integer --seed 1 --quiet
    "$MPIMATMUL" gen p.npy --dims 31x31 --kind identity --quiet
    # Kills the job of every start but the last in its first seconds.
    printf '%s\n' '#!/bin/bash' 'echo start >> starts' \
        '/usr/bin/env -u PATH_BEFORE PATH="$PATH_BEFORE" mpirun "$@" < /dev/null & job=$!' \
        'if [ "$(wc -l < starts)" -lt 4 ]; then' \
        '    for ((i = 0; i < 200; i++)); do [ ! -e state.safetensors ] || break; sleep 0.02; done' \
        '    sleep 0.$((RANDOM % 4)); kill -KILL $job' 'fi' 'wait $job' > mpirun
    PATH_BEFORE=${PATH#*:} run --separate-stderr "$MPIMATMUL" retry -- mpirun -q -n 2 "$MPIMATMUL" run t.py \
        --quiet --device faulty:delay=50ms:cpu < /dev/null
    expect_status 0
    [ "$(wc -l < starts)" -eq 4 ]
    python << 'END'
import numpy as np
assert np.array_equal(np.load("r.npy"), np.load("w.npy") + 60)
END
}
