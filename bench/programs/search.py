# SPDX-License-Identifier: MIT
# Finds, for every row of one matrix, the nearest rows of another one, by the cosine of the angle between them.
queries = 20000
documents = 20000
size = 384
k = 5
x = generate((queries, size), kind="normal", seed=1)
y = generate((documents, size), kind="normal", seed=2)
scores, places = topk(normalize(x) @ normalize(y).T, k)
save("scores.npy", scores)
save("places.npy", places)
