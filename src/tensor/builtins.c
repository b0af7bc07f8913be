// SPDX-License-Identifier: MIT
// The table of built-in functions. Also computes elementwise functions of plain numbers; the engine
// computes those of matrices.
#include "tensor/builtins.h"

#include <math.h>

static double negate(double x) {
    return -x;
}

static double rsqrt(double x) {
    return 1 / sqrt(x);
}

static double relu(double x) {
    return x < 0 ? 0 : x;
}

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static double silu(double x) {
    return x == -INFINITY ? -0.0 : x * sigmoid(x);
}

static double softplus(double x) {
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

static double sign(double x) {
    return isnan(x) ? x : (double)(x > 0) - (double)(x < 0);
}

static const struct mmul_builtin TABLE[] = {
    {"neg", "x", mmul_builtin_unary, "neg", negate},
    {"exp", "x", mmul_builtin_unary, "exp", exp},
    {"log", "x", mmul_builtin_unary, "log", log},
    {"log1p", "x", mmul_builtin_unary, "log1p", log1p},
    {"sqrt", "x", mmul_builtin_unary, "sqrt", sqrt},
    {"rsqrt", "x", mmul_builtin_unary, "rsqrt", rsqrt},
    {"abs", "x", mmul_builtin_unary, "abs", fabs},
    {"relu", "x", mmul_builtin_unary, "relu", relu},
    {"sigmoid", "x", mmul_builtin_unary, "sigmoid", sigmoid},
    {"tanh", "x", mmul_builtin_unary, "tanh", tanh},
    {"silu", "x", mmul_builtin_unary, "silu", silu},
    {"softplus", "x", mmul_builtin_unary, "softplus", softplus},
    {"sin", "x", mmul_builtin_unary, "sin", sin},
    {"cos", "x", mmul_builtin_unary, "cos", cos},
    {"erf", "x", mmul_builtin_unary, "erf", erf},
    {"arctan", "x", mmul_builtin_unary, "arctan", atan},
    {"expm1", "x", mmul_builtin_unary, "expm1", expm1},
    {"floor", "x", mmul_builtin_unary, "floor", floor},
    {"ceil", "x", mmul_builtin_unary, "ceil", ceil},
    {"round", "x, ndigits=None", mmul_builtin_round, "round", NULL},
    {"sign", "x", mmul_builtin_unary, "sign", sign},
    {"isnan", "x", mmul_builtin_isnan, "isnan", NULL},
    {"gelu", "x, approximate=\"none\"", mmul_builtin_gelu, "gelu", NULL},
    {"maximum", "x, y", mmul_builtin_binary, "maximum", NULL},
    {"minimum", "x, y", mmul_builtin_binary, "minimum", NULL},
    {"where", "condition, x, y", mmul_builtin_where, "where", NULL},
    {"clip", "x, low, high", mmul_builtin_clip, "clip", NULL},
    {"softmax", "x, causal=False, axis=-1", mmul_builtin_softmax, "softmax", NULL},
    {"rms_norm", "x, w, eps=1e-6", mmul_builtin_norm, "rms_norm", NULL},
    {"layer_norm", "x, w, b, eps=1e-5", mmul_builtin_norm, "layer_norm", NULL},
    {"normalize", "x", mmul_builtin_row, "normalize", NULL},
    {"argmax", "x, axis=-1, keepdims=True", mmul_builtin_argmax, "argmax", NULL},
    {"argmin", "x, axis=-1, keepdims=True", mmul_builtin_argmax, "argmin", NULL},
    {"topk", "x, k", mmul_builtin_topk, "topk", NULL},
    {"sort", "x, axis=-1, descending=False", mmul_builtin_sort, "sort", NULL},
    {"argsort", "x, axis=-1, descending=False", mmul_builtin_sort, "argsort", NULL},
    {"rope", "x, base=10000.0, interleaved=False", mmul_builtin_rope, "rope", NULL},
    {"sum", "x, axis=None, keepdims=True", mmul_builtin_reduce, "sum", NULL},
    {"mean", "x, axis=None, keepdims=True", mmul_builtin_reduce, "mean", NULL},
    {"max", "x, axis=None, keepdims=True, ...", mmul_builtin_extreme, "max", NULL},
    {"min", "x, axis=None, keepdims=True, ...", mmul_builtin_extreme, "min", NULL},
    {"amax", "x, axis=None, keepdims=True", mmul_builtin_reduce, "max", NULL},
    {"amin", "x, axis=None, keepdims=True", mmul_builtin_reduce, "min", NULL},
    {"var", "x, axis=None, keepdims=True", mmul_builtin_reduce, "var", NULL},
    {"std", "x, axis=None, keepdims=True", mmul_builtin_reduce, "std", NULL},
    {"norm", "x, axis=None, keepdims=True", mmul_builtin_reduce, "norm", NULL},
    {"logsumexp", "x, axis=None, keepdims=True", mmul_builtin_reduce, "logsumexp", NULL},
    {"prod", "x, axis=None, keepdims=True", mmul_builtin_reduce, "prod", NULL},
    {"all", "x, axis=None, keepdims=True", mmul_builtin_reduce, "all", NULL},
    {"any", "x, axis=None, keepdims=True", mmul_builtin_reduce, "any", NULL},
    {"cumsum", "x, axis", mmul_builtin_cumsum, "cumsum", NULL},
    {"reshape", "x, shape", mmul_builtin_reshape, "reshape", NULL},
    {"permute", "x, axes", mmul_builtin_permute, "permute", NULL},
    {"concat", "matrices, axis=0", mmul_builtin_concat, "concat", NULL},
    {"stack", "matrices, axis=0", mmul_builtin_stack, NULL, NULL},
    {"split", "x, indices_or_sections, axis=0", mmul_builtin_split, NULL, NULL},
    {"flip", "x, axis=None", mmul_builtin_flip, NULL, NULL},
    {"tile", "x, reps", mmul_builtin_tile, "tile", NULL},
    {"repeat", "x, repeats, axis=None", mmul_builtin_repeat, "repeat", NULL},
    {"outer", "a, b", mmul_builtin_outer, "outer", NULL},
    {"einsum", "subscripts, a, b", mmul_builtin_einsum, "einsum", NULL},
    {"triu", "x, k=0", mmul_builtin_triu, "triu", NULL},
    {"tril", "x, k=0", mmul_builtin_triu, "tril", NULL},
    {"diag", "x, k=0", mmul_builtin_diag, NULL, NULL},
    {"take", "table, ids", mmul_builtin_take, "take", NULL},
    {"one_hot", "ids, v", mmul_builtin_one_hot, "one_hot", NULL},
    {"add_at", "table, ids, rows", mmul_builtin_add_at, "add_at", NULL},
    {"cross_entropy", "logits, ids", mmul_builtin_loss, "cross_entropy", NULL},
    {"mse", "x, y", mmul_builtin_loss, "mse", NULL},
    {"binary_cross_entropy", "logits, y", mmul_builtin_loss, "binary_cross_entropy", NULL},
    {"grad", "y, x", mmul_builtin_grad, NULL, NULL},
    {"stop_gradient", "x", mmul_builtin_row, "stop_gradient", NULL},
    {"dropout", "x, p, seed, turn", mmul_builtin_dropout, "dropout", NULL},
    {"adamw_state", "parameters", mmul_builtin_state, NULL, NULL},
    {"adamw", "state, g, turn, rate, betas=None, eps=1e-8, decay=0.01", mmul_builtin_adamw, NULL,
     NULL},
    {"sgd_state", "parameters", mmul_builtin_state, NULL, NULL},
    {"sgd", "state, g, rate, momentum=0, nesterov=False, decay=0", mmul_builtin_sgd, NULL, NULL},
    {"nesterov_state", "parameters", mmul_builtin_state, NULL, NULL},
    {"nesterov", "outer, new, rate=0.7, momentum=0.9", mmul_builtin_nesterov, NULL, NULL},
    {"apart", "f, state, first, turns", mmul_builtin_apart, NULL, NULL},
    {"average", "x", mmul_builtin_average, NULL, NULL},
    {"clip_grad_norm", "g, most", mmul_builtin_clip_grad_norm, NULL, NULL},
    {"cosine", "turn, warm, turns, high, low", mmul_builtin_schedule, NULL, NULL},
    {"linear_schedule", "turn, warm, turns, high, low", mmul_builtin_schedule, NULL, NULL},
    {"tokens", "file, kind=\"chars\"", mmul_builtin_tokens, NULL, NULL},
    {"encode", "letters, text", mmul_builtin_encode, NULL, NULL},
    {"decode", "ids, text", mmul_builtin_decode, NULL, NULL},
    {"batch", "text, count, length, seed, turn", mmul_builtin_batch, NULL, NULL},
    {"checkpoint", "file, state, turn", mmul_builtin_checkpoint, NULL, NULL},
    {"restore", "file, initial", mmul_builtin_restore, NULL, NULL},
    {"attention", "q, k, v, causal=False, mask=None, scale=None", mmul_builtin_attention,
     "attention", NULL},
    {"linear", "x, w, b=None", mmul_builtin_linear, NULL, NULL},
    {"place", "x, placement, ranks=None", mmul_builtin_place, NULL, NULL},
    {"generate", "shape, kind=\"uniform\", seed=1", mmul_builtin_generate, NULL, NULL},
    {"rand", "shape, seed=1", mmul_builtin_rand, NULL, NULL},
    {"normal", "shape, seed=1", mmul_builtin_normal, NULL, NULL},
    {"uniform", "shape, seed=1, low=0.0, high=1.0", mmul_builtin_uniform, NULL, NULL},
    {"eye", "n, m=None, k=0", mmul_builtin_eye, NULL, NULL},
    {"zeros", "shape", mmul_builtin_filled, NULL, NULL},
    {"ones", "shape", mmul_builtin_filled, NULL, NULL},
    {"arange", "start, stop=None, step=1", mmul_builtin_arange, NULL, NULL},
    {"linspace", "start, stop, num=50", mmul_builtin_linspace, NULL, NULL},
    {"int", "x", mmul_builtin_int, NULL, NULL},
    {"float", "x", mmul_builtin_float, NULL, NULL},
    {"len", "x", mmul_builtin_len, NULL, NULL},
    {"load", "file", mmul_builtin_load, NULL, NULL},
    {"save", "file, x", mmul_builtin_save, NULL, NULL},
    {"print", "..., end=\"\\n\", flush=True", mmul_builtin_print, NULL, NULL},
    {"assert_close", "x, y, tolerance", mmul_builtin_assert_close, NULL, NULL},
};

const struct mmul_builtin *mmul_builtins(int *count) {
    *count = (int)(sizeof TABLE / sizeof *TABLE);
    return TABLE;
}
