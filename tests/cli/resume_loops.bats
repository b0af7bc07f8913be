#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# run --resume: a text that was killed continues with the turn that its journal has, in nested loops too, with every
# kind of value, and refuses a journal that does not fit.
# shellcheck disable=SC2154,SC2030,SC2031 # status, output and stderr are set by bats
load helper

setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
    "$MPIMATMUL" gen A.npy --dims 32x32 --kind integer --seed 1
    cat > t.py <<'END'
turns = 12
a = load("A.npy")
s = a
for i in loop(turns):
    s = s + a.T + i
t = s.T
for i in loop(turns):
    t = t + a
save("s.npy", s)
save("t.npy", t)
END
    resume=(--resume --journal-seconds 0.001 --device faulty:delay=150ms:cpu)
}

# states: prints the number of states in the journal of t.py.
states() {
    if [ -e t.py.journal ]; then grep -c '^loop' t.py.journal; else echo 0; fi
}

# killed STATES [ARGUMENT...]: starts the text and kills it when its journal has this many states.
killed() {
    local least=$1 process i
    shift
    "$MPIMATMUL" run t.py "${resume[@]}" "$@" > killed.out 2>&1 3>&- &
    process=$!
    for ((i = 0; i < 800; i++)); do
        [ "$(states)" -ge "$least" ] && break
        sleep 0.02
    done
    kill -9 "$process"
    wait "$process" 2>/dev/null || true
    [ "$(states)" -ge "$least" ] && [ ! -e s.npy ] && return
    ls -l; cat killed.out
    return 1
}

# expect FILE EXPRESSION: the file is equal to this expression of numpy, and nothing is left of the journal.
expect() {
    "$PYTHON" -c "import numpy as np
A, got = np.load('A.npy').astype(float), np.load('$1')
assert np.array_equal(got, $2), (got, $2)" && [ -z "$(find . -name '*journal*')" ]
}

# resumed LINE [ARGUMENT...]: the text continues, says this line on stderr, and ends well.
resumed() {
    local line=$1
    shift
    run --separate-stderr "$MPIMATMUL" run t.py --resume "$@"
    if [ "$status" -ne 0 ] || [ "$stderr" != "$line" ]; then show; return 1; fi
}

# refused STATUS LINE [ARGUMENT...]: the text fails with this status and, as its first line, this one.
refused() {
    local expected=$1 line=$2
    shift 2
    run --separate-stderr "$MPIMATMUL" run t.py --resume "$@"
    if [ "$status" -ne "$expected" ] || [ "${stderr_lines[0]}" != "$line" ]; then show; return 1; fi
}

continues="mpimatmul: resume: the loop of line 4 continues from turn"
another="mpimatmul: cannot resume 't.py': its journal has another"
both="A + 12 * A.T + 66"

@test "a text that was killed twice continues on two ranks behind the last recorded turn, and leaves no journal" {
    killed 1
    killed 2
    first=$(sed -n 's/.*continues from turn \([0-9]*\).*/\1/p' killed.out)
    [ "$first" -ge 1 ]
    run --separate-stderr mpirun -q --oversubscribe -n 2 "$MPIMATMUL" run t.py --resume < /dev/null
    [ "$status" -eq 0 ] || { show; return 1; }
    [[ "$stderr" =~ ^"$continues "([0-9]+)$ ]] || { show; return 1; }
    [ "${BASH_REMATCH[1]}" -gt "$first" ]
    expect s.npy "$both"
    expect t.npy "($both).T + 12 * A"
}

@test "a loop that has ended by break is not run again, and the text behind it is" {
    cat > t.py <<'END'
a = load("A.npy")
s = a
for i in loop(900):
    s = a + i
    if i == 199:
        break
print("behind")
for i in loop(12):
    s = s + a
save("s.npy", s)
END
    resume=(--resume --journal-seconds 30)
    "$MPIMATMUL" run t.py "${resume[@]}" --device faulty:delay=3ms:cpu > out 2>&1 3>&- &
    process=$!
    for ((i = 0; i < 400; i++)); do
        grep -q behind out && break
        sleep 0.02
    done
    kill -9 "$process"
    wait "$process" || true
    [ "$(states)" -eq 1 ]
    resumed "mpimatmul: resume: the loop of line 3 has ended"
    [ "${lines[0]}" = behind ]
    expect s.npy "13 * A + 199"
}

