# SPDX-License-Identifier: MIT
# k-means: finds the hidden centres of groups of points. In each turn every point joins the group of its nearest
# centre. The mean of a group is its next centre.
#
#     mpimatmul run kmeans.py                    # on one machine
#     mpirun -q -n 2 mpimatmul run kmeans.py     # on two ranks, shared by their speeds
#     python3 tests/reference.py bench/programs/kmeans.py     # the same in numpy
points = 20000
size = 16
k = 8
turns = 20
every = 5

hidden = generate((1, k, size), kind="normal", seed=1)
x = reshape(hidden + generate((points // k, k, size), kind="normal", seed=2), (points, size))
centres = generate((k, size), kind="normal", seed=3)
ones = generate((points, 1), kind="ones")


def squares(x):
    return sum(x * x, axis=-1)


def distances(centres):
    return squares(x) - 2 * x @ centres.T + squares(centres).T


for turn in loop(turns):
    from_centres = distances(centres)
    nearest = argmin(from_centres).T
    sums = add_at(centres * 0, nearest, x)
    counts = add_at(centres[:, :1] * 0, nearest, ones)
    centres = where(counts > 0, sums / maximum(counts, 1), centres)
    if turn % every == every - 1:
        inertia = mean(min(from_centres, axis=-1))
        print(turn, "mean square of the distance to the nearest centre:", inertia)
save("centres.npy", centres)
save("nearest.npy", argmin(distances(centres)))
