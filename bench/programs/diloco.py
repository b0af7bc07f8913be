# SPDX-License-Identifier: MIT
# The GPT of gpt.py for a slow network. Every machine trains a copy of its own for some turns, on windows of its own.
# Then all continue from the mean (DiLoCo, Douillard et al. 2023), weighted by windows. Faster machines get more.
#
#     mpimatmul run diloco.py corpus=book.txt                                   # on one machine
#     mpirun -q --hostfile hosts mpimatmul run diloco.py corpus=book.txt        # on several
#     REFERENCE_APART=1:2 python3 tests/reference.py diloco.py corpus=book.txt layers=2 width=64 outers=4
corpus = "book.txt"
layers = 6
heads = 6
width = 384
length = 256
count = 16
inners = 20  # turns that a node computes alone
outers = 100
saves = 1
rate = 0.001
file = "diloco.safetensors"  # the checkpoint, read at the start
result = "diloco.wte.npy"

text = tokens(corpus)
ones, zeros = generate((1, width), kind="ones"), generate((1, width), kind="zeros")

def normal(rows, cols, seed):
    return generate((rows, cols), kind="normal", seed=seed) * 0.02

def block_of(i):
    return (ones * 1, zeros * 1, normal(3 * width, width, 10 * i + 1), normal(width, width, 10 * i + 2),
            ones * 1, zeros * 1, normal(4 * width, width, 10 * i + 3), normal(width, 4 * width, 10 * i + 4))

def heads_of(x):
    return permute(reshape(x, (-1, length, heads, width // heads)), (0, 2, 1, 3))

def block(x, p):
    y = linear(layer_norm(x, p[0], p[1]), p[2])
    q, k, v = heads_of(y[:, :, :width]), heads_of(y[:, :, width:2 * width]), heads_of(y[:, :, 2 * width:])
    y = reshape(permute(attention(q, k, v, causal=True), (0, 2, 1, 3)), (-1, length, width))
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


def inner(state, turn):
    x, y = batch(text, count, length, seed=1, turn=turn)
    loss = cross_entropy(model(state[0], x), y)
    g = clip_grad_norm(grad(loss, state[0]), 1.0)
    now = cosine(turn, 100, inners * outers, rate, rate / 10)
    step = adamw((state[0], state[1], state[2]), g, turn=turn, rate=now, betas=(0.9, 0.99))
    return step + (loss,)

outer, first = restore(file, nesterov_state(parameters))
state = adamw_state(outer[0]) + (generate((1, 1), kind="zeros"),)
for step in loop(first, outers):
    new = apart(inner, state, step * inners, inners)
    outer = nesterov(outer, average(new[0]), rate=0.7, momentum=0.9)
    state = (outer[0], new[1], new[2], new[3])
    print(step, average(new[3]))
    if step % saves == saves - 1:
        checkpoint(file, outer, turn=step + 1)
save(result, outer[0][0])
