// SPDX-License-Identifier: MIT
// The specification of every operation except products: plain loops in double. Formulas of elements
// are in model/operations.def. Sums use long double, which has more bits on some machines. Each
// element is rounded to the result's type once. Deliberately slow and never tuned; every other
// device must agree with it.
#include "device/reference_map.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/integer.h"
#include "base/memory.h"
#include "device/host_buffer.h"
#include "device/matrix_sums.h"
#include "model/elements.h"

// Returns element (i, j) of an operand.
static double element(const struct mmul_map *map, int operand, int64_t i, int64_t j) {
    const struct mmul_map_operand *o = &map->operands[operand];
    if (o->buffer == NULL)
        return o->number;
    const int64_t at = o->offset + i * o->row_step + j * o->col_step;
    return o->buffer->head.dtype == MMUL_F64 ? o->buffer->doubles[at] : o->buffer->data[at];
}

static void set_element(const struct mmul_map *map, int64_t i, int64_t j, double value) {
    const int64_t at = i * map->result.ld + j;
    if (map->result.buffer->head.dtype == MMUL_F64)
        mmul_host_doubles(map->result)[at] = value;
    else
        mmul_host_floats(map->result)[at] = (float)value;
}

// -------------------------------------------------------------------------------------- elements

// Propagates a NaN of either argument, as numpy does.
static double maximum(double x, double y) {
    return x >= y || isnan(x) ? x : y;
}

static double minimum(double x, double y) {
    return x <= y || isnan(x) ? x : y;
}

static void make_elements(const struct mmul_map *map) {
    for (int64_t i = 0; i < map->rows; i++)
        for (int64_t j = 0; j < map->cols; j++) {
            double x = element(map, 0, i, j);
            if (map->operand_count == 3)
                set_element(map, i, j, x != 0 ? element(map, 1, i, j) : element(map, 2, i, j));
            else if (map->operand_count == 2)
                set_element(map, i, j, mmul_element_of_two(map->kind, x, element(map, 1, i, j)));
            else
                set_element(map, i, j, mmul_element_of_one(map->kind, x));
        }
}

// ------------------------------------------------------------------------------------------ rows

// Returns the number of elements of row i that take part: all, or with `causal` those up to the
// diagonal that ends in the lower right corner. torch's scaled_dot_product_attention uses the
// diagonal from the upper left corner; they differ if there are fewer rows than columns.
static int64_t count_elements(const struct mmul_map *map, int64_t rows, int64_t i, int64_t cols) {
    int64_t until = map->row + i + 1 + cols - rows;
    if (!map->with->causal || until >= cols)
        return cols;
    return until > 0 ? until : 0;
}

// Returns exp(x - y) from the exact difference.
static long double power_of_difference(double x, double y) {
    return expl((long double)x - (long double)y);
}

// exp(x - max) / sum. A row in which no element takes part becomes zeros; one of only -inf becomes
// NaN.
static void softmax(const struct mmul_map *map, int64_t i) {
    const int64_t cols = map->operands[0].cols,
                  count = count_elements(map, map->shape.rows, i, cols);
    double most = -INFINITY;
    long double sum = 0;
    for (int64_t j = 0; j < count; j++)
        most = maximum(most, element(map, 0, i, j));
    for (int64_t j = 0; j < count; j++)
        sum += power_of_difference(element(map, 0, i, j), most);
    for (int64_t j = 0; j < cols; j++)
        set_element(map, i, j,
                    j < count ? (double)(power_of_difference(element(map, 0, i, j), most) / sum)
                              : 0);
}

static double weight(const struct mmul_map *map, int operand, int64_t j, double otherwise) {
    return operand < map->operand_count ? element(map, operand, 0, j) : otherwise;
}

static double add_squares(const struct mmul_map *map, int64_t i, int64_t cols) {
    long double squares = 0;
    for (int64_t j = 0; j < cols; j++)
        squares += (long double)(element(map, 0, i, j) * element(map, 0, i, j));
    return (double)squares;
}

