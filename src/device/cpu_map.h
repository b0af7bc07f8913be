// SPDX-License-Identifier: MIT
// Operations of the cpu device (device/map.h). Each file cpu_map_*.c implements one class of them.
// All are plain loops that the compiler vectorises. They are compiled for several instruction sets,
// and the program selects the best one at its start. The rank's threads claim the work in pieces.
// The result of a row depends neither on its block nor on the number of threads.
#pragma once

#include "device/cpu_map_loops.h"

#ifdef MMUL_CPU_F64
#define mmul_cpu_map_by_class           mmul_cpu_map_by_class_f64
#define mmul_cpu_map_elements           mmul_cpu_map_elements_f64
#define mmul_cpu_map_elements_fused     mmul_cpu_map_elements_fused_f64
#define mmul_cpu_map_rows               mmul_cpu_map_rows_f64
#define mmul_cpu_map_reduce             mmul_cpu_map_reduce_f64
#define mmul_cpu_map_attention          mmul_cpu_map_attention_f64
#define mmul_cpu_map_attention_backward mmul_cpu_map_attention_backward_f64
#define mmul_cpu_largest                mmul_cpu_largest_f64
#define mmul_cpu_smallest               mmul_cpu_smallest_f64
#else
enum mmul_status mmul_cpu_map_by_class_f64(void *self, const struct mmul_map *map,
                                           struct mmul_error *err);
bool mmul_cpu_map_elements_fused_f64(const struct mmul_map *maps, int count);
#endif

// Entries of the device table. Fail with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_cpu_map(void *self, const struct mmul_map *map, struct mmul_error *err);
enum mmul_status mmul_cpu_map_fused(void *self, const struct mmul_map *maps, int count,
                                    struct mmul_error *err);

// Operations of one element type, by class.
enum mmul_status mmul_cpu_map_by_class(void *self, const struct mmul_map *map,
                                       struct mmul_error *err);
void mmul_cpu_map_elements(const struct mmul_map *map);
bool mmul_cpu_map_elements_fused(const struct mmul_map *maps, int count); // false: not supported
enum mmul_status mmul_cpu_map_rows(const struct mmul_map *map, struct mmul_error *err);
enum mmul_status mmul_cpu_map_reduce(const struct mmul_map *map, struct mmul_error *err);
enum mmul_status mmul_cpu_map_attention(void *self, const struct mmul_map *map,
                                        struct mmul_error *err);
enum mmul_status mmul_cpu_map_attention_backward(void *self, const struct mmul_map *map,
                                                 struct mmul_error *err);

// Return the largest (smallest) element: NaN if there is one, -infinity (infinity) for no elements.
mmul_real mmul_cpu_largest(const mmul_real *x, int64_t n);
mmul_real mmul_cpu_smallest(const mmul_real *x, int64_t n);
