// SPDX-License-Identifier: MIT
// Builds programs: growing arrays, with shapes checked at each addition. Plans nothing.
#include "model/program.h"

#include <limits.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/repeats.h"
#include "base/status.h"
#include "base/text.h"
#include "model/dtype.h"
#include "model/matrix.h"
#include "model/rank_groups.h"

enum mmul_status mmul_program_create(struct mmul_program **program, struct mmul_error *err) {
    return MMUL_ALLOCATE(*program, 1, "a program", err);
}

void mmul_program_destroy(struct mmul_program *program) {
    if (program == NULL)
        return;
    for (int i = 0; i < program->persistent_count; i++) {
        mmul_free(program->kept[i].offsets);
        mmul_free(program->kept[i].weights);
    }
    MMUL_FREE_ALL(program->kept, program->rank_groups, program->values, program->operations,
                  program);
}

enum mmul_status mmul_program_begin_copy(const struct mmul_program *program, int capacity,
                                         struct mmul_program *made, struct mmul_error *err) {
    *made = *program;
    made->operation_count = 0;
    made->capacity = capacity;
    enum mmul_status status =
        MMUL_ALLOCATE_ALL("a program", err, MMUL_ARRAY(made->values, capacity),
                          MMUL_ARRAY(made->operations, capacity));
    if (status != MMUL_OK)
        mmul_free(made->values);
    else if (program->value_count > 0)
        memcpy(made->values, program->values, (size_t)program->value_count * sizeof *made->values);
    return status;
}

static void replace_arrays(struct mmul_program *program, const struct mmul_program *made) {
    mmul_free(program->values);
    mmul_free(program->operations);
    *program = *made;
}

void mmul_program_find_last_uses(struct mmul_program *p) {
    for (int i = 0; i < p->operation_count; i++) {
        const struct mmul_operation *o = &p->operations[i];
        if (o->result >= 0)
            p->values[o->result].last_use = i;
        for (int j = 0; j < o->operand_count; j++)
            if (o->operands[j] != MMUL_NUMBER)
                p->values[o->operands[j]].last_use = i;
    }
}

struct mmul_operation *mmul_program_find_maker(const struct mmul_program *program, int value) {
    for (int i = 0; value >= 0 && i < program->operation_count; i++)
        if (program->operations[i].result == value)
            return &program->operations[i];
    return NULL;
}

int mmul_program_copy_value(struct mmul_program *program, int value) {
    struct mmul_value *made = &program->values[program->value_count];
    *made = program->values[value];
    made->original_value = made->original_value > 0 ? made->original_value : value + 1;
    return program->value_count++;
}

void mmul_program_end_copy(struct mmul_program *program, struct mmul_program *made) {
    mmul_program_find_last_uses(made);
    replace_arrays(program, made);
}

static enum mmul_status grow_arrays(struct mmul_program *p, struct mmul_error *err) {
    enum { FIRST = 16 };
    struct mmul_program larger;
    if (mmul_program_begin_copy(p, p->capacity > 0 ? 2 * p->capacity : FIRST, &larger, err) !=
        MMUL_OK)
        return err->status;
    larger.operation_count = p->operation_count;
    if (p->operation_count > 0)
        memcpy(larger.operations, p->operations,
               (size_t)p->operation_count * sizeof *p->operations);
    replace_arrays(p, &larger);
    return MMUL_OK;
}

struct mmul_operation_call mmul_program_describe_call(
    const struct mmul_program *program, const struct mmul_operation *operation,
    struct mmul_operand_info operands[MMUL_OPERANDS]) {
    for (int i = 0; i < operation->operand_count; i++) {
        operands[i] = (struct mmul_operand_info){
            .name = "a number", .shape = {1, 1, 1, 1}, .is_number = true};
        if (operation->operands[i] == MMUL_NUMBER)
            continue;
        const struct mmul_value *v = &program->values[operation->operands[i]];
        operands[i] = (struct mmul_operand_info){v->name, v->shape, v->is_integer, false, v->dtype};
        if (i < MMUL_FACTORS && operation->scale.transposed_factors[i])
            operands[i].shape =
                (struct mmul_shape){v->shape.batch, v->shape.depth, v->shape.cols, v->shape.rows};
    }
    return (struct mmul_operation_call){operands, operation->operand_count, &operation->with};
}

