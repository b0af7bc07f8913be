// SPDX-License-Identifier: MIT
//
// Who waits for whom on an OpenCL device. Three in-order queues of one context work side by side:
// uploads (and the widening of 16-bit elements), products, downloads. Every buffer remembers the
// event of its last write and, per queue, of its last read; an operation waits for those of the
// other queues that its buffers ask for: a reader for the last write, a writer for everybody.
//
//     upload    A0 | A1          | A2 ...        A1 goes up while A0 is multiplied;
//     compute        A0 B -> C0  | A1 B -> C1    A2 waits for the product that reads A0's buffer
//     download                     C0
//
// The last MMUL_OPENCL_BEGUN operations are kept until they end, so that what fails is seen; one
// more waits for the oldest.
#pragma once

#include <CL/cl.h>

#include "mpimatmul_local.h"

enum mmul_opencl_queue {
    MMUL_QUEUE_UPLOAD,
    MMUL_QUEUE_COMPUTE,
    MMUL_QUEUE_DOWNLOAD,
    MMUL_QUEUE_COUNT
};

enum { MMUL_OPENCL_BEGUN = 64 };

// The queues and what was begun on them.
struct mmul_opencl_order {
    cl_command_queue queues[MMUL_QUEUE_COUNT];
    cl_event begun[MMUL_OPENCL_BEGUN]; // owned; a ring, NULL where none
    unsigned next;                     // the place of the next one, and so of the oldest
};

// What was last begun on one buffer; owned events, NULL: nothing.
struct mmul_opencl_use {
    cl_event write;
    enum mmul_opencl_queue write_queue;
    cl_event reads[MMUL_QUEUE_COUNT]; // since that write
};

// Events an operation must wait for, borrowed from the uses of its buffers: the list that OpenCL's
// calls take. Those that are read ask for at most one write each, the one that is written for two reads as well.
struct mmul_opencl_waits {
    cl_event events[MMUL_OPERANDS + MMUL_QUEUE_COUNT];
    cl_uint count;
};

// Makes the queues. Fails with OpenCL's code, what was made being left to fini.
cl_int mmul_opencl_order_init(struct mmul_opencl_order *order, cl_context context,
                              cl_device_id device);

// Ends everything begun and releases the queues. NULL members are legal.
void mmul_opencl_order_fini(struct mmul_opencl_order *order);

// Adds what an operation on `queue` has to wait for before it reads or writes the buffer.
void mmul_opencl_wait_to_read(struct mmul_opencl_waits *waits, const struct mmul_opencl_use *use,
                              enum mmul_opencl_queue queue);
void mmul_opencl_wait_to_write(struct mmul_opencl_waits *waits, const struct mmul_opencl_use *use,
                               enum mmul_opencl_queue queue);

// The list as OpenCL wants it: NULL when it is empty.
const cl_event *mmul_opencl_wait_list(const struct mmul_opencl_waits *waits);

// Remembers that `event`, begun on `queue`, reads or writes the buffer.
void mmul_opencl_note_read(struct mmul_opencl_use *use, enum mmul_opencl_queue queue,
                           cl_event event);
void mmul_opencl_note_write(struct mmul_opencl_use *use, enum mmul_opencl_queue queue,
                            cl_event event);
void mmul_opencl_use_fini(struct mmul_opencl_use *use);

// Takes over the event of an operation just begun on `queue` and sends the operation on its way.
// When too many are under way it waits for the oldest. Fails with the code of one that failed.
cl_int mmul_opencl_begin(struct mmul_opencl_order *order, enum mmul_opencl_queue queue,
                         cl_event event);

// Waits for everything begun, or for what was begun on one buffer. Fails with the code of any
// operation that failed so far.
cl_int mmul_opencl_end_all(struct mmul_opencl_order *order);
cl_int mmul_opencl_end_use(struct mmul_opencl_order *order, const struct mmul_opencl_use *use);
