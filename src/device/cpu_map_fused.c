// SPDX-License-Identifier: MIT
// Several element-wise operations in sequence, piece by piece, so that intermediate values stay in
// the cache.
// Each operation alone takes 1.4 times as long in AdamW, without non-temporal stores 1.1 times
// (bench/ledger.md).
#include "device/cpu_map_elements.h"

#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/integer.h"

// A piece of a row passes through all operations while it is in the first-level cache. Buffers as
// long as a piece hold constants, values shared along a row, and values that only later operations
// of the group read. About ten buffers, and as much of each operand in memory, prefetched, must fit
// 32 KiB.
enum { PIECE = 1024 / sizeof(mmul_real), BUFFERS = 24 };

struct link_operand {
    const mmul_real *at; // element (0, 0); NULL: the buffer holds the value already
    int64_t row_step;
    const mmul_real *buffer; // NULL: in memory
};

struct link {
    mmul_cpu_kernel *kernel;
    struct link_operand operands[MMUL_CPU_OPERANDS];
    int operand_count;
    mmul_real *out; // element (0, 0)
    int64_t ld;
    mmul_real *buffer;   // replaces `out`
    bool bypasses_cache; // written from its buffer, bypassing the caches
};

// Content of a buffer: the number at `of`, the result of an operation that would be at `of`, or a
// value that is not shared.
enum content { NUMBER, PASSED, ALONG_ROW };

struct buffer {
    const mmul_real *of;
    enum content content;
};

// A memory stream that is read or written, listed once each.
struct stream {
    const mmul_real *at;
    int64_t row_step;
};

struct chain {
    struct link links[MMUL_FUSED_MAPS_MAX];
    struct stream streams[MMUL_FUSED_MAPS_MAX * (MMUL_CPU_OPERANDS + 1)];
    int stream_count;
    struct buffer buffers[BUFFERS];
    mmul_real (*memory)[PIECE];
    int count, buffer_count;
    int64_t rows, cols;
};

// Writes with non-temporal stores: a target that is not read soon is not loaded into the caches
// before it is overwritten.
static void write_streaming(mmul_real *to, const mmul_real *from, int64_t n) {
#ifdef __SSE2__
    enum { PARTS = MMUL_CPU_CACHE_LINE * sizeof(mmul_real) / sizeof(__m128i) };
    const int64_t begin =
        mmul_min(n, -(intptr_t)(to) / (intptr_t)sizeof *to & (MMUL_CPU_CACHE_LINE - 1));
    int64_t end = begin;
    for (; end + MMUL_CPU_CACHE_LINE <= n; end += MMUL_CPU_CACHE_LINE) // whole lines
        for (int i = 0; i < PARTS; i++)
            _mm_stream_si128((__m128i *)(to + end) + i,
                             _mm_loadu_si128((const __m128i *)(from + end) + i));
    memcpy(to, from, (size_t)begin * sizeof *to);
    memcpy(to + end, from + end, (size_t)(n - end) * sizeof *to);
#else
    memcpy(to, from, (size_t)n * sizeof *to);
#endif
}

// Orders the non-temporal stores before other threads read the result.
static void fence_streaming(void) {
#ifdef __SSE2__
    _mm_sfence();
#endif
}

static mmul_real *add_buffer(struct chain *chain, const mmul_real *of, enum content content) {
    if (chain->buffer_count == BUFFERS)
        return NULL;
    chain->buffers[chain->buffer_count] = (struct buffer){of, content};
    return chain->memory[chain->buffer_count++];
}

// Returns the latest buffer with this content; NULL: none.
static const mmul_real *find_buffer(const struct chain *chain, struct mmul_strided x) {
    for (int r = chain->buffer_count - 1; r >= 0; r--) {
        const struct buffer *buffer = &chain->buffers[r];
        if (mmul_cpu_is_constant(x)
                ? buffer->content == NUMBER && memcmp(buffer->of, x.at, sizeof *x.at) == 0
                : buffer->content == PASSED && x.col_step == 1 && buffer->of == x.at)
            return chain->memory[r];
    }
    return NULL;
}

