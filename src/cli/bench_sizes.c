// SPDX-License-Identifier: MIT
// Sizes of bench, from text and back. Memory limits are found out when a size is measured.
#include "cli/bench_sizes.h"

#include <string.h>

#include "cli/failure.h"

static enum mmul_status parse_size(const char *word, struct bench_size *size,
                                   struct mmul_error *err) {
    struct mmul_shape shape;
    struct mmul_error ignored = {0};
    int64_t side;
    int crosses = 0;
    for (const char *c = word; *c != '\0'; c++)
        crosses += *c == 'x';
    if (crosses == 0 && mmul_parse_int64(word, "size", 1, INT32_MAX, &side, &ignored) == MMUL_OK) {
        *size = (struct bench_size){side, side, side};
        return MMUL_OK;
    }
    if (crosses == 2 && mmul_shape_parse(word, &shape, &ignored) == MMUL_OK) {
        *size = (struct bench_size){shape.depth, shape.rows, shape.cols};
        return MMUL_OK;
    }
    mmul_cli_fail(err, MMUL_ERR_USAGE,
                  "--sizes: invalid size '%s', expected 1024 or 4096x14336x4096", word);
    return mmul_cli_hint(err, "MxKxN is A of M x K times B of K x N, N alone is a cube");
}

enum mmul_status mmul_bench_sizes_parse(const char *text, struct bench_sizes *sizes,
                                        struct mmul_error *err) {
    struct bench_sizes found = {.count = 0};
    for (bool is_last = false; !is_last;) {
        // Fits every valid size. A longer word is cut and stays invalid.
        char word[64];
        int length = (int)strcspn(text, ",");
        is_last = text[length] == '\0';
        snprintf(word, sizeof word, "%.*s%s", length < 50 ? length : 50, text,
                 length < 50 ? "" : "...");
        if (found.count == BENCH_SIZES_MAX)
            return mmul_cli_fail(err, MMUL_ERR_USAGE, "--sizes: more than %d sizes",
                                 BENCH_SIZES_MAX);
        enum mmul_status status = parse_size(word, &found.list[found.count++], err);
        if (status != MMUL_OK)
            return status;
        text += length + 1;
    }
    *sizes = found;
    return MMUL_OK;
}

double mmul_bench_size_bytes(struct bench_size size) {
    const double m = (double)size.m, k = (double)size.k, n = (double)size.n;
    return sizeof(float) * (m * k + k * n + m * n);
}

double mmul_bench_size_flops(struct bench_size size) {
    return 2.0 * (double)size.m * (double)size.k * (double)size.n;
}

char *mmul_bench_size_format(struct bench_size size, char text[static 72]) {
    snprintf(text, 72, "%lld x %lld x %lld", (long long)size.m, (long long)size.k,
             (long long)size.n);
    return text;
}