@test "a state of a loop inside a loop: the outer turn continues with the inner loop" {
    cat > t.py <<'END'
a = load("A.npy")
s = a
n = 0
for i in loop(3):
    s = s + a.T
    seen = i
    for j in loop(1, 6):
        s = s + j + seen
        n += 1
    s = s + n
save("s.npy", s)
END
    killed 4
    while ! tail -n 1 t.py.journal | grep -q '"at".*"at"'; do sed -i '$d' t.py.journal; done # states of outer turns
    run --separate-stderr "$MPIMATMUL" run t.py --resume
    [ "$status" -eq 0 ] || { show; return 1; }
    [[ "$stderr" =~ ^"$continues "[0-2]", the one in line 7 from turn "[2-6]$ ]] || { show; return 1; }
    expect s.npy "A + 3 * A.T + 3 * 15 + 5 * 3 + 5 + 10 + 15"
}

@test "every kind of value comes back: numbers, text, None, nested tuples, float64 and whole numbers" {
    "$PYTHON" -c "import numpy as np
np.save('d.npy', np.arange(6).reshape(2, 3) / 3); np.save('i.npy', np.arange(5, dtype=np.int32))"
    cat > t.py <<'END'
d = load("d.npy")
k = load("i.npy")
a = load("A.npy")
z = zeros((2, 3))
number, flag, text, none, pair = 1, True, "x", None, (a, (0.1, "y"))
for i in loop(9):
    d = d * 1.5
    k = k + i
    z = z + 0
    number = number + 1234567890123456
    flag = not flag
    text = f"{text}ü{i}"
    none = None
    pair = (a + i, (pair[1][0] * 0.7, "z"))
z = z + d
print(number, flag, text, none, pair[1])
save("s.npy", d)
save("k.npy", k)
save("z.npy", z)
save("p.npy", pair[0])
save("m.npy", stack((k, k)))
END
    "$MPIMATMUL" run t.py --quiet > right
    mkdir right.d
    mv ./{s,k,z,p,m}.npy right.d
    killed 2
    "$MPIMATMUL" run t.py --quiet --resume > found
    diff right found
    for x in s k z p m; do cmp $x.npy right.d/$x.npy; done
}

@test "loops in a Python for, and one that ends by break on a computed number" {
    cat > t.py <<'END'
a = load("A.npy")
s = a
for k in range(3):
    for i in loop(100):
        s = s + a * a + k
        if sum(s) > 60000 * (k + 1):
            break
save("s.npy", s)
END
    "$MPIMATMUL" run t.py --quiet
    mv s.npy right.npy
    killed 2
    killed 4
    "$MPIMATMUL" run t.py --quiet --resume
    cmp s.npy right.npy
}

@test "a changed input, text, setting or arithmetic is refused with the reason" {
    killed 2
    refused 65 "$another settings: , this job has turns=13" turns=13
    refused 65 "$another arithmetic: of the files, this job has float32" --dtype float32
    cp t.py t.old
    sed -i 's/t + a/t - a/' t.py
    run --separate-stderr "$MPIMATMUL" run t.py --resume
    [ "$status" -eq 65 ]
    [[ "${stderr_lines[0]}" = "$another text: "* ]] || { show; return 1; }
    [ "${stderr_lines[1]}" = "  hint: remove 't.py.journal' to start again, or leave out --resume" ]
    mv t.old t.py
    "$MPIMATMUL" gen A.npy --dims 32x32 --kind integer --seed 7
    refused 65 "mpimatmul: t.py:4:1: cannot resume: 'A.npy' has changed since then"
    [ "$(states)" -ge 2 ]
}

