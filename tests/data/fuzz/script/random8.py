n = 6
u1 = generate((23, 4, 11), kind="normal", seed=357)
b2 = generate((3, 1), kind="integer", seed=169)
h3 = load("p8_h3.npy")
u4 = generate((11, 11), kind="integer", seed=4)
b5 = linear(u1, u4.T, u4[:1, :])
def fg6(x, k=2, w=None):
    y = x * k
    if w == None:
        return y, k
    return y + w, k
g6, kg6 = fg6(b5, w=1)
d7, c8 = topk(u4, 7)
u9 = where(b2, 1, 3)
v10, x11 = topk(u9, 1)
w12 = maximum(b5, g6)
u13 = x11 - n
u14 = u1.T
y15 = mean(d7, -1)
u16 = maximum(u4, n)
a17 = generate((1, 11), kind="integer", seed=17)
z18 = linear(u9, a17.T, a17[:1, :])
save(f"p8_out{0}.npy", u16)
save(f"p8_out{1}.npy", a17)
save(f"p8_out{2}.npy", z18)
