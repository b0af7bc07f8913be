// SPDX-License-Identifier: MIT
// What a program has printed and saved, for other programs.
#include <math.h>

#include "base/json.h"
#include "base/status.h"
#include "tensor/script.h"

static json_t *sizes_json(const struct mmul_object *x) {
    int64_t sizes[MMUL_AXES_MOST];
    json_t *array = json_array();
    mmul_object_sizes(x, sizes);
    for (int s = MMUL_AXES_MOST - x->axes; s < MMUL_AXES_MOST; s++)
        json_array_append_new(array, json_integer((json_int_t)sizes[s]));
    return array;
}

// JSON has no NaN and no infinity: null, as most readers expect.
static json_t *number_json(double x) {
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *matrix_json(const struct mmul_script_view *view, const struct mmul_values *values) {
    enum mmul_placement_kind ignored;
    char placement[96];
    json_t *corner = json_array();
    for (int i = 0; i < view->rows; i++) {
        json_t *row = json_array();
        for (int j = 0; j < view->cols; j++)
            json_array_append_new(row, number_json(view->corner[i * view->cols + j]));
        json_array_append_new(corner, row);
    }
    return json_pack("{so so ss so so so so}", "name", mmul_json_text(view->text), "shape",
                     sizes_json(&view->matrix), "placement",
                     mmul_values_placement(values, view->matrix.value, &ignored, placement), "min",
                     number_json(view->statistics[0]), "max", number_json(view->statistics[1]),
                     "mean", number_json(view->statistics[2]), "corner", corner);
}

enum mmul_status mmul_script_json(const struct mmul_script *script,
                                  const struct mmul_values *values, char **text,
                                  struct mmul_error *err) {
    json_t *printed = json_array(), *saved = json_array();
    for (const struct mmul_script_view *v = script->views; v != NULL; v = v->next)
        if (v->kind == MMUL_VIEW_TEXT)
            json_array_append_new(printed, json_pack("{so}", "text", mmul_json_text(v->text)));
        else if (v->kind == MMUL_VIEW_MATRIX)
            json_array_append_new(printed, matrix_json(v, values));
    for (const struct mmul_script_output *o = script->outputs; o != NULL; o = o->next)
        if (o->path != NULL)
            json_array_insert_new(saved, 0,
                                  json_pack("{so so}", "file", mmul_json_text(o->path), "shape",
                                            sizes_json(&o->matrix)));
    json_t *all = json_pack("{ss si ss so so}", "schema", "mpimatmul-run", "schema_version", 1,
                            "version", MMUL_VERSION, "printed", printed, "saved", saved);
    enum mmul_status status = all != NULL
                                  ? mmul_json_format(all, text, err)
                                  : mmul_fail(err, MMUL_ERR_SYSTEM, "cannot allocate the JSON");
    json_decref(all);
    return status;
}