@test "a damaged entry is refused; a torn one and a damaged file cost the latest state alone" {
    killed 3
    cp t.py.journal saved
    sed -i '0,/^loop/s/^loop 1/loop 9/' t.py.journal
    line=$(grep -n '^loop' saved | head -n 1 | cut -d: -f1)
    refused 65 "mpimatmul: cannot resume 't.py': line $line of 't.py.journal' is damaged"
    cp saved t.py.journal
    printf 'loop 1 state 99' >> t.py.journal
    last=$(find . -name 't.py.journal.*.safetensors' | sort -V | tail -n 1)
    printf X | dd of="$last" bs=1 seek=2000 conv=notrunc status=none
    run --separate-stderr "$MPIMATMUL" run t.py --resume
    [ "$status" -eq 0 ] || { show; return 1; }
    [[ "$stderr" =~ ^"$continues "[0-9]+": the file of a later one is damaged"$ ]]
    expect s.npy "$both"
}

@test "SIGTERM: one line says how to continue, code 75; the journal may lie in another folder" {
    mkdir j
    "$MPIMATMUL" run t.py "${resume[@]}" --journal j --quiet 2> err 3>&- &
    process=$!
    for ((i = 0; i < 400; i++)); do
        grep -qs '^loop' j/t.py.journal && break
        sleep 0.02
    done
    kill -TERM "$process"
    code=0
    wait "$process" || code=$?
    [ "$code" -eq 75 ]
    turn=$(sed -n 's/.*has turn \([0-9]*\).*/\1/p' err)
    [ "$(tail -n 1 err)" = \
        "mpimatmul: 'j/t.py.journal' has turn $turn of line 4: the same command continues from it" ]
    resumed "$continues $turn" --journal j
    expect s.npy "$both"
}

@test "what cannot be recorded is said; a journal in use, --check and standard input are refused" {
    cat > t.py <<'END'
a = load("A.npy")
s = a
f = ""
for i in loop(6):
    s = s + 1
    f = f"{sum(s)}"
    print(f)
save("s.npy", s)
END
    run --separate-stderr "$MPIMATMUL" run t.py "${resume[@]}"
    [ "$status" -eq 0 ] || { show; return 1; }
    [ "$stderr" = "mpimatmul: warning: t.py:4:1: the loop is not recorded: 'f' is a string with a matrix in it" ]
    expect s.npy "A + 6"
    touch t.py.journal
    flock t.py.journal sleep 5 3>&- &
    holder=$!
    sleep 0.2
    refused 73 "mpimatmul: cannot use 't.py.journal': another job is writing it"
    kill "$holder"
    refused 64 "mpimatmul: --check cannot show a run with --resume" --check
    run --separate-stderr "$MPIMATMUL" run - --resume < t.py
    [ "$status" -eq 64 ] && [ "$stderr" = "mpimatmul: cannot resume a program that is not in a file" ]
    run --separate-stderr "$MPIMATMUL" run t.py --journal-seconds 3
    [ "$status" -eq 64 ] && [ "${stderr_lines[0]}" = "mpimatmul: --journal-seconds needs --resume" ]
}

@test "a text without loops, and one that restores its own checkpoints, say that nothing is recorded" {
    printf 'a = load("A.npy")\nsave("s.npy", a + 1)\n' > t.py
    resumed "mpimatmul: notice: --resume records nothing: the text has no loop"
    expect s.npy "A + 1"
    cat > t.py <<'END'
a = load("A.npy")
s, first = restore("c.safetensors", a)
for i in loop(first, 4):
    s = s + a
    checkpoint("c.safetensors", s, turn=i + 1)
save("s.npy", s)
END
    resumed "mpimatmul: notice: --resume records nothing: the text restores its own checkpoints"
    expect s.npy "5 * A"
    resumed "mpimatmul: continues from turn 4 of 'c.safetensors'
mpimatmul: notice: --resume records nothing: the text restores its own checkpoints"
}