struct mmul_shape mmul_program_shape(const struct mmul_program *program,
                                     const struct mmul_operation *operation) {
    return program->values[operation->result >= 0 ? operation->result : operation->operands[0]]
        .shape;
}

double mmul_program_flops(const struct mmul_program *program,
                          const struct mmul_operation *operation) {
    struct mmul_operand_info operands[MMUL_OPERANDS];
    const struct mmul_operation_call call =
        mmul_program_describe_call(program, operation, operands);
    if (operation->scale.is_given && operation->scale.alpha == 0)
        return 0;
    return mmul_operation_flops(operation->kind, &call, mmul_program_shape(program, operation));
}

double mmul_program_calculation_flops(const struct mmul_program *program) {
    double flops = 0;
    for (int i = 0; i < program->operation_count; i++) {
        const struct mmul_operation *o = &program->operations[i];
        const enum mmul_operation_class class = mmul_operation_row(o->kind)->class;
        if (class != MMUL_CLASS_COPY && class != MMUL_CLASS_LOOKUP && o->kind != MMUL_CAST &&
            o->kind != MMUL_GENERATE)
            flops += mmul_program_flops(program, o);
    }
    return flops;
}

struct mmul_shape mmul_program_value_shape(const struct mmul_program *program, int value,
                                           bool *integers) {
    if (integers != NULL)
        *integers = program->values[value].is_integer;
    return program->values[value].shape;
}

enum mmul_dtype mmul_program_value_dtype(const struct mmul_program *program, int value) {
    const struct mmul_value *v = &program->values[value];
    return v->has_open_type ? MMUL_F32 : v->dtype;
}

bool mmul_program_is_bool(const struct mmul_program *program, int value) {
    return program->values[value].is_bool;
}

bool mmul_program_is_rounded(const struct mmul_program *program, int value) {
    return program->values[value].is_rounded;
}

void mmul_program_hold_exact(struct mmul_program *program, bool is_double) {
    struct mmul_operation *o = &program->operations[program->operation_count - 1];
    program->kept[o->kept].stays_exact_in_both_types = true;
    o->dtype = is_double ? MMUL_F64 : MMUL_F32;
}

void mmul_program_save_double(struct mmul_program *program) {
    program->operations[program->operation_count - 1].dtype = MMUL_F64;
}

void mmul_program_use_float32(struct mmul_program *program) {
    program->only_float32 = true;
}

// Returns true if operands may be numbers: some, but not all, of an element-by-element operation.
static bool accepts_numbers(const struct mmul_operation_row *row, const struct mmul_operation *o) {
    bool has_value = false;
    for (int i = 0; i < o->operand_count; i++)
        has_value |= o->operands[i] != MMUL_NUMBER;
    return row->class == MMUL_CLASS_ELEMENTS && row->most > 1 && has_value;
}

enum mmul_status mmul_program_fail_operand_count(const char *name, int least, int most, int count,
                                                 struct mmul_error *err) {
    char between[32] = "";
    if (least < most)
        snprintf(between, sizeof between, " to %d", most);
    return mmul_fail(err, MMUL_ERR_USAGE, "%s takes %d%s operand%s, not %d", name, least, between,
                     mmul_text_plural(most), count);
}

static enum mmul_status check_operands(const struct mmul_program *program,
                                       const struct mmul_operation_row *row,
                                       const struct mmul_operation *o, struct mmul_error *err) {
    const int most = row->most + (o->scale.is_given ? 1 : 0);
    if (o->operand_count < row->least || o->operand_count > most)
        return mmul_program_fail_operand_count(row->name, row->least, most, o->operand_count, err);
    for (int i = 0; i < o->operand_count; i++) {
        if (o->operands[i] == MMUL_NUMBER && accepts_numbers(row, o))
            continue;
        if (o->operands[i] == MMUL_NUMBER)
            return mmul_fail(err, MMUL_ERR_USAGE, "%s takes values, not numbers", row->name);
        if (o->operands[i] < 0 || o->operands[i] >= program->value_count)
            return mmul_fail(err, MMUL_ERR_USAGE, "cannot %s value %d: the program has %d values",
                             row->name, o->operands[i], program->value_count);
    }
    return MMUL_OK;
}

