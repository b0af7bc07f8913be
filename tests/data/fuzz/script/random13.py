n = 4
x1 = load("p13_x1.npy")
v2 = generate((3, 3), kind="identity", seed=226)
d3 = generate((2, 1), kind="uniform", seed=786)
y4 = linear(d3, x1.T)
a5 = v2 <= 3
c6 = take(d3, v2)
save(f"p13_out{0}.npy", y4)
save(f"p13_out{1}.npy", a5)
save(f"p13_out{2}.npy", c6)