// x / sqrt(mean(x^2) + epsilon) w: Zhang, Sennrich, "Root Mean Square Layer Normalization", 2019;
// as in torch.
static void rms_norm(const struct mmul_map *map, int64_t i) {
    const int64_t cols = map->operands[0].cols;
    const double squares = add_squares(map, i, cols);
    double factor = 1 / sqrt(squares / (double)cols + map->with->epsilon);
    for (int64_t j = 0; j < cols; j++)
        set_element(map, i, j, element(map, 0, i, j) * factor * weight(map, 1, j, 1));
}

// (x - mean) / sqrt(variance + epsilon) w + b: Ba, Kiros, Hinton, "Layer Normalization", 2016; as
// in torch.
static void layer_norm(const struct mmul_map *map, int64_t i) {
    const int64_t cols = map->operands[0].cols;
    long double sum = 0, squares = 0;
    for (int64_t j = 0; j < cols; j++)
        sum += (long double)element(map, 0, i, j);
    const double mean = (double)(sum / (long double)cols); // exact for equal elements
    for (int64_t j = 0; j < cols; j++) {
        const double off = element(map, 0, i, j) - mean;
        squares += (long double)(off * off);
    }
    const double variance = (double)squares / (double)cols;
    double factor = 1 / sqrt(variance + map->with->epsilon);
    for (int64_t j = 0; j < cols; j++)
        set_element(map, i, j,
                    (element(map, 0, i, j) - mean) * factor * weight(map, 1, j, 1) +
                        weight(map, 2, j, 0));
}

// x / max(|x|, 1e-12), as torch's normalize for rows.
static void normalize(const struct mmul_map *map, int64_t i) {
    const int64_t cols = map->operands[0].cols;
    double length = maximum(sqrt(add_squares(map, i, cols)), 1e-12);
    for (int64_t j = 0; j < cols; j++)
        set_element(map, i, j, element(map, 0, i, j) / length);
}

// Returns true if x of column i comes before y of column j. Order: larger first, NaN before all,
// then the lower column.
static bool comes_before(double x, int64_t i, double y, int64_t j) {
    if (isnan(x) || isnan(y))
        return isnan(x) && (!isnan(y) || i < j);
    return x > y || (x == y && i < j);
}

// An element of a row and its column.
struct place {
    double x;
    int64_t column;
};

static int compare_places(const void *a, const void *b) {
    const struct place *x = a, *y = b;
    return comes_before(x->x, x->column, y->x, y->column) ? -1 : 1;
}

// Computes topk: the first k elements of each row in that order, then their columns.
static enum mmul_status make_topk(const struct mmul_map *map, struct mmul_error *err) {
    const int64_t cols = map->operands[0].cols, k = map->with->count;
    struct place *places = NULL;
    enum mmul_status status = MMUL_ALLOCATE(places, cols, "a row", err);
    for (int64_t i = 0; status == MMUL_OK && i < map->rows; i++) {
        for (int64_t j = 0; j < cols; j++)
            places[j] = (struct place){element(map, 0, i, j), j};
        qsort(places, (size_t)cols, sizeof *places, compare_places);
        for (int64_t n = 0; n < k; n++) {
            set_element(map, i, n, places[n].x);
            set_element(map, i, k + n, (double)places[n].column);
        }
    }
    mmul_free(places);
    return status;
}

// Returns true if x comes before y in numpy's order, NaN last. Descending order also has NaN last,
// and the lower column first among equal elements.
static bool is_in_order(const struct mmul_map *map, struct place x, struct place y) {
    if (isnan(x.x) || isnan(y.x))
        return !isnan(x.x) || (isnan(y.x) && x.column < y.column);
    if (x.x == y.x)
        return x.column < y.column;
    return map->with->descending ? x.x > y.x : x.x < y.x;
}

// Merge sort: merges neighbouring runs, twice as long each time, alternating between `places` and
// `scratch`. Returns the array that holds the result.
static struct place *put_in_order(const struct mmul_map *map, struct place *places,
                                  struct place *scratch, int64_t count) {
    for (int64_t half = 1; half < count; half *= 2) {
        for (int64_t begin = 0; begin < count; begin += 2 * half) {
            const int64_t middle = mmul_min(begin + half, count),
                          end = mmul_min(begin + 2 * half, count);
            for (int64_t at = begin, i = begin, j = middle; at < end; at++) {
                const bool is_left =
                    j == end || (i < middle && is_in_order(map, places[i], places[j]));
                scratch[at] = places[is_left ? i++ : j++];
            }
        }
        struct place *const made = scratch;
        scratch = places;
        places = made;
    }
    return places;
}

