// SPDX-License-Identifier: MIT
//
// One rank's computing: products in host memory go through its device tile by tile, the next tile
// going up and the last one coming down while one is multiplied; when the device fails the whole
// product is done again by its successor.
#pragma once

#include "exec/setup/context.h"
#include "exec/worker/staging_buffer.h"
#include "exec/worker/tile_cache.h"
#include "model/check.h"
#include "model/product.h"
#include "model/trace.h"
#include "plan/parts/budget.h"

// Matrices whose memory holds what it holds now, or will when the product is done, until the worker is told
// that it is used again: a device with memory of its own keeps what it has of them from product to product.
enum mmul_lasting { MMUL_LASTING_A = 1, MMUL_LASTING_B = 2, MMUL_LASTING_C = 4 };

enum { MMUL_ABSENT_RESULTS = 3 };

struct mmul_worker_options {
    struct mmul_tile tile;            // m = 0: there will be no products
    enum mmul_dtype a_dtype, b_dtype; // of all products
    unsigned lasting;                 // enum mmul_lasting; none of 16 bits
    int64_t
        kept_bytes; // where there will be no products: for values on a device with memory of its own
    bool no_fallback;
    struct mmul_trace *trace; // borrowed until fini; NULL: none
};

struct mmul_worker {
    struct mmul_context *context; // borrowed; its device may be replaced
    struct mmul_worker_options options;
    struct mmul_tile tile;          // of them, as the device can have it
    bool replaced;                  // the plan's tile was for another device
    struct mmul_tile_cache a, b, c; // of what changes, or is another matrix next time
    struct mmul_tile_cache kept;    // of all that is lasting, in what memory is left
    // In `kept`: results that their device alone has, as it was allowed to: a product's, what was made of a part of
    // that, and of that in turn; NULL behind the last.
    struct mmul_cached_tile *absent[MMUL_ABSENT_RESULTS];
    // The next product's result, in lasting memory, may stay where the device has room for all of it and, beside that,
    // so many bytes for what is done to it there; 0: it comes home.
    int64_t beside_bytes;
    int64_t told;      // of a product that is absent: elements of which the check has sums
    bool is_to_repeat; // a device was replaced that alone had a result: the product is made again
    struct mmul_staging_buffer staging;
    struct mmul_device
        *host; // owned: computes what the context's cannot, in host memory; NULL: not yet
    struct mmul_device
        *judge; // owned: makes samples of results again, for their check; NULL: not yet
    int64_t
        carried_wrong;   // chunks of operations whose sums of bits were others when they came home
    int64_t projections; // sums that the device has made for the check
    int64_t products, fallback_products; // counted for the report
    struct mmul_device_traffic left;     // of devices that were replaced
};

// Allocates what tiles need on the device, and at most 2 MMUL_STAGING_BUFFER_BYTES in
// host memory.
enum mmul_status mmul_worker_init(struct mmul_worker *worker, struct mmul_context *context,
                                  const struct mmul_worker_options *options,
                                  struct mmul_error *err);
void mmul_worker_fini(struct mmul_worker *worker);

// Products of other sizes or types follow: entries of the device are made anew where these need it, and
// what it keeps of lasting matrices stays. Fails as init does; then none may follow.
enum mmul_status mmul_worker_turn(struct mmul_worker *worker,
                                  const struct mmul_worker_options *options,
                                  struct mmul_error *err);

// Computes one product; C is complete, or absent (beside_bytes), and nothing is under way when it returns. Tiles of A
// and B that the device still holds from earlier products, known by their place in host memory, are not sent again.
// C_in may be C itself: after a change of the device, which fallback_products shows, C then means nothing. Fails
// with MMUL_ERR_UNAVAILABLE when a device failed and no_fallback, or when no device is left.
enum mmul_status mmul_worker_multiply(struct mmul_worker *worker,
                                      const struct mmul_product *product, struct mmul_error *err);

// To be called when operands of earlier products that are not lasting have changed where they lie in host
// memory; and when [begin, end), where a lasting one was, is used for another one. NULL, NULL: all of them.
void mmul_worker_forget(struct mmul_worker *worker);
void mmul_worker_forget_memory(struct mmul_worker *worker, const void *begin, const void *end);

