// SPDX-License-Identifier: MIT
// Tables of Python constructs and numpy functions that this language lacks, each with the code to
// write instead. The parser and the lookup of names quote them in their hints.
#include <string.h>

#include "tensor/tree.h"

static const struct mmul_missing_construct refusals[] = {
    {"while", "a while loop", "for i in loop(n): repeats, and if ...: break ends it"},
    {"class", "a class", NULL},
    {"try", "try", NULL},
    {"except", "except", NULL},
    {"finally", "finally", NULL},
    {"raise", "raise", NULL},
    {"with", "with", "files are closed automatically"},
    {"import", "an import", "all names are available without it"},
    {"from", "an import", "all names are available without it"},
    {"global", "global", "a function returns what it changes"},
    {"nonlocal", "nonlocal", "a function returns what it changes"},
    {"lambda", "lambda", "def NAME(x): and return on a line of its own"},
    {"yield", "yield", NULL},
    {"async", "async", NULL},
    {"await", "await", NULL},
    {"del", "del", "values are freed when nothing reads them any more"},
    {"assert", "assert", "assert_close(x, y, tolerance) compares two matrices"},
    {"pass", "pass", NULL},
    {"match", "match", NULL},
    {"in", "'in' outside of for", NULL},
    {"is", "'is'", "== compares"},
    {"[", "a list", "a tuple: (a, b)"},
    {"{", "a dictionary or set", NULL},
    {"&=", "'&='", NULL},
    {"|=", "'|='", NULL},
    {"^=", "'^='", NULL},
    {"<<=", "'<<='", NULL},
    {">>=", "'>>='", NULL},
    {"&", "'&'", "minimum(x, y) for values 0 and 1"},
    {"|", "'|'", "maximum(x, y) for values 0 and 1"},
    {"^", "'^'", "** is the power"},
    {"~", "'~'", "1 - x for values 0 and 1"},
    {"<<", "'<<'", NULL},
    {">>", "'>>'", NULL},
    {":=", "':='", "an assignment on a line of its own"},
    {"->", "an annotation", NULL},
    {"...", "'...'", "x[:, a:b] has a slice for each axis"},
    {";", "';'", "a line for each statement"},
    {"+", "a plus sign without a left side", NULL},
};

const struct mmul_missing_construct *mmul_refusal_find(const char *word) {
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        if (strcmp(refusals[i].word, word) == 0)
            return &refusals[i];
    return NULL;
}

#define IN_NUMPY(module) "not available yet: save(\"x.npy\", x), then use " module " has it"

static const struct {
    const char *name, *instead;
} of_numpy[] = {
    {"svd", IN_NUMPY("numpy.linalg")},
    {"inv", IN_NUMPY("numpy.linalg")},
    {"pinv", IN_NUMPY("numpy.linalg")},
    {"solve", IN_NUMPY("numpy.linalg")},
    {"lstsq", IN_NUMPY("numpy.linalg")},
    {"eig", IN_NUMPY("numpy.linalg")},
    {"eigh", IN_NUMPY("numpy.linalg")},
    {"eigvals", IN_NUMPY("numpy.linalg")},
    {"qr", IN_NUMPY("numpy.linalg")},
    {"cholesky", IN_NUMPY("numpy.linalg")},
    {"det", IN_NUMPY("numpy.linalg")},
    {"slogdet", IN_NUMPY("numpy.linalg")},
    {"matrix_rank", IN_NUMPY("numpy.linalg")},
    {"fft", IN_NUMPY("numpy.fft")},
    {"ifft", IN_NUMPY("numpy.fft")},
    {"rfft", IN_NUMPY("numpy.fft")},
    {"unique", IN_NUMPY("numpy")},
    {"kron", IN_NUMPY("numpy")},
    {"conv1d", "not available yet: join slices to windows, concat((x[:-1], x[1:]), axis=-1) @ w"},
    {"conv2d", "not available yet: join slices to windows, concat((x[:-1], x[1:]), axis=-1) @ w"},
    {"median", "sort(x)[:, n // 2] is the median of rows of n elements"},
    {"cumprod", "not available yet: exp(cumsum(log(x), axis=-1)) for positive values"},
    {"trace", "sum(diag(x))"},
    {"inner", "x @ y.T"},
    {"tensordot", "einsum(\"ij,jk->ik\", x, y)"},
    {"bmm", "x @ y"},
    {"roll", "concat((x[:, -k:], x[:, :-k]), axis=-1)"},
    {"pad", "concat((x, zeros((m, k))), axis=-1)"},
    {"squeeze", "x[0], or reshape(x, (m, n))"},
    {"unsqueeze", "reshape(x, (1, m, n))"},
    {"expand_dims", "reshape(x, (1, m, n))"},
    {"broadcast_to", "sizes of 1 are broadcast; tile(x, reps) repeats any size"},
    {"flatten", "reshape(x, (1, -1))"},
    {"ravel", "reshape(x, (1, -1))"},
    {"swapaxes", "permute(x, axes)"},
    {"chunk", "split(x, 3)"},
    {"gather", "take(table, ids) selects rows"},
    {"isinf", "abs(x) == 1e999"},
    {"isfinite", "x - x == 0"},
    {"logical_and", "minimum(x, y) for values 0 and 1"},
    {"logical_or", "maximum(x, y) for values 0 and 1"},
    {"logical_not", "x == 0"},
    {"tan", "sin(x) / cos(x)"},
    {"log2", "log(x) / log(2)"},
    {"log10", "log(x) / log(10)"},
    {"log_softmax", "x - logsumexp(x, axis=-1)"},
    {"leaky_relu", "maximum(x, 0.01 * x)"},
    {"elu", "where(x > 0, x, expm1(minimum(x, 0)))"},
    {"randn", "normal((m, n), seed=1)"},
    {"trunc", "sign(x) * floor(abs(x))"},
    {"zeros_like", "x * 0"},
    {"ones_like", "x * 0 + 1"},
    {"full", "ones((m, n)) * value"},
    {"identity", "eye(n)"},
    {"dot", "x @ y"},
    {"matmul", "x @ y"},
    {"add", "x + y"},
    {"subtract", "x - y"},
    {"multiply", "x * y"},
    {"divide", "x / y"},
    {"power", "x ** y"},
    {"square", "x * x"},
    {"transpose", "x.T swaps the last two axes, permute(x, axes) any"},
    {"concatenate", "concat((x, y), axis=0)"},
    {"cat", "concat((x, y), axis=0)"},
    {"vstack", "concat((x, y), axis=-2)"},
    {"hstack", "concat((x, y), axis=-1)"},
    {"embedding", "take(table, ids)"},
};

const char *mmul_refusal_find_alternative(const char *name) {
    for (size_t i = 0; i < sizeof of_numpy / sizeof *of_numpy; i++)
        if (strcmp(of_numpy[i].name, name) == 0)
            return of_numpy[i].instead;
    return NULL;
}
