#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Text generation: encode, decode, lines that are continued, and the examples in which a GPT writes.
# The reference under CPython, tests/reference.py, draws the same letters from the same weights.
# shellcheck disable=SC2030,SC2031,SC2154 # status, output and stderr are set by bats

load helper.bash

setup() {
    setup_package
    export OPENBLAS_NUM_THREADS=1
    programs=$REPO/bench/programs
    printf 'die Katze schläft.\nder Hund bellt – laut.\n%.0s' {1..30} > book.txt
}

# same_letters EXPECTED COMMAND...: the command writes that text.
same_letters() {
    local expected=$1
    shift
    run --separate-stderr "$@"
    [ "$status" -eq 0 ] || { echo "$stderr"; return 1; }
    diff "$expected" <(printf '%s\n' "$output")
}

@test "a GPT of gpt.py writes the letters of numpy's replay on any ranks, drawn ones or the likeliest" {
    "${launch[@]}" -n 2 "$MPIMATMUL" run "$programs/gpt.py" corpus=book.txt layers=1 width=32 heads=4 length=16 \
        count=8 turns=60 rate=0.02 saves=60 --quiet > losses
    for how in 'temperature=0.8 start=die\ Katze' 'temperature=0.0 letters=8'; do
        eval "words=(corpus=book.txt layers=1 heads=4 letters=24 $how)"
        "$PYTHON" "$REPO/tests/reference.py" "$programs/write.py" "${words[@]}" > expected
        same_letters expected "$MPIMATMUL" run "$programs/write.py" "${words[@]}" --quiet
        same_letters expected "${launch[@]}" -n 2 "$MPIMATMUL" run "$programs/write.py" "${words[@]}" --quiet
    done
    "$PYTHON" -c 'x = open("expected").read(); assert len(x) == 10 and x[0] == x[-1] == "\n", x'
    words=(corpus=book.txt layers=1 heads=4 letters=24)
    program run "$programs/write.py" "${words[@]}" seed=2 --quiet
    first=$output
    program run "$programs/write.py" "${words[@]}" seed=3 --quiet
    [ "$output" != "$first" ]
    echo 'more: !' >> book.txt
    program run "$programs/write.py" "${words[@]}"
    [[ "$stderr" == *"write.py:20:9: what is reshaped (22 x 32) has 704 elements, which is not 832"* ]]
    [ "$status" -eq 65 ]
}

@test "a GPT of gpt_module.py writes the same letters on any ranks" {
    "$PYTHON" "$programs/gpt_module.py" corpus=book.txt layers=1 width=32 heads=4 length=16 count=8 turns=2
    "$PYTHON" "$programs/write_module.py" heads=4 letters=20 start=Hund > expected
    "$PYTHON" -c 'x = open("expected").read(); assert len(x) == 25 and x[:4] == "Hund" and x[-1] == "\n", x'
    same_letters expected "${launch[@]}" -n 2 "$PYTHON" "$programs/write_module.py" heads=4 letters=20 start=Hund
}

@test "letters are printed before the next turn begins" {
    cat > endless.py << 'END_OF_TEXT'
text = tokens("book.txt")
x = encode("ä", text)
print("begun", end=": ")
for i in loop(1000000):
    x = x + 0
    print(decode(x, text), end="")
END_OF_TEXT
    "$PYTHON" - "$MPIMATMUL" << 'END_OF_SCRIPT'
import subprocess
import sys
job = subprocess.Popen([sys.argv[1], "run", "endless.py", "--quiet"], stdout=subprocess.PIPE)
found = job.stdout.read(27)
assert found.decode() == "begun: " + 10 * "ä" and job.poll() is None, found
job.terminate()
job.wait()
END_OF_SCRIPT
}

