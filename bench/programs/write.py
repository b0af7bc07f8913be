# SPDX-License-Identifier: MIT
# Writes a text with a GPT that gpt.py has trained. Each letter is drawn by the likelihoods that the model gives for the
# window before it. corpus, layers and heads must be those of the training.
#
#     mpimatmul run gpt.py corpus=book.txt                    # learns book.txt, and saves the model to gpt.safetensors
#     mpimatmul run write.py corpus=book.txt --quiet          # writes the same text on any number of ranks
corpus = "book.txt"
layers = 6
heads = 6
file = "gpt.safetensors"
start = "\n"       # the beginning of the text
letters = 500
temperature = 0.8  # 0: always the likeliest letter
most = 20          # draws from this many of the likeliest letters
seed = 1

text = tokens(corpus)
places = load(f"{file}:0.1")
length, width = places.shape[0], places.shape[1]
table = reshape(load(f"{file}:0.0"), (text.vocabulary, width))  # fails with another corpus

def heads_of(x):
    return permute(reshape(x, (1, length, heads, width // heads)), (0, 2, 1, 3))

def block_of(i):
    p = f"{file}:0.{4 + i}"
    return (load(f"{p}.0"), load(f"{p}.1"), load(f"{p}.2"), load(f"{p}.3"),
            load(f"{p}.4"), load(f"{p}.5"), load(f"{p}.6"), load(f"{p}.7"))

def block(x, p):
    y = linear(layer_norm(x, p[0], p[1]), p[2])
    q, k, v = heads_of(y[:, :, :width]), heads_of(y[:, :, width:2 * width]), heads_of(y[:, :, 2 * width:])
    y = reshape(permute(attention(q, k, v, causal=True), (0, 2, 1, 3)), (1, length, width))
    x = x + linear(y, p[3])
    return x + linear(gelu(linear(layer_norm(x, p[4], p[5]), p[6])), p[7])

scale, shift, blocks = load(f"{file}:0.2"), load(f"{file}:0.3"), ()
for i in range(layers):
    blocks = blocks + (block_of(i),)

def logits_at(window, place):
    h = take(table, window) + places
    for i in range(layers):
        h = block(h, blocks[i])
    h = sum(h * (arange(length) == place).T, axis=-2)
    return linear(layer_norm(h, scale, shift), table)

# The window begins with the last letters. Padding fills its end, and no letter sees the padding.
window = encode(start, text)[:, -length:]
count = window.shape[1]
if count < length:
    window = concat((window, zeros((1, length - count))), axis=-1)
print(start, end="")
for i in loop(letters):
    place = minimum(count + i, length) - 1
    likely, ids = topk(logits_at(window, place), minimum(most, text.vocabulary))
    gumbel = -log(-log(rand((1, minimum(most, text.vocabulary)), seed=1000000 * seed + i)))
    drawn = one_hot(argmax(likely + temperature * gumbel), minimum(most, text.vocabulary))
    letter = reshape(sum(ids * drawn, axis=-1), (1, 1))
    print(decode(letter, text), end="")
    if count + i < length:
        window = where(arange(length) == count + i, letter, window)
    if count + i >= length:
        window = concat((window[:, 1:], letter), axis=-1)
print("")
