# SPDX-License-Identifier: MIT
# Finds the first principal components of the rows of digits.npy, by subspace iteration from start.npy. Each turn is one
# product, and many small steps that make the columns orthogonal one after the other (modified Gram-Schmidt).
components = 10
turns = 41

x = load("digits.npy")
centred = x - mean(x, axis=-2)
covariance = centred.T @ centred / x.shape[0]
q = load("start.npy")
for turn in range(turns):
    z = covariance @ q
    v = z[:, 0:1]
    q = v * rsqrt(sum(v * v, axis=-2))
    for j in range(1, components):
        v = z[:, j:j + 1]
        for i in range(j):
            u = q[:, i:i + 1]
            v = v - u * (u.T @ v)
        q = concat((q, v * rsqrt(sum(v * v, axis=-2))), axis=1)
save("components.npy", q)
save("variances.npy", sum(q * (covariance @ q), axis=-2))