@test "encode and decode are inverse, and print ends with the given text" {
    cat > both.py << 'END_OF_TEXT'
text, bytes = tokens("book.txt"), tokens("book.txt", kind="bytes")
x = encode("schläft –", text)
later = decode(x, text)
print(x.shape[0], x.shape[1], encode("ä", bytes).shape[1], end="; ")
print("<", later, ">", end="|")
print(decode(x[:, 4:6], text), decode(reshape(x, (3, 3)), text), decode(encode("ä–", bytes), bytes))
print(decode(zeros((1, 2)) - 1 + 2 * arange(2) / 3, text), end="", flush=False)
print("")
for i in loop(2):
    print(later, end=f"{i}\n")
print("open", end="")
END_OF_TEXT
    cat > expected << 'END_OF_LINES'
1 9 2; < schläft – >|äf schläft – ä–
��
schläft –0
schläft –1
open
END_OF_LINES
    program run both.py --quiet
    diff expected <(echo "$output")
    [ "$status" -eq 0 ]
    program run both.py  # its former value is in a line of its own
    [[ "$output" == "$(cat expected)"$'\n''wall 0.'* ]]
    program run both.py --json
    "$PYTHON" -c '
import json, sys
printed = [part["text"] for part in json.loads(sys.argv[1])["printed"]]
assert printed[1:6] == ["<", "schläft –", ">", "äf", "schläft –"], printed
assert printed[-2:] == ["schläft –", "open"], printed' "$output"
}

# refuses LINE: the error of a text of it, without the place.
refuses() {
    printf 'text = tokens("book.txt")\n%s\n' "$1" > wrong.py
    program run wrong.py
    [ "$status" -eq 65 ]
    sed -n '1s/^mpimatmul: //p' <<< "$stderr"
}

@test "invalid arguments of encode, decode and print are refused at their place" {
    diff - <(while read -r line; do refuses "$line"; done << 'END_OF_TEXTS'
x = encode("Katze!", text)
x = encode("", text)
x = encode("a", "book.txt")
x = encode("a", tokens("book.txt", kind="u16"))
x = encode(3, text)
x = decode(3, text)
x = decode(zeros((1, 5000)), text)
x = "a" + decode(zeros((1, 1)), text)
print(1, end=2)
print(1, flush="no")
END_OF_TEXTS
    ) << 'END_OF_LINES'
wrong.py:2:12: 'book.txt' has no '!'
wrong.py:2:12: encode: the string is empty
wrong.py:2:17: encode: text is a string, expected what tokens(...) gives
wrong.py:2:17: encode needs a text of characters or bytes: 'book.txt' has 16-bit tokens
wrong.py:2:12: letters is a whole number, expected a string
wrong.py:2:12: ids is a whole number, expected a matrix
wrong.py:2:5: decode: more than 4096 ids
wrong.py:2:5: '+' cannot combine a string and a string with a matrix in it
wrong.py:2:14: end is a whole number, expected a string
wrong.py:2:16: flush is a string, expected True, False, 1 or 0
END_OF_LINES
}

@test "mm.tokens, encode and decode equal those of texts, on all ranks" {
    cat > both.py << 'END_OF_SCRIPT'
import numpy as np
import mpimatmul as mm
text, plain = mm.tokens("book.txt"), mm.tokens("book.txt", kind="bytes")
x = mm.encode("schläft –", text)
assert x.shape == (1, 9) and mm.take(mm.ones((text.vocabulary, 2)), x).shape == (1, 9, 2)
assert (mm.decode(x, text), mm.decode(x[:, 4:6] + 0, text)) == ("schläft –", "äf")
assert mm.decode(mm.encode("ä–", plain), plain) == "ä–"
assert mm.decode([0, 10 ** 6], text) == text.letters[0] + "\ufffd"
assert text.letters == "".join(sorted(set(open("book.txt", encoding="utf-8", newline="").read())))
assert (text.vocabulary, plain.vocabulary, plain.letters) == (len(text.letters), 256, None)
assert (text.ids is None) == (mm.rank() > 0)
if mm.rank() == 0:
    assert mm.decode(np.reshape(text.ids[:18], (2, 9)), text) == "die Katze schläft."
for wrong in (lambda: mm.encode("Katze!", text), lambda: mm.encode("", text), lambda: mm.tokens("none.txt"),
              lambda: mm.tokens("book.txt", kind="u16")):
    try:
        wrong()
    except mm.Error as error:
        if mm.rank() == 0:
            print(error.status, error)
END_OF_SCRIPT
    for count in 1 2; do
        run --separate-stderr "${launch[@]}" -n $count "$PYTHON" both.py
        diff - <(echo "$output") << 'END_OF_LINES'
65 'book.txt' has no '!'
65 encode: the string is empty
66 cannot open 'none.txt': No such file or directory
64 no tokens of kind 'u16': expected chars, bytes
END_OF_LINES
        [ "$status" -eq 0 ]
    done
}
