# SPDX-License-Identifier: MIT
# Turns sentences into vectors by all-MiniLM-L6-v2 (BERT with 6 layers of 384, 12 heads). A vector is the mean of all
# tokens, scaled to length 1. ids.npy and mask.npy have a row per text: the numbers of its tokens, and 1 (a token) or 0
# (none).
model = "model.safetensors"
ids = "ids.npy"
mask = "mask.npy"
layers = 6
heads = 12


def weight(name):
    return load(f"{model}:{name}")


def dense(x, name):
    return linear(x, weight(name + ".weight"), weight(name + ".bias"))


def norm(x, name):
    return layer_norm(x, weight(name + ".weight"), weight(name + ".bias"), eps=1e-12)


def split(x):
    return permute(reshape(x, (texts, tokens, heads, width // heads)), (0, 2, 1, 3))


def layer(x, name):
    q = split(dense(x, name + ".attention.self.query"))
    k = split(dense(x, name + ".attention.self.key"))
    v = split(dense(x, name + ".attention.self.value"))
    a = reshape(permute(attention(q, k, v, mask=hidden), (0, 2, 1, 3)), (texts, tokens, width))
    x = norm(dense(a, name + ".attention.output.dense") + x, name + ".attention.output.LayerNorm")
    h = gelu(dense(x, name + ".intermediate.dense"))
    return norm(dense(h, name + ".output.dense") + x, name + ".output.LayerNorm")


there = load(mask)
texts, tokens = there.shape
words = weight("embeddings.word_embeddings.weight")
width = words.shape[1]
hidden = reshape((1 - there) * -1e9, (texts, 1, 1, tokens))

x = reshape(take(words, load(ids)), (texts, tokens, width))
x = x + weight("embeddings.position_embeddings.weight")[:tokens]
x = x + weight("embeddings.token_type_embeddings.weight")[0:1]
x = norm(x, "embeddings.LayerNorm")
for i in range(layers):
    x = layer(x, f"encoder.layer.{i}")

counts = reshape(there, (texts, tokens, 1))
mean_of_tokens = sum(x * counts, axis=-2) / maximum(sum(counts, axis=-2), 1e-9)
save("vectors.npy", normalize(reshape(mean_of_tokens, (texts, width))))
