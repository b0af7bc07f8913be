# SPDX-License-Identifier: MIT
# Linear regression by gradients, with momentum. It finds the weights that made the targets, up to the noise in them.
#
#     mpimatmul run regression.py                    # on one machine
#     mpirun -q -n 2 mpimatmul run regression.py     # on two ranks, shared by their speeds
#     python3 tests/reference.py bench/programs/regression.py     # the same in numpy
rows = 20000
inputs = 64
outputs = 4
turns = 200
every = 50
noise = 0.1

x = generate((rows, inputs), kind="normal", seed=1)
truth = generate((inputs, outputs), kind="normal", seed=2)
y = x @ truth + 3 + noise * generate((rows, outputs), kind="normal", seed=3)

state = sgd_state((generate((inputs, outputs), kind="zeros"), generate((1, outputs), kind="zeros")))
for step in loop(turns):
    loss = mse(x @ state[0][0] + state[0][1], y)
    state = sgd(state, grad(loss, state[0]), rate=0.2, momentum=0.9, nesterov=True)
    if step % every == every - 1:
        print(step, loss)
print("largest error of a weight", max(abs(state[0][0] - truth), axis=None))
save("weights.npy", state[0][0])
save("bias.npy", state[0][1])
