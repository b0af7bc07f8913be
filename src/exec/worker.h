// SPDX-License-Identifier: MIT
//
// One rank's computing: products in host memory go through its device tile by tile, the next tile
// going up and the last one coming down while one is multiplied; when the device fails the whole
// product is done again by its successor.
#pragma once

#include "exec/context.h"
#include "exec/staging_buffer.h"
#include "exec/tile_cache.h"
#include "model/product.h"
#include "model/trace.h"
#include "plan/budget.h"

struct mmul_worker_options {
    struct mmul_tile tile;            // m = 0: there will be no products
    enum mmul_dtype a_dtype, b_dtype; // of all products
    bool no_fallback;
    struct mmul_trace *trace; // borrowed until fini; NULL: none
};

struct mmul_worker {
    struct mmul_context *context; // borrowed; its device may be replaced
    struct mmul_worker_options options;
    struct mmul_tile tile; // of them, as the device can have it
    bool replaced;         // the plan's tile was for another device
    struct mmul_tile_cache a, b, c;
    struct mmul_staging_buffer staging;
    int64_t products, fallback_products; // counted for the report
};

// Allocates what tiles need on the device, and at most 2 MMUL_STAGING_BUFFER_COUNT elements in
// host memory.
enum mmul_status mmul_worker_init(struct mmul_worker *worker, struct mmul_context *context,
                                  const struct mmul_worker_options *options,
                                  struct mmul_error *err);
void mmul_worker_fini(struct mmul_worker *worker);

// Products of other sizes or types follow: entries of the device are made anew where these need it.
// Fails as init does; then none may follow.
enum mmul_status mmul_worker_turn(struct mmul_worker *worker,
                                  const struct mmul_worker_options *options,
                                  struct mmul_error *err);

// Computes one product; C is complete and nothing is under way when it returns. Tiles of A and B
// that the device still holds from earlier products, known by their place in host memory, are not
// sent again. C_in may be C itself: after a change of the device, which fallback_products shows, C then means nothing.
// Fails with MMUL_ERR_UNAVAILABLE when a device failed and no_fallback, or when no device
// is left.
enum mmul_status mmul_worker_multiply(struct mmul_worker *worker,
                                      const struct mmul_product *product, struct mmul_error *err);

// To be called when operands of earlier products have changed where they lie in host memory.
void mmul_worker_forget(struct mmul_worker *worker);

// The device hangs in a call of another thread and was abandoned: what it holds is left to it. From
// now on this thread may use the worker, with the context's new device.
void mmul_worker_abandon(struct mmul_worker *worker);

// Gives up the present device, whose results cannot be trusted.
enum mmul_status mmul_worker_distrust(struct mmul_worker *worker, const char *why,
                                      struct mmul_error *err);
