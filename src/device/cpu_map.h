// SPDX-License-Identifier: MIT
//
// The cpu device's operations (device/map.h): each file cpu_map_*.c has one class of them. All are plain
// loops that compilers turn into vector code, made once for each of some instruction sets of which the
// program takes the best when it starts; work is claimed by the rank's threads piece by piece. What a row
// becomes does not depend on the block that it is in, nor on the number of threads.
#pragma once

#include "device/cpu_map_loops.h"

#ifdef MMUL_CPU_F64
#define mmul_cpu_map_class              mmul_cpu_map_class_f64
#define mmul_cpu_map_elements           mmul_cpu_map_elements_f64
#define mmul_cpu_map_elements_together  mmul_cpu_map_elements_together_f64
#define mmul_cpu_map_rows               mmul_cpu_map_rows_f64
#define mmul_cpu_map_reduce             mmul_cpu_map_reduce_f64
#define mmul_cpu_map_attention          mmul_cpu_map_attention_f64
#define mmul_cpu_map_attention_backward mmul_cpu_map_attention_backward_f64
#define mmul_cpu_largest                mmul_cpu_largest_f64
#define mmul_cpu_smallest               mmul_cpu_smallest_f64
#else
enum mmul_status mmul_cpu_map_class_f64(void *self, const struct mmul_map *map,
                                        struct mmul_error *err);
bool mmul_cpu_map_elements_together_f64(const struct mmul_map *maps, int count);
#endif

// Entries of the device table. Fail with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_cpu_map(void *self, const struct mmul_map *map, struct mmul_error *err);
enum mmul_status mmul_cpu_map_together(void *self, const struct mmul_map *maps, int count,
                                       struct mmul_error *err);

// The same, of one type, and by class.
enum mmul_status mmul_cpu_map_class(void *self, const struct mmul_map *map, struct mmul_error *err);
void mmul_cpu_map_elements(const struct mmul_map *map);
bool mmul_cpu_map_elements_together(const struct mmul_map *maps, int count); // false: has not
enum mmul_status mmul_cpu_map_rows(const struct mmul_map *map, struct mmul_error *err);
enum mmul_status mmul_cpu_map_reduce(const struct mmul_map *map, struct mmul_error *err);
enum mmul_status mmul_cpu_map_attention(void *self, const struct mmul_map *map,
                                        struct mmul_error *err);
enum mmul_status mmul_cpu_map_attention_backward(void *self, const struct mmul_map *map,
                                                 struct mmul_error *err);

// The largest (smallest) element; NaN where there is one, -infinity (infinity) where there is none.
mmul_real mmul_cpu_largest(const mmul_real *x, int64_t n);
mmul_real mmul_cpu_smallest(const mmul_real *x, int64_t n);
