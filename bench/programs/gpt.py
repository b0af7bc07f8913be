# SPDX-License-Identifier: MIT
# A GPT that learns a text of your own, character by character. It has the shape of nanoGPT's Shakespeare model.
#
#     mpimatmul run gpt.py corpus=book.txt                  # on one machine
#     mpirun -q -n 2 mpimatmul run gpt.py corpus=book.txt   # on two ranks, shared by their speeds
#     python3 tests/reference.py gpt.py corpus=book.txt layers=2 width=64 turns=20   # the same in numpy, slowly
corpus = "book.txt"
layers = 6
heads = 6
width = 384
length = 256
count = 16
turns = 2000
rate = 0.001
every = 10
saves = 100
file = "gpt.safetensors"  # the checkpoint, read at the start: after a kill, or for more turns
result = "gpt.wte.npy"

text = tokens(corpus)
ones, zeros = generate((1, width), kind="ones"), generate((1, width), kind="zeros")

def normal(rows, cols, seed):
    return generate((rows, cols), kind="normal", seed=seed) * 0.02

def block_of(i):
    return (ones * 1, zeros * 1, normal(3 * width, width, 10 * i + 1), normal(width, width, 10 * i + 2),
            ones * 1, zeros * 1, normal(4 * width, width, 10 * i + 3), normal(width, 4 * width, 10 * i + 4))

def heads_of(x):
    return permute(reshape(x, (count, length, heads, width // heads)), (0, 2, 1, 3))

def block(x, p):
    y = linear(layer_norm(x, p[0], p[1]), p[2])
    q, k, v = heads_of(y[:, :, :width]), heads_of(y[:, :, width:2 * width]), heads_of(y[:, :, 2 * width:])
    y = reshape(permute(attention(q, k, v, causal=True), (0, 2, 1, 3)), (count, length, width))
    x = x + linear(y, p[3])
    return x + linear(gelu(linear(layer_norm(x, p[4], p[5]), p[6])), p[7])

def model(p, x):
    h = take(p[0], x) + p[1]
    for i in range(layers):
        h = block(h, p[4 + i])
    return linear(layer_norm(h, p[2], p[3]), p[0])

parameters = (normal(text.vocabulary, width, 101), normal(length, width, 102), ones * 1, zeros * 1)
for i in range(layers):
    parameters = parameters + (block_of(i),)

state, first = restore(file, adamw_state(parameters))
for step in loop(first, turns):
    x, y = batch(text, count, length, seed=1, turn=step)
    loss = cross_entropy(model(state[0], x), y)
    g = clip_grad_norm(grad(loss, state[0]), 1.0)
    state = adamw(state, g, turn=step, rate=cosine(step, 100, turns, rate, rate / 10), betas=(0.9, 0.99))
    if step % every == every - 1:
        print(step, loss)
    if step % saves == saves - 1:
        checkpoint(file, state, turn=step + 1)
save(result, state[0][0])