// Returns true if the result consists of unchanged elements of its operands.
static bool moves_elements(const struct mmul_operation *o, const struct mmul_operation_row *row) {
    return row->class == MMUL_CLASS_COPY || row->is_view || o->kind == MMUL_TAKE ||
           o->kind == MMUL_SORT;
}

// Returns true if the result is whole numbers, by its row, by request, or because it moves whole
// numbers.
static bool is_integer(const struct mmul_operation *o, const struct mmul_operation_row *row,
                       const struct mmul_operand_info *operands) {
    bool is_all = o->operand_count > 0 && operands[0].is_integer &&
                  (o->kind != MMUL_CONCAT || operands[1].is_integer);
    return row->has_integers || o->is_integer || (moves_elements(o, row) && is_all);
}

// Returns true if an operand has 0 and 1 alone: a number, or a value of bools.
static bool has_bools(const struct mmul_program *program, const struct mmul_operation *o,
                      int operand) {
    const double number = o->with.numbers[operand];
    return o->operands[operand] == MMUL_NUMBER ? number == 0 || number == 1
                                               : program->values[o->operands[operand]].is_bool;
}

// True and False as in numpy. Comparisons make bools, and operations that pick or move elements
// keep them. A product is "and", 1 - x is "not". Numbers alone are not bools, and a sum of bools is
// a count.
static bool is_bool(const struct mmul_program *program, const struct mmul_operation *o,
                    const struct mmul_operation_row *row) {
    int first = 0, end = o->operand_count;
    const bool is_made = (o->kind >= MMUL_EQUAL && o->kind <= MMUL_GREATER_EQUAL) ||
                         o->kind == MMUL_ONE_HOT || o->is_bool;
    if (is_made)
        return true;
    switch (o->kind) {
    case MMUL_SUBTRACT:
        if (o->operands[0] != MMUL_NUMBER || o->with.numbers[0] != 1)
            return false;
        break;
    case MMUL_MULTIPLY:
    case MMUL_MAXIMUM:
    case MMUL_MINIMUM:
    case MMUL_MAX:
    case MMUL_MIN:
        break;
    case MMUL_WHERE:
        first = 1;
        break;
    case MMUL_TAKE:
        end = 1;
        break;
    default:
        if (!moves_elements(o, row))
            return false;
    }
    bool is_all = true, has_value = false;
    for (int i = first; i < end; i++) {
        is_all &= has_bools(program, o, i);
        has_value |= o->operands[i] != MMUL_NUMBER;
    }
    return is_all && has_value;
}

// Returns true if `where` picks among elements that are exact in both types.
static bool picks_exact(const struct mmul_program *program, const struct mmul_operation *o) {
    bool is_exact_in_both_types = o->kind == MMUL_WHERE;
    for (int i = 1; is_exact_in_both_types && i < o->operand_count; i++)
        is_exact_in_both_types = o->operands[i] == MMUL_NUMBER
                                     ? (double)(float)o->with.numbers[i] == o->with.numbers[i]
                                     : program->values[o->operands[i]].is_exact_in_both_types;
    return is_exact_in_both_types;
}

// Returns true for a slice of topk's result that has indices alone.
static bool has_indices_alone(const struct mmul_program *program, const struct mmul_operation *o) {
    if (o->kind != MMUL_SLICE)
        return false;
    const int64_t from = program->values[o->operands[0]].integers_from, first = o->with.begin[3];
    const int64_t last = first + (mmul_slice_size(&o->with, 3) - 1) * mmul_slice_step(&o->with, 3);
    return from > 0 && first >= from && last >= from;
}

static bool mark_rounded(struct mmul_program *program, const struct mmul_operation *o) {
    bool is_new = false;
    for (int i = 0; i < o->operand_count; i++) {
        if (o->operands[i] == MMUL_NUMBER)
            continue;
        struct mmul_value *v = &program->values[o->operands[i]];
        const bool is_rounded = v->dtype == MMUL_F64 && !v->is_exact_in_both_types;
        is_new |= is_rounded && !v->is_rounded;
        v->is_rounded |= is_rounded;
    }
    return is_new;
}

// Marks float64 values that an operation needs as float32, and all values they were made of.
static void mark_all_rounded(struct mmul_program *program, const struct mmul_operation *o) {
    if (!mark_rounded(program, o))
        return;
    for (int i = program->operation_count - 1; i >= 0; i--) {
        const struct mmul_operation *maker = &program->operations[i];
        if (maker->result >= 0 && program->values[maker->result].is_rounded)
            mark_rounded(program, maker);
    }
}