static enum mmul_status make_sorted(const struct mmul_map *map, struct mmul_error *err) {
    struct place *places = NULL, *scratch = NULL;
    enum mmul_status status = MMUL_ALLOCATE_ALL("a row", err, MMUL_ARRAY(places, map->cols),
                                                MMUL_ARRAY(scratch, map->cols));
    for (int64_t i = 0; status == MMUL_OK && i < map->rows; i++) {
        for (int64_t j = 0; j < map->cols; j++)
            places[j] = (struct place){element(map, 0, i, j), j};
        const struct place *sorted = put_in_order(map, places, scratch, map->cols);
        for (int64_t j = 0; j < map->cols; j++)
            set_element(map, i, j,
                        map->kind == MMUL_ARGSORT ? (double)sorted[j].column : sorted[j].x);
    }
    mmul_free(places);
    mmul_free(scratch);
    return status;
}

// argmax or argmin; for argmin, too, NaN counts before all.
static void argmax(const struct mmul_map *map, int64_t i) {
    const double sign = map->kind == MMUL_ARGMIN ? -1 : 1;
    int64_t best = 0;
    for (int64_t j = 1; j < map->operands[0].cols; j++)
        best = comes_before(sign * element(map, 0, i, j), j, sign * element(map, 0, i, best), best)
                   ? j
                   : best;
    set_element(map, i, 0, (double)best);
}

static void cumsum(const struct mmul_map *map, int64_t i) {
    long double sum = 0;
    for (int64_t j = 0; j < map->cols; j++)
        set_element(map, i, j, (double)(sum += (long double)element(map, 0, i, j)));
}

static void one_hot(const struct mmul_map *map, int64_t i) {
    for (int64_t j = 0; j < map->cols; j++)
        set_element(map, i, j, (double)j == element(map, 0, i, 0) ? 1 : 0);
}

// Returns the sum of exp(element - largest) of a row; `most` gets the largest element.
static long double add_powers(const struct mmul_map *map, int64_t i, double *most) {
    const int64_t cols = map->operands[0].cols;
    *most = element(map, 0, i, 0);
    for (int64_t j = 1; j < cols; j++)
        *most = maximum(*most, element(map, 0, i, j));
    long double sum = power_of_difference(element(map, 0, i, 0), *most);
    for (int64_t j = 1; j < cols; j++)
        sum += power_of_difference(element(map, 0, i, j), *most);
    return sum;
}

// -log softmax(x) at the row's index, as torch's cross_entropy of a row.
static void cross_entropy(const struct mmul_map *map, int64_t i) {
    double most;
    const long double sum = add_powers(map, i, &most);
    const double x = element(map, 0, i, (int64_t)element(map, 1, i, 0));
    set_element(map, i, 0, (double)(logl(sum) - ((long double)x - (long double)most)));
}

// The derivative of cross_entropy by x, times the gradient of the result.
static void cross_entropy_backward(const struct mmul_map *map, int64_t i) {
    const int64_t at = (int64_t)element(map, 1, i, 0);
    double most;
    const long double sum = add_powers(map, i, &most);
    for (int64_t j = 0; j < map->cols; j++) {
        const long double p = power_of_difference(element(map, 0, i, j), most) / sum;
        set_element(map, i, j, (double)(p - (j == at ? 1 : 0)) * element(map, 2, i, 0));
    }
}

// The gradient of sorting: x is the gradient of the sorted row, and y holds the place to which each
// element went.
static void sort_backward(const struct mmul_map *map, int64_t i) {
    for (int64_t j = 0; j < map->cols; j++)
        set_element(map, i, j, element(map, 0, i, (int64_t)element(map, 1, i, j)));
}

// The gradient of a softmax y: y (dy - sum(dy y)).
static void softmax_backward(const struct mmul_map *map, int64_t i) {
    long double sum = 0;
    for (int64_t j = 0; j < map->cols; j++)
        sum += (long double)(element(map, 0, i, j) * element(map, 1, i, j));
    for (int64_t j = 0; j < map->cols; j++)
        set_element(map, i, j, element(map, 0, i, j) * (element(map, 1, i, j) - (double)sum));
}

