// SPDX-License-Identifier: MIT
//
// Operations element by element, copies, and table look-ups.
//
//   result(i, j) = f(x(i, j), y(i, j), z(i, j))          map_NAME, with the operation's operands
//   result(i, j) = x(y(0, i), j)                          map_take
//
// Storage: as in map.cl. Work: one work-item per element, row by row; surplus work-items of the
// last group do nothing. map_copy_turned is map_copy for an operand with distant columns and
// adjacent rows: a group moves a square of TILE x TILE through local memory, so that it reads along
// the rows and writes along the columns. Group (g, h) has columns [g TILE, ..) and rows [h TILE,
// ..).
// Accuracy: that of OpenCL's own functions. Sums of opposite signs are rewritten to avoid
// cancellation.
// Tunables: TILE, 16; GROUP is a multiple of it.
// Must equal: make_elements, look_up (device/reference_map.c).

#define ELEMENTS(name, value)                                            \
    MAP_KERNEL(name) {                                                   \
        CARRY                                                            \
        const uint e = get_global_id(0), i = e / cols, j = e - i * cols; \
        if (i < rows) {                                                  \
            const float a = OPERAND(x, i, j);                            \
            WRITE(i, j, value)                                           \
        }                                                                \
        CARRY_END                                                        \
    }

#define PAIRS(name, value)                                               \
    MAP_KERNEL(name) {                                                   \
        CARRY                                                            \
        const uint e = get_global_id(0), i = e / cols, j = e - i * cols; \
        if (i < rows) {                                                  \
            const float a = OPERAND(x, i, j), b = OPERAND(y, i, j);      \
            WRITE(i, j, value)                                           \
        }                                                                \
        CARRY_END                                                        \
    }

float sigmoid(const float a) {
    return 1.0f / (1.0f + exp(-a));
}

// Returns a, or the lowest float for -infinity: the limit of a times a function that goes to 0
// there is 0.
float finite_below(const float a) {
    return a < -FLT_MAX ? -FLT_MAX : a;
}

// 1 + erf(a / sqrt 2) = erfc(-a / sqrt 2)
float gelu(const float a) {
    return 0.5f * finite_below(a) * erfc(-a * 0.70710678f);
}

// (1 + tanh(u)) / 2 = sigmoid(2 u), 2 sqrt(2 / pi) = 1.5957691
float gelu_tanh(const float a) {
    return finite_below(a) * sigmoid(1.5957691f * (a + 0.044715f * a * a * a));
}

// Clamps the argument of derivatives: they are 0 or 1 far from 0, infinities included.
float slope_range(const float a) {
    return a > 1000.0f ? 1000.0f : a < -1000.0f ? -1000.0f : a;
}

float silu_slope(const float x) {
    const float a = slope_range(x), s = sigmoid(a);
    return s * (1.0f + a * (1.0f - s));
}

float gelu_slope(const float x) {
    const float a = slope_range(x);
    return 0.5f * erfc(-a * 0.70710678f) + a * 0.39894228f * exp(-0.5f * a * a);
}

// Derivative of 2 u by a: 2 sqrt(2 / pi) (1 + 3 0.044715 a^2)
float gelu_tanh_slope(const float x) {
    const float a = slope_range(x), s = sigmoid(1.5957691f * (a + 0.044715f * a * a * a));
    return s * (1.0f + a * (1.0f - s) * (1.5957691f + 0.21406445f * a * a));
}

// Giles, "Approximating the erfinv function", GPU Computing Gems Jade Edition, 2012
float erfinv(const float a) {
    const float w = -log((1.0f - a) * (1.0f + a));
    const int is_near = w < 5.0f;
    const float v = is_near ? w - 2.5f : sqrt(w) - 3.0f;
    float p = is_near ? 2.81022636e-8f : -2.00214257e-4f;
    p = p * v + (is_near ? 3.43273939e-7f : 1.00950558e-4f);
    p = p * v + (is_near ? -3.5233877e-6f : 1.34934322e-3f);
    p = p * v + (is_near ? -4.39150654e-6f : -3.67342844e-3f);
    p = p * v + (is_near ? 2.1858087e-4f : 5.73950773e-3f);
    p = p * v + (is_near ? -1.25372503e-3f : -7.6224613e-3f);
    p = p * v + (is_near ? -4.17768164e-3f : 9.43887047e-3f);
    p = p * v + (is_near ? 0.246640727f : 1.00167406f);
    p = p * v + (is_near ? 1.50140941f : 2.83297682f);
    return fabs(a) == 1.0f ? a * INFINITY : p * a;
}