// Sets the type of a result: float64 if all operands with a type of their own have it.
static void assign_type(struct mmul_program *program, const struct mmul_operation *o,
                        const struct mmul_operation_row *row, struct mmul_value *made) {
    int own[2] = {0}, exact[2] = {0}; // counts of float32, of float64
    bool all_exact = o->operand_count > 0;
    made->dtype = o->dtype == MMUL_F64 && !program->only_float32 ? MMUL_F64 : MMUL_F32;
    made->has_open_type = o->kind == MMUL_GENERATE || made->is_integer;
    made->is_exact_in_both_types = made->has_open_type || made->is_bool;
    if (o->kind == MMUL_LOAD_PERSISTENT) { // existing values keep their type
        made->dtype = o->dtype;
        made->has_open_type = o->has_open_type;
        made->is_exact_in_both_types |= o->is_exact_in_both_types;
    }
    if (o->operand_count == 0)
        return;
    for (int i = 0; i < o->operand_count && (o->kind != MMUL_TAKE || i == 0); i++) {
        if (o->operands[i] == MMUL_NUMBER)
            continue;
        const struct mmul_value *v = &program->values[o->operands[i]];
        if (!v->has_open_type)
            (v->is_exact_in_both_types ? exact : own)[v->dtype == MMUL_F64]++;
        all_exact &= v->is_exact_in_both_types;
    }
    const int *counts = own[0] + own[1] > 0 ? own : exact;
    made->has_open_type = counts[0] + counts[1] == 0;
    made->is_exact_in_both_types = made->is_integer || row->has_integers || made->is_bool ||
                                   picks_exact(program, o) || (moves_elements(o, row) && all_exact);
    made->dtype = !program->only_float32 && counts[1] > 0 && (counts == exact || counts[0] == 0)
                      ? MMUL_F64
                      : MMUL_F32;
    if (made->dtype == MMUL_F32 && !made->has_open_type)
        mark_all_rounded(program, o);
}

enum mmul_status mmul_program_append(struct mmul_program *program,
                                     const struct mmul_operation *request, const char *name,
                                     int *value, struct mmul_error *err) {
    const struct mmul_operation_row *row = mmul_operation_row(request->kind);
    struct mmul_operand_info operands[MMUL_OPERANDS] = {{0}};
    struct mmul_operation made = *request;
    struct mmul_shape shape = request->shape;
    int64_t bytes;
    enum mmul_status status = check_operands(program, row, request, err);
    if (status != MMUL_OK)
        return status;
    const struct mmul_operation_call call = mmul_program_describe_call(program, request, operands);
    if (request->operand_count > 0 && !request->scale.is_given)
        shape = operands[0].shape;
    if (row->shape != NULL && !request->scale.is_given)
        status = row->shape(row, &call, &shape, err);
    if (status == MMUL_OK)
        status = mmul_shape_bytes(shape, MMUL_F64, &bytes, err);
    if (status == MMUL_OK && program->operation_count == program->capacity)
        status = grow_arrays(program, err);
    if (status != MMUL_OK)
        return status;
    for (int i = 0; i < request->operand_count; i++)
        if (request->operands[i] != MMUL_NUMBER)
            program->values[request->operands[i]].last_use = program->operation_count;
    made.result = row->has_result ? program->value_count : -1;
    if (row->has_result) {
        struct mmul_value *v = &program->values[program->value_count++];
        *v = (struct mmul_value){
            .shape = shape,
            .is_integer = is_integer(request, row, operands) || has_indices_alone(program, request),
            .is_bool = is_bool(program, request, row),
            .integers_from = request->kind == MMUL_TOPK ? request->with.count : 0,
            .last_use = program->operation_count};
        assign_type(program, request, row, v);
        mmul_program_choose_group(program, request, v);
        if (name != NULL)
            mmul_text_copy_shortened(v->name, sizeof v->name, name);
        else
            snprintf(v->name, sizeof v->name, "value %d", made.result);
        mmul_make_printable(v->name);
        if (value != NULL)
            *value = made.result;
    }
    program->operations[program->operation_count++] = made;
    return MMUL_OK;
}