// Returns false if the operand needs another algorithm.
static bool add_operand(struct chain *chain, struct link_operand *operand, struct mmul_strided x) {
    *operand = (struct link_operand){.buffer = find_buffer(chain, x)};
    if (operand->buffer != NULL)
        return true;
    operand->at = x.at;
    operand->row_step = x.row_step;
    if (x.col_step == 0)
        operand->buffer = add_buffer(chain, x.at, mmul_cpu_is_constant(x) ? NUMBER : ALONG_ROW);
    return x.col_step == 1 || operand->buffer != NULL;
}

// Treats a column as a row. The step of a single element does not matter.
static struct mmul_strided find_operand(const struct mmul_map *map, int operand) {
    struct mmul_strided x = mmul_cpu_operand(map, operand, 0);
    if (map->cols == 1)
        x = (struct mmul_strided){x.at, 0, map->rows == 1 ? 1 : x.row_step};
    return x;
}

static bool add_link(struct chain *chain, const struct mmul_map *map) {
    struct link *link = &chain->links[chain->count++];
    bool is_square;
    *link = (struct link){.kernel = mmul_cpu_kernel_of(map, &is_square),
                          .operand_count = map->operand_count,
                          .out = mmul_cpu_result(map, 0),
                          .ld = map->result.ld};
    // The kernel of a single power depends on its exponent, which an earlier operation may compute.
    const bool is_one_power = map->kind == MMUL_POWER && map->rows == 1 && map->cols == 1;
    bool is_possible = link->kernel != NULL && map->matrices == 1 && !is_one_power &&
                       (map->cols > 1 || map->rows == 1 || map->result.ld == 1);
    for (int i = 0; is_possible && i < map->operand_count; i++)
        is_possible = add_operand(chain, &link->operands[i], find_operand(map, is_square ? 0 : i));
    if (is_possible && map->is_intermediate) {
        link->buffer = add_buffer(chain, link->out, PASSED);
        is_possible = link->buffer != NULL;
    }
    return is_possible;
}

// Joins all rows into one if they are adjacent in every operand and result.
static void join_rows(struct chain *chain) {
    bool is_flat = true;
    for (int i = 0; is_flat && i < chain->count; i++) {
        const struct link *link = &chain->links[i];
        is_flat = link->buffer != NULL || link->ld == chain->cols;
        for (int p = 0; p < link->operand_count; p++) {
            const struct link_operand *x = &link->operands[p];
            is_flat &= x->at == NULL || x->row_step == (x->buffer != NULL ? 0 : chain->cols);
        }
    }
    if (is_flat) {
        chain->cols *= chain->rows;
        chain->rows = 1;
    }
}

static void add_stream(struct chain *chain, const mmul_real *at, int64_t row_step) {
    bool is_new = true;
    for (int s = 0; s < chain->stream_count; s++)
        is_new &= chain->streams[s].at != at;
    if (is_new)
        chain->streams[chain->stream_count++] = (struct stream){at, row_step};
}

static void find_streams(struct chain *chain) {
    for (int k = 0; k < chain->count; k++) {
        const struct link *link = &chain->links[k];
        for (int p = 0; p < link->operand_count; p++)
            if (link->operands[p].buffer == NULL)
                add_stream(chain, link->operands[p].at, link->operands[p].row_step);
        if (link->buffer == NULL)
            add_stream(chain, link->out, link->ld);
    }
}

// Prefetches the k-th operation's share of a later piece, so that memory is always busy.
static void prefetch_share(const struct chain *chain, int k, int64_t i, int64_t j) {
    enum { LINES = PIECE / MMUL_CPU_CACHE_LINE, AHEAD = MMUL_CPU_PREFETCH_DISTANCE + PIECE };
    const int lines = chain->stream_count * LINES;
    for (int l = k * lines / chain->count; l < (k + 1) * lines / chain->count; l++) {
        const struct stream *s = &chain->streams[l / LINES];
        __builtin_prefetch(s->at + i * s->row_step + j + AHEAD + l % LINES * MMUL_CPU_CACHE_LINE);
    }
}

