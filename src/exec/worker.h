// SPDX-License-Identifier: MIT
//
// One rank's computing: products in host memory go through its device tile by tile, and when the
// device fails the whole product is done again by the next device of the chain.
#pragma once

#include "exec/context.h"
#include "model/product.h"
#include "plan/budget.h"

// A stretch of an operand on the device; what is there is remembered, so that a tile that is
// needed again is not sent again.
struct mmul_stage {
    struct mmul_buffer *buffer;
    int64_t capacity;  // elements
    const void *holds; // host address of the tile that is there; NULL: none
    int64_t rows, cols;
};

struct mmul_worker {
    struct mmul_context *context; // borrowed; its device may be replaced
    struct mmul_tile tile;
    bool no_fallback;
    bool replaced; // the plan's tile was for another device
    struct mmul_stage a, b, c;
    int64_t products, fallback_products; // counted for the report
};

// Allocates what tiles need on the device. `a_dtype`, `b_dtype` are those of all products.
enum mmul_status mmul_worker_init(struct mmul_worker *worker, struct mmul_context *context,
                                  struct mmul_tile tile, enum mmul_dtype a_dtype,
                                  enum mmul_dtype b_dtype, bool no_fallback,
                                  struct mmul_error *err);
void mmul_worker_fini(struct mmul_worker *worker);

// Computes one product. Fails with MMUL_ERR_UNAVAILABLE when a device failed and no_fallback, or
// when no device is left.
enum mmul_status mmul_worker_multiply(struct mmul_worker *worker,
                                      const struct mmul_product *product, struct mmul_error *err);

// Gives up the present device, whose results cannot be trusted.
enum mmul_status mmul_worker_distrust(struct mmul_worker *worker, const char *why,
                                      struct mmul_error *err);