// Bytes that its devices have taken and given so far, but for those of one that hung.
struct mmul_device_traffic mmul_worker_traffic(const struct mmul_worker *worker);

// The device hangs in a call of another thread and was abandoned: what it holds is left to it. From
// now on this thread may use the worker, with the context's new device.
void mmul_worker_abandon(struct mmul_worker *worker);

// Gives up the present device, whose results in `place` cannot be trusted: why, "3 wrong rows in rows 0-9 of matrix 0".
// Where none follows it fails with MMUL_ERR_WRONG.
enum mmul_status mmul_worker_blame(struct mmul_worker *worker, const char *why, const char *place,
                                   struct mmul_error *err);

// The same, whatever it was asked for; fails as a replacement of the device does.
enum mmul_status mmul_worker_distrust(struct mmul_worker *worker, const char *why,
                                      struct mmul_error *err);

// A source of the check (model/check.h; the context is a worker): sums of a matrix that the device keeps. It is asked
// for what is read again, and when what it has is bit by bit what lies in host memory, of which both add up the bits
// once: so an upload that went wrong is no witness of the product that was made from it.
bool mmul_worker_project(void *worker, const struct mmul_check_request *request);

// What an entry of `kept` holds from now on is a result that stays on the device: absent from host memory.
void mmul_worker_leave(struct mmul_worker *worker, struct mmul_cached_tile *entry,
                       const struct mmul_host_tile *holds);

// Is the tile, or what it is a part of, absent?
bool mmul_worker_is_absent(struct mmul_worker *worker, const struct mmul_host_tile *tile);

// What is absent comes home, where host memory means nothing until then, and is what the device has, bit by bit.
// Nothing where nothing is absent. With a device that fails, or errs, the result is gone: then, as in a map or check
// after which a device was replaced that alone had one, is_to_repeat is set and the status MMUL_ERR_STOPPED; or there
// is no successor.
enum mmul_status mmul_worker_bring_home(struct mmul_worker *worker, struct mmul_error *err);

// Parts of what is absent, for who looks at some of it: rows alike, all of them in MMUL_ABSENT_SPAN elements of it,
// gathered on the device so that they come at once. It is absent all the same. Fails as bring_home, and with
// MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_worker_bring_parts(struct mmul_worker *worker,
                                         const struct mmul_host_tile *parts, int64_t count,
                                         struct mmul_error *err);
enum { MMUL_ABSENT_SPAN = 1 << 24 }; // places from the first of them on are numbers of float32

// Has the check had sums of all of a product that is absent, if any is?
bool mmul_worker_has_told(const struct mmul_worker *worker);

// Nobody needs any more the last rows, or all, of what is absent, the first of which is `from`'s first; NULL: nothing
// at all that is absent.
void mmul_worker_release(struct mmul_worker *worker, const struct mmul_host_tile *from);

// OK, unless a result went with the device that was replaced.
enum mmul_status mmul_worker_must_repeat(const struct mmul_worker *worker, struct mmul_error *err);

// From the device to where it belongs, by way of the staging buffer.
enum mmul_status mmul_worker_bring(struct mmul_worker *worker, struct mmul_operand from,
                                   const struct mmul_host_tile *to, struct mmul_error *err);

// *bits of device/project.h of what the device has there, of the tile's sides.
enum mmul_status mmul_worker_sum_bits(struct mmul_worker *worker, struct mmul_operand from,
                                      const struct mmul_host_tile *tile, uint32_t *bits,
                                      struct mmul_error *err);

// The same of a tile in host memory.
uint32_t mmul_worker_bits(const struct mmul_host_tile *tile);

// For worker_map.c: whether the device uses such operands where they lie; from a device that failed to the next one.
bool mmul_worker_in_place(const struct mmul_worker *worker, enum mmul_dtype dtype);
enum mmul_status mmul_worker_fall_back(struct mmul_worker *worker, struct mmul_error *err);