enum mmul_status mmul_program_add_persistent(struct mmul_program *program,
                                             const struct mmul_persistent_value *set, int *kept,
                                             struct mmul_error *err) {
    struct mmul_persistent_value *sets = NULL;
    const int count = program->persistent_count;
    for (int i = 0; i < count; i++)
        if (set->is_made && program->kept[i].is_made &&
            strcmp(program->kept[i].name, set->name) == 0)
            return mmul_fail(err, MMUL_ERR_USAGE, "cannot keep two values as '%s'", set->name);
    enum mmul_status status = MMUL_ALLOCATE(sets, count + 1, "a program", err);
    if (status != MMUL_OK)
        return status;
    if (count > 0)
        memcpy(sets, program->kept, (size_t)count * sizeof *sets);
    sets[count] = *set;
    mmul_free(program->kept);
    program->kept = sets;
    *kept = program->persistent_count++;
    return MMUL_OK;
}

static void print_operation(const struct mmul_program *program, const struct mmul_operation *o,
                            const char *before, struct mmul_text *text) {
    struct mmul_operand_info operands[MMUL_OPERANDS];
    char shape[96];
    mmul_program_describe_call(program, o, operands);
    mmul_text_add(text, "%s%s\t%s\t", before,
                  o->result >= 0 ? program->values[o->result].name : "-",
                  mmul_operation_row(o->kind)->name);
    for (int j = 0; j < o->operand_count; j++)
        if (o->operands[j] == MMUL_NUMBER)
            mmul_text_add(text, j > 0 ? ", %g" : "%g", o->with.numbers[j]);
        else
            mmul_text_add(text, j > 0 ? ", %s" : "%s", operands[j].name);
    if (o->kind == MMUL_PLACE)
        mmul_text_add(text, " %s", mmul_placement_name(o->requested_placement));
    if (o->kind == MMUL_LOAD_PERSISTENT || o->kind == MMUL_SAVE_PERSISTENT)
        mmul_text_add(text, "%s'%s'", o->kind == MMUL_SAVE_PERSISTENT ? " as " : "",
                      program->kept[o->kept].name);
    const int value = o->result >= 0 ? o->result : o->operands[0];
    mmul_text_add(text, "\t%s%s\n", mmul_shape_format(program->values[value].shape, shape),
                  program->values[value].dtype == MMUL_F64 ? " float64" : "");
}

// Returns equal marks for operations that do the same to values of the same shapes, with any names
// and numbers.
static uint64_t hash_operation(const void *list, int index) {
    const struct mmul_program *program = list;
    const struct mmul_operation *o = &program->operations[index];
    struct mmul_text text = {0};
    char shape[96];
    mmul_text_add(&text, "%s %d", mmul_operation_row(o->kind)->name, (int)o->requested_placement);
    for (int i = -1; i < o->operand_count; i++) {
        const int value = i < 0 ? o->result : o->operands[i];
        if (value < 0) // no result, or a number
            mmul_text_add(&text, "\t%d", value);
        else
            mmul_text_add(&text, "\t%s %s", mmul_shape_format(program->values[value].shape, shape),
                          mmul_dtype_name(program->values[value].dtype));
    }
    const uint64_t mark = mmul_hash(mmul_text_get(&text), text.length);
    mmul_text_fini(&text);
    return mark;
}

void mmul_program_print(const struct mmul_program *program, bool verbose, FILE *stream) {
    struct mmul_text text = {0};
    struct mmul_repeated_block *repeats =
        verbose ? NULL
                : mmul_find_repeated_blocks(program->operation_count, hash_operation, program);
    mmul_text_add(&text, "value\toperation\toperands\tshape\n");
    for (int i = 0; i < program->operation_count;) {
        const struct mmul_repeated_block block = mmul_repeated_block_at(repeats, i);
        if (block.times > 1)
            mmul_text_add(&text, "x %d:\n", block.times);
        for (int j = 0; j < block.length; j++)
            print_operation(program, &program->operations[i + j], block.times > 1 ? "  " : "",
                            &text);
        i += block.length * block.times;
    }
    mmul_text_print_narrow_table(mmul_text_get(&text), verbose ? INT_MAX : MMUL_TABLE_COLUMNS,
                                 stream);
    mmul_text_fini(&text);
    mmul_free(repeats);
}