// The gradient of a norm with n = (x - mean) f and f = 1 / sqrt(mean((x - mean)^2) + epsilon),
// where the mean is 0 without `centers`. With g = dy w it is f (g - mean(g) - n mean(g n)). Derived
// by hand from the derivative of f; torch and jax agree.
static void norm_backward(const struct mmul_map *map, int64_t i, bool centers) {
    const int64_t cols = map->cols;
    long double sum = 0, squares = 0, along = 0, all = 0;
    for (int64_t j = 0; centers && j < cols; j++)
        sum += (long double)element(map, 0, i, j);
    const double mean = (double)(sum / (long double)cols);
    for (int64_t j = 0; j < cols; j++) {
        const double off = element(map, 0, i, j) - mean;
        squares += (long double)(off * off);
    }
    const double f = 1 / sqrt((double)squares / (double)cols + map->with->epsilon);
    for (int64_t j = 0; j < cols; j++) {
        const double g = element(map, 1, i, j) * weight(map, 2, j, 1);
        all += (long double)g;
        along += (long double)(g * ((element(map, 0, i, j) - mean) * f));
    }
    const double off = centers ? (double)(all / (long double)cols) : 0;
    const double part = (double)(along / (long double)cols);
    for (int64_t j = 0; j < cols; j++) {
        const double g = element(map, 1, i, j) * weight(map, 2, j, 1);
        set_element(map, i, j, f * (g - off - (element(map, 0, i, j) - mean) * f * part));
    }
}

// Rotates pairs of columns (p, p + cols / 2), or (2 p, 2 p + 1) if interleaved, by position x
// base^(-2 p / cols): Su et al., "RoFormer", 2021. The halves follow LLaMA's published code for
// transformers.
static void rope(const struct mmul_map *map, int64_t i) {
    const int64_t cols = map->operands[0].cols;
    for (int64_t p = 0; p < cols / 2; p++) {
        double angle =
            (double)(map->row + i) * pow(map->with->base, -2.0 * (double)p / (double)cols);
        angle = map->with->scale < 0 ? -angle : angle; // the inverse rotation, for gradients
        int64_t left = map->with->interleaved ? 2 * p : p;
        int64_t right = map->with->interleaved ? 2 * p + 1 : p + cols / 2;
        double x = element(map, 0, i, left), y = element(map, 0, i, right);
        set_element(map, i, left, x * cos(angle) - y * sin(angle));
        set_element(map, i, right, x * sin(angle) + y * cos(angle));
    }
}

static void make_rows(const struct mmul_map *map) {
    for (int64_t i = 0; i < map->rows; i++)
        switch (map->kind) {
        case MMUL_SOFTMAX:
            softmax(map, i);
            break;
        case MMUL_RMS_NORM:
            rms_norm(map, i);
            break;
        case MMUL_LAYER_NORM:
            layer_norm(map, i);
            break;
        case MMUL_NORMALIZE:
            normalize(map, i);
            break;
        case MMUL_ARGMAX:
        case MMUL_ARGMIN:
            argmax(map, i);
            break;
        case MMUL_CUMSUM:
            cumsum(map, i);
            break;
        case MMUL_ONE_HOT:
            one_hot(map, i);
            break;
        case MMUL_CROSS_ENTROPY:
            cross_entropy(map, i);
            break;
        case MMUL_SORT_BACKWARD:
            sort_backward(map, i);
            break;
        case MMUL_SOFTMAX_BACKWARD:
            softmax_backward(map, i);
            break;
        case MMUL_CROSS_ENTROPY_BACKWARD:
            cross_entropy_backward(map, i);
            break;
        case MMUL_RMS_NORM_BACKWARD:
        case MMUL_LAYER_NORM_BACKWARD:
            norm_backward(map, i, map->kind == MMUL_LAYER_NORM_BACKWARD);
            break;
        default: // MMUL_ROPE
            rope(map, i);
        }
}

// ------------------------------------------------------------------------------------- reductions

