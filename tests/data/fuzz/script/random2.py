n = 9
d1 = generate((7, 7), kind="identity", seed=611)
h2 = generate((8, 23), kind="identity", seed=496)
b3 = generate((16, 8), kind="uniform", seed=727)
c4 = b3 @ h2
g5 = silu(c4)
a6 = -g5
x7 = take(c4, d1)
w8 = gelu(g5, approximate="tanh")
x9 = generate((8, 7, 8), kind="integer", seed=944)
a10 = sum(w8, -1)
u11 = generate((23, 3), kind="integer", seed=11)
w12 = a6 @ u11
save(f"p2_out{0}.npy", a10)
save(f"p2_out{1}.npy", u11)
save(f"p2_out{2}.npy", w12)
