n = 8
z1 = generate((11, 5), kind="integer", seed=909)
w2 = generate((1, 8, 3), kind="uniform", seed=8)
y3 = load("p1_y3.npy")
g4 = sum(y3, axis=-2)
b5 = load("p1_b5.npy")
a6 = abs(generate((1, 16), kind="integer", seed=6)) % 3
b7 = take(y3, a6)
save(f"p1_out{0}.npy", b5)
save(f"p1_out{1}.npy", a6)
save(f"p1_out{2}.npy", b7)