static double reduce_line(const struct mmul_map *map, int64_t i, int64_t j, bool down,
                          int64_t count) {
    double most = -INFINITY, least = INFINITY;
    long double sum = 0;
    for (int64_t p = 0; p < count; p++) {
        double x = down ? element(map, 0, p, j) : element(map, 0, i, p);
        sum += (long double)x;
        most = maximum(most, x);
        least = minimum(least, x);
    }
    return map->kind == MMUL_SUM    ? (double)sum
           : map->kind == MMUL_MEAN ? (double)(sum / (long double)count)
           : map->kind == MMUL_MAX  ? most
                                    : least;
}

// Sums the rows of x with index i, in their order.
static double sum_at(const struct mmul_map *map, int64_t i, int64_t j) {
    long double sum = 0;
    for (int64_t p = 0; p < map->operands[0].rows; p++)
        sum += element(map, 1, p, 0) == (double)(map->row + i) ? (long double)element(map, 0, p, j)
                                                               : 0;
    return (double)sum;
}

static void make_reductions(const struct mmul_map *map) {
    const bool down = map->with->axis == -2;
    const int64_t count = down ? map->operands[0].rows : map->operands[0].cols;
    for (int64_t i = 0; i < map->rows; i++)
        for (int64_t j = 0; j < map->cols; j++)
            set_element(map, i, j,
                        map->kind == MMUL_SUM_AT ? sum_at(map, i, j)
                                                 : reduce_line(map, i, j, down, count));
}

// -------------------------------------------------------------------------------------- all else

static void look_up(const struct mmul_map *map) {
    for (int64_t i = 0; i < map->rows; i++)
        for (int64_t j = 0; j < map->cols; j++)
            set_element(map, i, j, element(map, 0, (int64_t)element(map, 1, 0, i), j));
}

// Returns the sum of products of two rows.
static double dot_rows(const struct mmul_map *map, int x, int64_t i, int y, int64_t p) {
    long double sum = 0;
    for (int64_t j = 0; j < map->operands[x].cols; j++)
        sum += (long double)(element(map, x, i, j) * element(map, y, p, j));
    return (double)sum;
}

static double score(const struct mmul_map *map, int64_t i, int64_t p) {
    const int mask = mmul_operation_row(map->kind)->least;
    return map->with->scale * dot_rows(map, 0, i, 1, p) +
           (mask < map->operand_count ? element(map, mask, i, p) : 0);
}

// softmax(scale q k^T + mask) v: Vaswani et al., "Attention Is All You Need", 2017. A row is 0 if
// no key takes part, or if each score is -infinity.
static void attend(const struct mmul_map *map, int64_t i, double *scores) {
    const int64_t count = count_elements(map, map->shape.rows, i, map->operands[1].rows);
    double most = -INFINITY;
    long double sum = 0;
    for (int64_t p = 0; p < count; p++) {
        scores[p] = score(map, i, p);
        most = maximum(most, scores[p]);
    }
    const bool is_empty = most == -INFINITY;
    for (int64_t p = 0; p < count && !is_empty; p++)
        sum += (long double)(scores[p] = (double)power_of_difference(scores[p], most));
    for (int64_t j = 0; j < map->cols; j++) {
        long double value = 0;
        for (int64_t p = 0; p < count && !is_empty; p++)
            value += (long double)(scores[p] * element(map, 2, p, j)) / sum;
        set_element(map, i, j, (double)value);
    }
}

// Writes for each row the log of the sum of its exponentials, then the sum of products of the
// result and its gradient. A row without a nonzero exponential has the log +infinity: exp(score -
// log) is then 0 in its gradients.
static void attention_sums(const struct mmul_map *map, int64_t i) {
    const int64_t count = count_elements(map, map->shape.rows, i, map->operands[1].rows);
    double most = -INFINITY;
    long double sum = 0;
    for (int64_t p = 0; p < count; p++)
        most = maximum(most, score(map, i, p));
    for (int64_t p = 0; p < count && most != -INFINITY; p++)
        sum += power_of_difference(score(map, i, p), most);
    set_element(map, i, 0, most == -INFINITY ? INFINITY : (double)((long double)most + logl(sum)));
    set_element(map, i, 1, dot_rows(map, 2, i, 3, i));
}