float remainder_of(const float a, const float b) {
    const float left = fmod(a, b);
    if (left != 0.0f)
        return (left < 0.0f) != (b < 0.0f) ? left + b : left;
    return copysign(0.0f, b);
}

float floor_divide(const float a, const float b) {
    const float left = fmod(a, b);
    const float other_side = left != 0.0f && (left < 0.0f) != (b < 0.0f) ? 1.0f : 0.0f;
    const float quotient = (a - left) / b - other_side;
    return b == 0.0f ? a / b : quotient == 0.0f ? copysign(0.0f, a / b) : round(quotient);
}

// log1p(a) rounds to a below 2^-25. A compiler may flush subnormal numbers in its own log1p.
float log1p_of(const float a) {
    return fabs(a) < 0x1p-25f ? a : log1p(a);
}

ELEMENTS(map_copy, a)
ELEMENTS(map_cast, a)
ELEMENTS(map_neg, -a)
ELEMENTS(map_exp, exp(a))
ELEMENTS(map_log, log(a))
ELEMENTS(map_log1p, log1p_of(a))
ELEMENTS(map_sqrt, sqrt(a))
ELEMENTS(map_rsqrt, 1.0f / sqrt(a))
ELEMENTS(map_abs, fabs(a))
ELEMENTS(map_relu, a < 0.0f ? 0.0f : a)
ELEMENTS(map_sigmoid, sigmoid(a))
ELEMENTS(map_tanh, tanh(a))
ELEMENTS(map_silu, finite_below(a) * sigmoid(a))
ELEMENTS(map_gelu, gelu(a))
ELEMENTS(map_gelu_tanh, gelu_tanh(a))
ELEMENTS(map_sin, sin(a))
ELEMENTS(map_cos, cos(a))
ELEMENTS(map_erf, erf(a))
ELEMENTS(map_erfinv, erfinv(a))
ELEMENTS(map_arctan, atan(a))
ELEMENTS(map_expm1, expm1(a))
ELEMENTS(map_floor, floor(a))
ELEMENTS(map_round, rint(a))

PAIRS(map_add, a + b)
PAIRS(map_subtract, a - b)
PAIRS(map_multiply, a *b)
PAIRS(map_divide, a / b)
PAIRS(map_floor_divide, floor_divide(a, b))
PAIRS(map_remainder, remainder_of(a, b))
PAIRS(map_power, pow(a, b))
PAIRS(map_maximum, larger(a, b))
PAIRS(map_minimum, smaller(a, b))
PAIRS(map_equal, a == b ? 1.0f : 0.0f)
PAIRS(map_not_equal, a != b ? 1.0f : 0.0f)
PAIRS(map_less, a < b ? 1.0f : 0.0f)
PAIRS(map_less_equal, a <= b ? 1.0f : 0.0f)
PAIRS(map_greater, a > b ? 1.0f : 0.0f)
PAIRS(map_greater_equal, a >= b ? 1.0f : 0.0f)
PAIRS(map_silu_backward, silu_slope(a) * b)
PAIRS(map_gelu_backward, gelu_slope(a) * b)
PAIRS(map_gelu_tanh_backward, gelu_tanh_slope(a) * b)
PAIRS(map_multiply_backward, a == 0.0f ? 0.0f : a * b)
PAIRS(map_divide_backward, a == 0.0f ? 0.0f : a / b)

ELEMENTS(map_where, a != 0.0f ? OPERAND(y, i, j) : OPERAND(z, i, j))

MAP_KERNEL(map_take) {
    CARRY
    const uint e = get_global_id(0), i = e / cols, j = e - i * cols;
    if (i < rows)
        WRITE(i, j, OPERAND(x, (uint)OPERAND(y, 0u, i), j))
    CARRY_END
}

#define TILE 16

MAP_KERNEL(map_copy_turned) {
    CARRY
    __local float tile[TILE][TILE + 1]; // the extra column spreads a column over different banks
    const uint left = get_group_id(0) * TILE, top = get_group_id(1) * TILE;
    const uint id = get_local_id(0), along = id % TILE;
    for (uint across = id / TILE; across < TILE; across += GROUP / TILE)
        if (top + along < rows && left + across < cols)
            tile[along][across] = OPERAND(x, top + along, left + across);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint across = id / TILE; across < TILE; across += GROUP / TILE)
        if (top + across < rows && left + along < cols)
            WRITE(top + across, left + along, tile[across][along])
    CARRY_END
}
