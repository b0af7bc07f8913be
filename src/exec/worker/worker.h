// SPDX-License-Identifier: MIT
//
// The computation of one rank: products in host memory go through its device tile by tile. While
// one tile is multiplied, the next is uploaded and the last result is downloaded. If the device
// fails, its successor computes the whole product again.
#pragma once

#include "exec/setup/context.h"
#include "exec/worker/staging_buffer.h"
#include "exec/worker/tile_cache.h"
#include "model/check.h"
#include "model/product.h"
#include "model/trace.h"
#include "plan/parts/budget.h"

// Matrices that keep their content in memory, from now on or from the end of the product, until the
// worker is told otherwise. A device with memory of its own caches them across products.
enum mmul_lasting { MMUL_LASTING_A = 1, MMUL_LASTING_B = 2, MMUL_LASTING_C = 4 };

enum { MMUL_ABSENT_RESULTS = 3 };

struct mmul_worker_options {
    struct mmul_tile tile;            // m = 0: no products follow
    enum mmul_dtype a_dtype, b_dtype; // types of all products
    unsigned lasting;                 // enum mmul_lasting; none with 16-bit elements
    bool no_fallback;
    // If no products follow: cache size for values on a device with memory of its own.
    int64_t kept_bytes;
    struct mmul_trace *trace; // borrowed until fini; NULL: none
};

struct mmul_worker {
    struct mmul_context *context; // borrowed; its device may be replaced
    struct mmul_worker_options options;
    struct mmul_tile tile;          // options.tile, adapted to the device
    bool replaced;                  // the plan's tile was for another device
    struct mmul_tile_cache a, b, c; // caches of matrices that are not lasting
    struct mmul_tile_cache kept;    // cache of all lasting matrices, in the remaining memory
    // Entries of `kept` with absent results, which only the device has: a product's result, then
    // results made from parts of it, then from parts of those. NULL after the last.
    struct mmul_cached_tile *absent[MMUL_ABSENT_RESULTS];
    // the product must be made again: its only copy was on a replaced device
    bool must_repeat_product;
    struct mmul_staging_buffer staging;
    // Owned: computes in host memory what the context's device cannot; NULL: not open yet.
    struct mmul_device *host;
    // Owned: recomputes samples of results for their check; NULL: not open yet.
    struct mmul_device *judge;
    // Chunks of operations with a different bit sum after the download.
    int64_t download_errors;
    int64_t projections;                 // sums that the device has computed for the check
    int64_t products, fallback_products; // counted for the report
    struct mmul_device_traffic left;     // traffic of replaced devices
};

// Allocates the tile buffers on the device, and at most 2 MMUL_STAGING_BUFFER_BYTES in host memory.
enum mmul_status mmul_worker_init(struct mmul_worker *worker, struct mmul_context *context,
                                  const struct mmul_worker_options *options,
                                  struct mmul_error *err);
void mmul_worker_fini(struct mmul_worker *worker);

// Prepares for products of other sizes or types. Entries on the device are created anew where
// needed; cached lasting matrices stay. Fails as init does; no product may follow then.
enum mmul_status mmul_worker_reconfigure(struct mmul_worker *worker,
                                         const struct mmul_worker_options *options,
                                         struct mmul_error *err);

// Computes one product. On return C is complete, and no operation is in flight. Tiles of A and B
// that the device still holds from earlier products, by their address in host memory, are not
// uploaded again. C_in may be C itself: if the device was replaced meanwhile (see
// fallback_products), the content of C is then undefined.
// Fails with MMUL_ERR_UNAVAILABLE if a device failed and no_fallback is set, or if no device is
// left.
enum mmul_status mmul_worker_multiply(struct mmul_worker *worker,
                                      const struct mmul_product *product, struct mmul_error *err);

// As mmul_worker_multiply, but C, in lasting memory, becomes absent if the device has room for all
// of it, and beside it for this many bytes of later operations. 0: C is downloaded.
enum mmul_status mmul_worker_multiply_absent(struct mmul_worker *worker,
                                             const struct mmul_product *product,
                                             int64_t extra_device_bytes, struct mmul_error *err);