// Gradients of p = softmax(s), s = scale q k^T + mask, y = p v. By v: p^T dy. By s or the mask: ds
// = p (dy v^T - sum(dy y)). By q: scale ds k. By k: scale ds^T q. Row r of the result is query r,
// or for v and k key r. Masked-out pairs are not read.
static void attend_backward(const struct mmul_map *map, int64_t r, double *slopes) {
    const bool by_key = mmul_operation_row(map->kind)->parts[0] == 'a';
    const bool is_v = map->kind == MMUL_ATTENTION_BACKWARD_V;
    const int with = by_key ? is_v ? 3 : 0 : 1;
    const int64_t others = map->operands[by_key ? 0 : 1].rows,
                  rows = by_key ? others : map->shape.rows,
                  keys = by_key ? map->shape.rows : others;
    int64_t begin = 0, end = others;
    if (!by_key)
        end = count_elements(map, rows, r, keys);
    // query i uses keys up to i + keys - rows
    else if (map->with->causal && map->row + r > keys - rows)
        begin = map->row + r - keys + rows;
    for (int64_t o = begin; o < end; o++) {
        const int64_t i = by_key ? o : r, p = by_key ? r : o;
        slopes[o] = exp(score(map, i, p) - element(map, 4, i, 0));
        if (!is_v)
            slopes[o] *= dot_rows(map, 3, i, 2, p) - element(map, 4, i, 1);
    }
    for (int64_t j = 0; j < map->cols; j++) {
        long double sum = 0;
        if (map->kind == MMUL_ATTENTION_BACKWARD_MASK)
            sum = j < end ? (long double)slopes[j] : 0;
        else
            for (int64_t o = begin; o < end; o++)
                sum += (long double)(slopes[o] * element(map, with, o, j)) *
                       (long double)(is_v ? 1 : map->with->scale);
        set_element(map, r, j, (double)sum);
    }
}

static enum mmul_status make_attention(const struct mmul_map *map, struct mmul_error *err) {
    double *scores = NULL;
    const int64_t rows = map->operands[0].rows, keys = map->operands[1].rows;
    enum mmul_status status = MMUL_ALLOCATE(scores, rows > keys ? rows : keys, "scores", err);
    for (int64_t i = 0; status == MMUL_OK && i < map->rows; i++)
        if (map->kind == MMUL_ATTENTION)
            attend(map, i, scores);
        else if (map->kind == MMUL_ATTENTION_SUMS)
            attention_sums(map, i);
        else
            attend_backward(map, i, scores);
    mmul_free(scores);
    return status;
}

static enum mmul_status make_matrix(const struct mmul_map *map, struct mmul_error *err) {
    switch (mmul_operation_row(map->kind)->class) {
    case MMUL_CLASS_ROWS:
        if (map->kind == MMUL_TOPK)
            return make_topk(map, err);
        if (map->kind == MMUL_SORT || map->kind == MMUL_ARGSORT)
            return make_sorted(map, err);
        make_rows(map);
        break;
    case MMUL_CLASS_REDUCE:
        make_reductions(map);
        break;
    case MMUL_CLASS_LOOKUP:
        look_up(map);
        break;
    case MMUL_CLASS_ATTENTION:
        return make_attention(map, err);
    default:
        make_elements(map);
    }
    return MMUL_OK;
}

void mmul_reference_compute_checksum(const struct mmul_map *map) {
    uint32_t sum = 0;
    for (int64_t line = 0; map->carried != NULL && line < map->matrices * map->rows; line++) {
        struct mmul_operand at = map->result;
        at.offset += line / map->rows * map->result_step + line % map->rows * at.ld;
        sum += mmul_matrix_sums_bits(mmul_host_floats(at), map->cols, line * map->cols);
    }
    if (map->carried != NULL)
        *map->carried = sum;
}

enum mmul_status mmul_reference_map(void *self, const struct mmul_map *map,
                                    struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    (void)self;
    for (int64_t t = 0; status == MMUL_OK && t < map->matrices; t++) {
        const struct mmul_map one = mmul_map_matrix(map, t);
        status = make_matrix(&one, err);
    }
    mmul_reference_compute_checksum(map);
    return status;
}
