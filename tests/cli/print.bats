#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154 # status, output, stderr and launch are set by bats and the helper
# print in texts of programs: the printed text, and the moment of printing.

load helper

# placeless: drops the placements of matrices from the lines, which the reference does not know.
placeless() {
    sed -E 's/, (file|replicate|partial|rows|cols|grid)[^;]*;/;/g' <<< "${output:?}"
}

@test "run: print shows the same lines as the reference, on any ranks" {
    need_numpy
    script 'x = generate((30, 40), kind="integer", seed=3)
w = generate((40, 40), kind="integer", seed=4)
print()
print("begin", 1, 2.5, (3, "a"), None)
for i in range(3):
    x = minimum(maximum(x @ w, -3), i + 2)
    loss = mean(x * x)
    print("loss", i, loss)
    print(f"step {i}: {loss} of {max(x)}{{}}, place {argmax(x[0:1, :])}", loss)
print("now x is", x, "and", loss, sum(x[0:2, 0:2] * 2, axis=-1))
v, k = topk(reshape(x, (1, 1200)), 3)
print(k[:, 1:2], f"{k[:, 0:1]}")'
    py "$REPO/tests/reference.py" e.py > expected
    grep -qx 'loss 1 8.57333' expected
    [ "$(sed -n 2p expected)" = "begin 1 2.5 (3, 'a') None" ]
    for count in 1 2 3; do
        ranks $count run e.py -q
        expect_quiet_success
        diff expected <(placeless) || return 1
    done
    program run e.py --device 0:0 -q
    diff expected <(placeless)
    ranks 2 run e.py --json
    expect_quiet_success
    python "$output" <<'END'
import json, sys
printed = json.loads(sys.argv[1])["printed"]
texts = [entry["text"] for entry in printed if "text" in entry]
expected = open("expected").read().splitlines()
assert texts[:7] == expected[1:8], texts
assert texts[7] == "now x is" and texts[8].startswith("and ") and printed[8]["name"] == "x", texts
assert [round(x, 3) for x in printed[1]["numbers"]] == [6.245] and "numbers" not in printed[0], printed[1]
END
    script 'x = generate((1, 1))
save(f"x{x}.npy", x)'
    program run e.py
    expect_failure 65 'e.py:2:6: file is a string with a matrix in it, expected a string'
    script 'x = generate((1, 2))
print(f"{x}")'
    program run e.py
    expect_failure 65 'e.py:2:10: a matrix cannot be inserted into a string' \
        'print("...", x) shows it beside other words'
}

@test "run: a line is printed as soon as its values are there, not at the end" {
    script 'x = generate((64, 64), seed=1)
print("words", "first")
print("early", mean(x @ x))
for i in range(8):
    x = tanh(x @ x)
print("late", mean(x))
save("x.npy", x)'
    for count in 1 2; do
        rm -f x.npy lines
        "${launch[@]}" -n $count "$MPIMATMUL" run e.py --device faulty:delay=400ms:cpu --progress none -q \
            > lines 2> err < /dev/null 3>&- &
        for ((i = 0; i < 600; i++)); do
            ! grep -q '^early ' lines || break
            sleep 0.05
        done
        cp lines before
        [ ! -e x.npy ] || { cat before; return 1; }
        wait $!
        [ "$(cut -d ' ' -f 1 before)" = $'words\nearly' ] || { cat before; return 1; }
        [ "$(cut -d ' ' -f 1 lines)" = $'words\nearly\nlate' ]
    done
}

@test "a bar moves over the steps of a program, and never back" {
    need_numpy
    script 'x = generate((64, 64), seed=1)
for i in range(9):
    x = tanh(x @ x)
save("x.npy", x)'
    run --separate-stderr "$MPIMATMUL" run e.py --device faulty:delay=150ms:cpu --progress bar < /dev/null
    expect_status 0
    printf '%s' "$stderr" > bar
    python <<'END'
import re
pattern = (r"\[([#.]{24})\] run (\d+) %, ([0-9.]+) K?i?B of 176.0 KiB(?:, [0-9.]+ GFLOP/s)?"
           r"(?:, ([0-9]+) s left)?")
found = [f for f in re.findall(pattern, open("bar").read()) if int(f[1]) > 1]
shares, done = [int(f[1]) for f in found], [float(f[2]) for f in found]
assert len(set(shares)) >= 6 and shares == sorted(shares) and done == sorted(done), found
assert all(abs(f[0].count("#") + 0.5 - 24 * d / 176) < 0.6 for f, d in zip(found, done)), found
assert 0 < shares[-1] <= 100 and any(f[3] for f in found), found
END
}

@test "a bar stays in one line of its terminal, however narrow" {
    cat > e.py << 'END'
x = generate((64, 64), kind="normal", seed=1)
for i in loop(20):
    x = tanh(x @ x)
save("x.npy", x)
END
    for columns in 60 31 20; do
        rm -f x.npy
        python "$columns" "$MPIMATMUL" run e.py --device faulty:delay=30ms:cpu --progress bar << 'END'
import fcntl, os, pty, re, struct, sys, termios
columns = int(sys.argv[1])
child, terminal = pty.fork()
if child == 0:
    fcntl.ioctl(2, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    os.execv(sys.argv[2], sys.argv[2:])
told = b""
try:
    while part := os.read(terminal, 4096):
        told += part
except OSError:  # its end
    pass
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, told
bars = [re.sub(r"\x1b\[K", "", bar) for bar in re.findall(r"\r(\[[#.]{24}\] [^\r]*)", told.decode())]
assert len(bars) > 3 and all(len(bar) < max(columns, 28) for bar in bars), bars
assert columns < 60 or any(bar.startswith("[") and "turn" in bar for bar in bars), bars
END
    done
}