static void make_piece(const struct chain *chain, int64_t i, int64_t j, int64_t n) {
    for (int k = 0; k < chain->count; k++) {
        const struct link *link = &chain->links[k];
        prefetch_share(chain, k, i, j);
        const mmul_real *x[MMUL_CPU_OPERANDS] = {0};
        for (int p = 0; p < link->operand_count; p++) {
            const struct link_operand *o = &link->operands[p];
            x[p] = o->buffer != NULL ? o->buffer : o->at + i * o->row_step + j;
        }
        link->kernel(n, x[0], x[1], x[2],
                     link->buffer != NULL ? link->buffer : link->out + i * link->ld + j);
        if (link->bypasses_cache)
            write_streaming(link->out + i * link->ld + j, link->buffer, n);
    }
}

// Fills the buffers of values shared along row i.
static void fill_buffers(struct chain *chain, int64_t i) {
    for (int k = 0; k < chain->count; k++)
        for (int p = 0; p < chain->links[k].operand_count; p++) {
            const struct link_operand *o = &chain->links[k].operands[p];
            if (o->at != NULL && o->buffer != NULL && (i == 0 || o->row_step != 0))
                mmul_cpu_pack((struct mmul_strided){o->at + i * o->row_step, 0, 0}, 1,
                              mmul_min(PIECE, chain->cols), (mmul_real *)(uintptr_t)o->buffer, 0);
        }
}

// Returns true if the data, read and written once each, exceeds the caches: its beginning is
// evicted before its end arrives. A row shared by all rows does not count.
static bool exceeds_caches(const struct chain *chain, const struct mmul_map *map) {
    const struct mmul_shape shape = map->shape;
    const double each = (double)(mmul_shape_matrices(shape) * shape.rows) * (double)shape.cols *
                        (double)sizeof(mmul_real);
    double bytes = 0;
    for (int s = 0; s < chain->stream_count; s++)
        bytes += chain->streams[s].row_step != 0 || chain->rows == 1 ? each : 0;
    return map->cache_bytes > 0 && bytes > 2 * (double)map->cache_bytes;
}

// Lets operands of link l that equal the result of `link`, at the same position, read from its
// buffer.
static void redirect_operands(struct chain *chain, const struct link *link, int l) {
    for (int p = 0; p < chain->links[l].operand_count; p++) {
        struct link_operand *x = &chain->links[l].operands[p];
        const bool is_same = x->at == link->out && (x->row_step == link->ld || chain->rows == 1);
        if (x->buffer == NULL && is_same)
            *x = (struct link_operand){.buffer = link->buffer};
    }
}

// Gives each written result a buffer, if one is left. Later operations read it there until it is
// overwritten.
static void bypass_caches(struct chain *chain) {
    for (int k = 0; k < chain->count; k++) {
        struct link *link = &chain->links[k];
        if (link->buffer != NULL)
            continue;
        link->buffer = add_buffer(chain, link->out, PASSED);
        link->bypasses_cache = link->buffer != NULL;
        for (int l = k + 1; link->bypasses_cache && l < chain->count; l++) {
            redirect_operands(chain, link, l);
            if (chain->links[l].out == link->out)
                break;
        }
    }
}

bool mmul_cpu_map_elements_fused(const struct mmul_map *maps, int count) {
    mmul_real memory[BUFFERS][PIECE];
    const bool is_column = maps[0].cols == 1;
    struct chain chain = {.memory = memory,
                          .rows = is_column ? 1 : maps[0].rows,
                          .cols = is_column ? maps[0].rows : maps[0].cols};
    for (int i = 0; i < count; i++)
        if (!add_link(&chain, &maps[i]))
            return false;
    join_rows(&chain);
    find_streams(&chain);
    const bool bypasses_cache = exceeds_caches(&chain, &maps[0]);
    if (bypasses_cache) {
        bypass_caches(&chain);
        chain.stream_count = 0;
        find_streams(&chain); // streams still read, or written through the caches
    }
    for (int64_t i = 0; i < chain.rows; i++) {
        fill_buffers(&chain, i);
        for (int64_t j = 0; j < chain.cols; j += PIECE)
            make_piece(&chain, i, j, mmul_min(PIECE, chain.cols - j));
    }
    if (bypasses_cache)
        fence_streaming();
    return true;
}
