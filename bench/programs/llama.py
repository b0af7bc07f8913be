# SPDX-License-Identifier: MIT
# A block with the shape of LLaMA's: grouped heads, rotated positions, SwiGLU. Its weights are random, from seeds.
rows = 4096
model = 1024
heads = 16
groups = 4
hidden = 2816
size = model // heads


def weights(outer, inner, seed):
    return generate((outer, inner), kind="normal", seed=seed) / sqrt(inner)


def split(x, count):
    return permute(reshape(x, (rows, count, size)), (1, 0, 2))


x = generate((rows, model), kind="normal", seed=1)
h = rms_norm(x, generate((1, model), seed=2), eps=1e-5)
q = rope(split(linear(h, weights(model, model, 3)), heads))
k = rope(split(linear(h, weights(groups * size, model, 4)), groups))
v = split(linear(h, weights(groups * size, model, 5)), groups)
a = attention(q, k, v, causal=True)
x = x + linear(reshape(permute(a, (1, 0, 2)), (rows, model)), weights(model, model, 6))

h = rms_norm(x, generate((1, model), seed=7), eps=1e-5)
gate = silu(linear(h, weights(hidden, model, 8)))
x = x + linear(gate * linear(h, weights(hidden, model, 9)), weights(model, hidden, 10))
save("block.npy", x)
