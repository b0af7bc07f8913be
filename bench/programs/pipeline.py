# SPDX-License-Identifier: MIT
# The GPT of gpt.py in a pipeline. Every stage has some of the layers, on ranks of its own, so no machine holds the
# whole model. Micro-batches go through the stages one after the other.
#
#     mpirun -q -n 2 mpimatmul run pipeline.py corpus=book.txt               # two stages; best on two machines
#     mpirun -q -n 4 mpimatmul run pipeline.py corpus=book.txt stages=4
#     mpimatmul run pipeline.py corpus=book.txt stages=1                     # on one machine
#     python3 tests/reference.py pipeline.py corpus=book.txt layers=2 width=64 turns=20
corpus = "book.txt"
stages = 2
micro = 4
layers = 6
heads = 6
width = 384
length = 256
count = 16
turns = 2000
rate = 0.001
every = 10
saves = 100
file = "pipeline.safetensors"

text = tokens(corpus)
ones, zeros = generate((1, width), kind="ones"), generate((1, width), kind="zeros")
windows = count // micro

def normal(rows, cols, seed):
    return generate((rows, cols), kind="normal", seed=seed) * 0.02

def block_of(i):
    return place((ones * 1, zeros * 1, normal(3 * width, width, 10 * i + 1), normal(width, width, 10 * i + 2),
                  ones * 1, zeros * 1, normal(4 * width, width, 10 * i + 3), normal(width, 4 * width, 10 * i + 4)),
                 "replicate", ranks=i * stages // layers)

def heads_of(x):
    return permute(reshape(x, (windows, length, heads, width // heads)), (0, 2, 1, 3))

def block(x, p):
    y = linear(layer_norm(x, p[0], p[1]), p[2])
    q, k, v = heads_of(y[:, :, :width]), heads_of(y[:, :, width:2 * width]), heads_of(y[:, :, 2 * width:])
    y = reshape(permute(attention(q, k, v, causal=True), (0, 2, 1, 3)), (windows, length, width))
    x = x + linear(y, p[3])
    return x + linear(gelu(linear(layer_norm(x, p[4], p[5]), p[6])), p[7])

def model(p, x):
    h = take(p[0], x) + p[1]
    for i in range(layers):
        h = block(h, p[5 + i])
    return linear(layer_norm(h, p[2], p[3]), p[4])

# The embeddings belong to the first stage, the output layer to the last one.
first, last = 0, stages - 1
parameters = (place(normal(text.vocabulary, width, 101), "replicate", ranks=first),
              place(normal(length, width, 102), "replicate", ranks=first),
              place(ones * 1, "replicate", ranks=last), place(zeros * 1, "replicate", ranks=last),
              place(normal(text.vocabulary, width, 103), "replicate", ranks=last))
for i in range(layers):
    parameters = parameters + (block_of(i),)

state, begin = restore(file, adamw_state(parameters))
for step in loop(begin, turns):
    x, y = batch(text, count, length, seed=1, turn=step)
    loss = 0
    for m in range(micro):
        part = model(state[0], x[m * windows:(m + 1) * windows])
        loss = loss + cross_entropy(part, y[m * windows:(m + 1) * windows]) / micro
    g = clip_grad_norm(grad(loss, state[0]), 1.0)
    state = adamw(state, g, turn=step, rate=cosine(step, 100, turns, rate, rate / 10), betas=(0.9, 0.99))
    if step % every == every - 1:
        print(step, loss)
    if step % saves == saves - 1:
        checkpoint(file, state, turn=step + 1)
