# SPDX-License-Identifier: MIT
# Learns to read handwritten digits: 1,797 images of 8 x 8. A fifth of the images is held back for the test. The model
# reads 97 % of those or more correctly. digits_data.py makes the files.
#
#     mpimatmul run digits.py                    # on one machine
#     mpirun -q -n 2 mpimatmul run digits.py     # on two ranks, shared by their speeds
#     python3 tests/reference.py bench/programs/digits.py     # the same in numpy
pictures = "digits.npy"
numbers = "digits_labels.npy"
learned = 1438
hidden = 64
count = 128
turns = 1200
every = 200

images, labels = load(pictures), load(numbers)
x, y = images[:learned], labels[:, :learned]
held_back, answers = images[learned:], labels[:, learned:]


def layer(inputs, outputs, seed):
    bound = 1 / sqrt(inputs)
    return (generate((outputs, inputs), seed=seed) * bound, generate((1, outputs), seed=seed + 1) * bound)


def model(p, x):
    return linear(relu(linear(x, p[0][0], p[0][1])), p[1][0], p[1][1])


def accuracy(p, x, y):
    return mean(argmax(model(p, x)) == y.T)


state = adamw_state((layer(images.shape[-1], hidden, 1), layer(hidden, 10, 3)))
for step in loop(turns):
    rows, of = batch(x, y, count, seed=1, turn=step)
    loss = cross_entropy(model(state[0], rows), of)
    state = adamw(state, grad(loss, state[0]), turn=step, rate=cosine(step, 20, turns, 0.01, 0.0001))
    if step % every == every - 1:
        print(step, loss)
print("accuracy on held-back images:", accuracy(state[0], held_back, answers))
save("logits.npy", model(state[0], held_back))