// invalidate_operands: the caller reports that operands of earlier products that are not lasting
// have changed in host memory. invalidate_memory: [begin, end), which held a lasting matrix, is
// reused; NULL, NULL: all lasting matrices.
void mmul_worker_invalidate_operands(struct mmul_worker *worker);
void mmul_worker_invalidate_memory(struct mmul_worker *worker, const void *begin, const void *end);

// Returns the bytes that the rank's devices have transferred so far, except those of a device that
// hung.
struct mmul_device_traffic mmul_worker_traffic(const struct mmul_worker *worker);

// Abandons a device that hangs in a call of another thread, with all that it holds. From now on
// this thread may use the worker, with the context's new device.
void mmul_worker_abandon(struct mmul_worker *worker);

// Gives up the present device, because its results in `place` are wrong. why: "3 wrong rows in rows
// 0-9 of matrix 0". Fails with MMUL_ERR_WRONG if there is no successor.
enum mmul_status mmul_worker_replace_wrong_device(struct mmul_worker *worker, const char *why,
                                                  const char *place, struct mmul_error *err);

// Gives up the present device, whatever its task was. Fails as a replacement of the device does.
enum mmul_status mmul_worker_replace_device(struct mmul_worker *worker, const char *why,
                                            struct mmul_error *err);

// A source of the check (model/check.h; the context is a worker): returns sums of a matrix that the
// device caches. Used only for matrices that are read again, and only if the cached bits equal host
// memory. For that, both sides add up the bits once, so that a wrong upload cannot confirm the
// product made from it.
bool mmul_worker_compute_sums(void *worker, const struct mmul_check_request *request);

// Records that an entry of `kept` holds a result that stays on the device, absent from host memory.
void mmul_worker_mark_absent(struct mmul_worker *worker, struct mmul_cached_tile *entry,
                             const struct mmul_host_tile *holds);

// Returns true if the tile is part of an absent result.
bool mmul_worker_is_absent(struct mmul_worker *worker, const struct mmul_host_tile *tile);

// Downloads all absent results, bit by bit as the device has them; until then their host memory is
// undefined. Does nothing if no result is absent.
// If the device fails or errs, the result is lost. Then must_repeat_product is set and the status
// is MMUL_ERR_STOPPED, or there is no successor. The same holds for a map or check during which a
// device with the only copy was replaced.
enum mmul_status mmul_worker_download_absent(struct mmul_worker *worker, struct mmul_error *err);

// Downloads parts of an absent result, as samples: rows of equal length, all within
// MMUL_SAMPLE_SPAN elements of it. The device gathers them for a single download. The result stays
// absent. Fails as mmul_worker_download_absent, and with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_worker_download_samples(struct mmul_worker *worker,
                                              const struct mmul_host_tile *parts, int64_t count,
                                              struct mmul_error *err);
enum { MMUL_SAMPLE_SPAN = 1 << 24 }; // offsets from the first part must be exact in float32

// Returns true if the check has sums of the whole absent product, or no result is absent.
bool mmul_worker_has_check_sums(const struct mmul_worker *worker);

// Releases absent results that are not needed any more: the rows from the first row of `from` on.
// NULL: all of them.
void mmul_worker_release_absent(struct mmul_worker *worker, const struct mmul_host_tile *from);

// Returns MMUL_OK, unless a result was lost with a replaced device.
enum mmul_status mmul_worker_check_lost_results(const struct mmul_worker *worker,
                                                struct mmul_error *err);

// Downloads a tile to its place in host memory, through the staging buffer.
enum mmul_status mmul_worker_download(struct mmul_worker *worker, struct mmul_operand from,
                                      const struct mmul_host_tile *to, struct mmul_error *err);

// Computes the bit sum (device/matrix_sums.h) of a tile on the device.
enum mmul_status mmul_worker_sum_device_bits(struct mmul_worker *worker, struct mmul_operand from,
                                             const struct mmul_host_tile *tile, uint32_t *bits,
                                             struct mmul_error *err);

// Returns the bit sum of a tile in host memory.
uint32_t mmul_worker_sum_host_bits(const struct mmul_host_tile *tile);

// For host_map.c. uses_in_place: returns true if the device uses operands of this type in host
// memory. fall_back: replaces a failed device by the next one.
bool mmul_worker_uses_in_place(const struct mmul_worker *worker, enum mmul_dtype dtype);
enum mmul_status mmul_worker_fall_back(struct mmul_worker *worker, struct mmul_error *err);
