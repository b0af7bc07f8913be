// SPDX-License-Identifier: MIT
// What Python has and this language has not, with what to write instead.
#include <string.h>

#include "tensor/tree.h"

static const struct mmul_refusal refusals[] = {
    {"while", "a while loop", "for i in range(...) repeats, a number of times that is known"},
    {"class", "a class", NULL},
    {"try", "try", NULL},
    {"except", "except", NULL},
    {"finally", "finally", NULL},
    {"raise", "raise", NULL},
    {"with", "with", "files are closed without it"},
    {"import", "an import", "all names are there without it"},
    {"from", "an import", "all names are there without it"},
    {"global", "global", "a function returns what it changes"},
    {"nonlocal", "nonlocal", "a function returns what it changes"},
    {"lambda", "lambda", "def NAME(x): and return on a line of its own"},
    {"yield", "yield", NULL},
    {"async", "async", NULL},
    {"await", "await", NULL},
    {"del", "del", "values go when nothing reads them any more"},
    {"assert", "assert", "assert_close(x, y, tolerance) compares two matrices"},
    {"break", "break", "if inside the loop leaves steps out"},
    {"continue", "continue", "if inside the loop leaves steps out"},
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
    {"&", "'&'", "minimum(x, y) of what is 0 or 1"},
    {"|", "'|'", "maximum(x, y) of what is 0 or 1"},
    {"^", "'^'", "** is the power"},
    {"~", "'~'", "1 - x of what is 0 or 1"},
    {"<<", "'<<'", NULL},
    {">>", "'>>'", NULL},
    {":=", "':='", "an assignment on a line of its own"},
    {"->", "an annotation", NULL},
    {"...", "'...'", "x[:, a:b] has a slice for each axis"},
    {";", "';'", "a line for each statement"},
    {"+", "a plus sign without a left side", NULL},
};

const struct mmul_refusal *mmul_refusal_find(const char *word) {
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        if (strcmp(refusals[i].word, word) == 0)
            return &refusals[i];
    return NULL;
}

static const struct {
    const char *name, *instead;
} of_numpy[] = {
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

const char *mmul_refusal_instead(const char *name) {
    for (size_t i = 0; i < sizeof of_numpy / sizeof *of_numpy; i++)
        if (strcmp(of_numpy[i].name, name) == 0)
            return of_numpy[i].instead;
    return NULL;
}
