# SPDX-License-Identifier: MIT
# An MLP of three layers, with biases, activations and a residual.
rows = 4096
inner = 1024
x = generate((rows, inner), seed=1)


def layer(x, seed, outer):
    w = generate((outer, x.shape[-1]), kind="normal", seed=seed) / sqrt(x.shape[-1])
    b = generate((1, outer), seed=seed + 1)
    return linear(x, w, b)


h = gelu(layer(x, 10, 4 * inner))
h = layer(h, 20, inner) + x
y = layer(layer_norm(h, generate((1, inner), seed=30), generate((1, inner), seed=31)), 40, 10)
save("classes.npy", softmax(y))
best, which = topk(y, 3)
save("best.npy", best)
