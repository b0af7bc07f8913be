// SPDX-License-Identifier: MIT
//
// Dependencies between commands on an OpenCL device. Three in-order queues of one context run
// concurrently: uploads (including the widening of 16-bit elements), products, downloads. Every
// buffer stores the event of its last write and, per queue, of its last read. An operation waits
// for events of the other queues: a reader for the last write, a writer for the last write and all
// reads.
//
//     upload    A0 | A1          | A2 ...        A1 is uploaded while A0 is multiplied;
//     compute        A0 B -> C0  | A1 B -> C1    A2 waits for the product that reads A0's buffer
//     download                     C0
//
// The last MMUL_OPENCL_IN_FLIGHT_MAX operations are kept until they end, so that their failures are
// seen. Starting one more waits for the oldest.
#pragma once

#include <CL/cl.h>

#include "mpimatmul_local.h"

enum mmul_opencl_queue {
    MMUL_QUEUE_UPLOAD,
    MMUL_QUEUE_COMPUTE,
    MMUL_QUEUE_DOWNLOAD,
    MMUL_QUEUE_COUNT
};

enum { MMUL_OPENCL_IN_FLIGHT_MAX = 64 };

// The queues and the operations in flight on them.
struct mmul_opencl_queues {
    cl_command_queue queues[MMUL_QUEUE_COUNT];
    cl_event begun[MMUL_OPENCL_IN_FLIGHT_MAX]; // owned; a ring with NULL in free places
    unsigned next;                             // index of the next operation, and so of the oldest
};

// Last operations on one buffer. Events are owned; NULL: none.
struct mmul_opencl_buffer_events {
    cl_event write;
    enum mmul_opencl_queue write_queue;
    cl_event reads[MMUL_QUEUE_COUNT]; // since that write
};

// Events that an operation must wait for, borrowed from the uses of its buffers, in the form of
// OpenCL's wait lists. Each buffer that is read adds at most one write; the buffer that is written
// adds two reads as well.
struct mmul_opencl_dependencies {
    cl_event events[MMUL_OPERANDS + MMUL_QUEUE_COUNT];
    cl_uint count;
};

// Creates the queues. Fails with OpenCL's code; fini releases the queues made so far.
cl_int mmul_opencl_queues_init(struct mmul_opencl_queues *order, cl_context context,
                               cl_device_id device);

// Waits for all operations and releases the queues. NULL members are legal.
void mmul_opencl_queues_fini(struct mmul_opencl_queues *order);

// Add the events that an operation on `queue` must wait for before it reads or writes the buffer.
void mmul_opencl_add_read_dependencies(struct mmul_opencl_dependencies *waits,
                                       const struct mmul_opencl_buffer_events *use,
                                       enum mmul_opencl_queue queue);
void mmul_opencl_add_write_dependencies(struct mmul_opencl_dependencies *waits,
                                        const struct mmul_opencl_buffer_events *use,
                                        enum mmul_opencl_queue queue);

// Returns the list for OpenCL's calls: NULL if it is empty.
const cl_event *mmul_opencl_dependency_list(const struct mmul_opencl_dependencies *waits);

// Record that the operation of `event` on `queue` reads or writes the buffer.
void mmul_opencl_record_read(struct mmul_opencl_buffer_events *use, enum mmul_opencl_queue queue,
                             cl_event event);
void mmul_opencl_record_write(struct mmul_opencl_buffer_events *use, enum mmul_opencl_queue queue,
                              cl_event event);
void mmul_opencl_buffer_events_fini(struct mmul_opencl_buffer_events *use);

// Takes over the event of an operation just enqueued on `queue` and flushes the queue. If the ring
// is full, waits for the oldest operation. Fails with the code of a failed operation.
cl_int mmul_opencl_submit(struct mmul_opencl_queues *order, enum mmul_opencl_queue queue,
                          cl_event event);

// Wait for all operations, or for those on one buffer. Fail with the code of any operation that has
// failed so far.
cl_int mmul_opencl_wait_all(struct mmul_opencl_queues *order);
cl_int mmul_opencl_wait_buffer(struct mmul_opencl_queues *order,
                               const struct mmul_opencl_buffer_events *use);
