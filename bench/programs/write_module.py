# SPDX-License-Identifier: MIT
"""write.py in Python: writes a text with a GPT that gpt_module.py has trained, letter by letter. corpus and heads must
be those of the training. The file has the other sizes.

    python3 gpt_module.py corpus=book.txt                     # learns book.txt into gpt_module.safetensors
    python3 write_module.py corpus=book.txt                   # or mpirun -q -n 2 python3 ...: the same letters

NAME=VALUE sets the other settings below, too: temperature=0 always takes the likeliest letter.
"""
import sys

import mpimatmul as mm
from gpt_module import GPT

given = {"corpus": "book.txt", "file": "gpt_module.safetensors", "start": "\n", "heads": 6, "letters": 500,
         "temperature": 0.8, "most": 20, "seed": 1}
for word in sys.argv[1:]:
    name, _, value = word.partition("=")
    if name not in given:
        sys.exit(f"write_module.py: there is no '{name}', but {', '.join(given)}")
    given[name] = type(given[name])(value)
corpus, file, start, heads, letters, temperature, most, seed = given.values()

text, learned = mm.tokens(corpus), mm.load_file(file)
length, width = learned["places.weight"].shape
model = GPT(text.vocabulary, sum(name.endswith(".norm1.weight") for name in learned), heads, width, length)
model.load_state_dict(learned)  # fails if the corpus has other letters
most = min(most, text.vocabulary)

window = mm.encode(start, text)[:, -length:]
count = window.shape[1]
if count < length:  # no letter sees the padding behind the last letter
    window = mm.concat((window, mm.zeros((1, length - count))), axis=-1)
mm.print(start, end="", flush=True)
with mm.no_grad():
    for i in mm.loop(letters):
        place = min(count + i, length) - 1
        likely, ids = mm.topk(model(window)[:, place:place + 1], most)
        gumbel = -mm.log(-mm.log(mm.rand((1, most), seed=1000000 * seed + i)))
        drawn = mm.one_hot(mm.argmax(likely + temperature * gumbel, keepdims=True), most)
        letter = (ids * drawn).sum(axis=-1).reshape(1, 1)
        if place + 1 < length:
            window = mm.where(mm.arange(length) == place + 1, letter, window)
        else:
            window = mm.concat((window[:, 1:], letter), axis=-1)
        mm.persist(letter, window)  # one job
        mm.print(mm.decode(letter, text), end="", flush=True)
mm.print()
