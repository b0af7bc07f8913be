// SPDX-License-Identifier: MIT
// Link speeds. One of two members sends, the other one awaits and answers; then they change places.
// A message is announced, and timed from the moment its receiver is ready until its one-byte answer
// arrives. A message of one byte gives the latency; a large one, less the latency, the bandwidth.
// Does not know nodes or profiles.
#include "comm/link.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/integer.h"
#include "base/median.h"
#include "base/memory.h"
#include "comm/refusal.h"

enum {
    TAG = 71,
    FIRST_BYTES = 16 << 10, // first bandwidth message; each further one is GROWTH times as large
    GROWTH = 4,
    LATENCY_SAMPLES = 9,
    BANDWIDTH_SAMPLES = 5, // messages of the largest size
};

// This member's end of a link.
struct side {
    MPI_Comm mpi;
    struct mmul_alarm *alarm; // borrowed; may be NULL
    int peer;
    const struct mmul_link_limits *limits;
    char *buffer; // borrowed: most_bytes, initialised
};

// --------------------------------------------------------------------------------------- messages

// Waits for a request. A request that is abandoned may use the caller's stack; it is small, so it
// has been buffered or can be cancelled.
static int wait_or_cancel(const struct side *s, MPI_Request *request) {
    int code = mmul_comm_wait(request, s->alarm);
    if (code != MPI_SUCCESS && *request != MPI_REQUEST_NULL) {
        MPI_Cancel(request);
        MPI_Request_free(request);
    }
    return code;
}

static int send_bytes(const struct side *s, const void *bytes, int64_t count) {
    MPI_Request request;
    int code = MPI_Isend(bytes, (int)count, MPI_BYTE, s->peer, TAG, s->mpi, &request);
    return code == MPI_SUCCESS ? wait_or_cancel(s, &request) : code;
}

static int receive_bytes(const struct side *s, void *bytes, int64_t count) {
    MPI_Request request;
    int code = MPI_Irecv(bytes, (int)count, MPI_BYTE, s->peer, TAG, s->mpi, &request);
    return code == MPI_SUCCESS ? wait_or_cancel(s, &request) : code;
}

// Announces a message, waits until the receiver is ready, sends it and waits for the answer.
static int time_message(const struct side *s, int64_t bytes, double *seconds) {
    char ready;
    int code = send_bytes(s, &bytes, sizeof bytes);
    if (code == MPI_SUCCESS)
        code = receive_bytes(s, &ready, 1);
    double begin = mmul_clock_now();
    if (code == MPI_SUCCESS)
        code = send_bytes(s, s->buffer, bytes);
    if (code == MPI_SUCCESS)
        code = receive_bytes(s, &ready, 1);
    *seconds = mmul_clock_now() - begin;
    return code;
}

// Serves the other end of time_message, until a message of 0 bytes is announced.
static int answer_messages(const struct side *s) {
    for (int64_t bytes = 0;;) {
        MPI_Request request;
        int code = receive_bytes(s, &bytes, sizeof bytes);
        if (code != MPI_SUCCESS || bytes == 0)
            return code;
        code = MPI_Irecv(s->buffer, (int)bytes, MPI_BYTE, s->peer, TAG, s->mpi, &request);
        if (code == MPI_SUCCESS)
            code = send_bytes(s, "r", 1);
        if (code == MPI_SUCCESS)
            code = wait_or_cancel(s, &request);
        if (code == MPI_SUCCESS)
            code = send_bytes(s, "a", 1);
        if (code != MPI_SUCCESS)
            return code;
    }
}

// ------------------------------------------------------------------------------------ one link

// Returns the median latency of messages sent within a quarter of the time. The connection is set
// up before.
static int time_latency(const struct side *s, double end, double *latency) {
    double seconds[LATENCY_SAMPLES], begin = mmul_clock_now();
    int count = 0, code = MPI_SUCCESS;
    do
        code = time_message(s, 1, &seconds[count++]);
    while (code == MPI_SUCCESS && count < LATENCY_SAMPLES &&
           mmul_clock_now() - begin < (end - begin) / 4);
    *latency = mmul_median(seconds, count) / 2;
    return code;
}

// Increases the message size while the next message is expected to end in time. Then takes the
// median of some messages of the last size.
static int time_bandwidth(const struct side *s, double end, double latency, double *bandwidth) {
    double seconds[BANDWIDTH_SAMPLES];
    int64_t bytes = mmul_min(FIRST_BYTES, s->limits->most_bytes);
    int count = 0, code = MPI_SUCCESS;
    for (double left = 0; code == MPI_SUCCESS && count < BANDWIDTH_SAMPLES;) {
        double begin = mmul_clock_now();
        code = time_message(s, bytes, &seconds[count++]);
        double now = mmul_clock_now(), took = now - begin;
        left = end - now;
        if (bytes * GROWTH <= s->limits->most_bytes && GROWTH * took < left) {
            bytes *= GROWTH;
            count = 0;
        } else if (took > left) {
            break;
        }
    }
    const double median = mmul_median(seconds, count);
    *bandwidth = (double)bytes / fmax(median - 2 * latency, median / 10);
    return code;
}

// Measures the direction from here to the peer. The first two messages set up the connection.
static int time_direction(const struct side *s, struct mmul_link *way) {
    double ignored;
    int64_t no_more = 0;
    int code = time_message(s, 1, &ignored);
    if (code == MPI_SUCCESS)
        code = time_message(s, 1, &ignored);
    double end = mmul_clock_now() + s->limits->budget_seconds / 2;
    if (code == MPI_SUCCESS)
        code = time_latency(s, end, &way->latency_seconds);
    if (code == MPI_SUCCESS)
        code = time_bandwidth(s, end, way->latency_seconds, &way->bytes_per_second);
    return code == MPI_SUCCESS ? send_bytes(s, &no_more, sizeof no_more) : code;
}

// Measures both directions of a pair, starting with the first member's. Only the first member gets
// the link.
static int measure_pair(const struct side *s, bool first, struct mmul_link *link) {
    struct mmul_link there = {0}, back = {0};
    if (!first) {
        int code = answer_messages(s);
        if (code == MPI_SUCCESS)
            code = time_direction(s, &back);
        return code == MPI_SUCCESS ? send_bytes(s, &back, sizeof back) : code;
    }
    int code = time_direction(s, &there);
    if (code == MPI_SUCCESS)
        code = answer_messages(s);
    if (code == MPI_SUCCESS)
        code = receive_bytes(s, &back, sizeof back);
    *link = (struct mmul_link){fmin(there.bytes_per_second, back.bytes_per_second),
                               fmax(there.latency_seconds, back.latency_seconds)};
    return code;
}

// --------------------------------------------------------------------------------------- all links

static int wait_for_all(const struct side *s) {
    MPI_Request request;
    int code = MPI_Ibarrier(s->mpi, &request);
    return code == MPI_SUCCESS ? mmul_comm_wait(&request, s->alarm) : code;
}

// Returns the `index`-th of `count` members measured against root, spread evenly over 1 .. size -
// 1.
static int sampled_member(int index, int count, int size) {
    return 1 + (int)((int64_t)index * (size - 1) / count);
}

// Root: assigns the median to members without a measurement.
static enum mmul_status assign_median(struct mmul_link *links, int size, int measured,
                                      struct mmul_error *err) {
    double *x = NULL;
    enum mmul_status status = MMUL_ALLOCATE(x, 2 * size, "link speeds", err);
    if (status != MMUL_OK)
        return status;
    for (int i = 0; i < measured; i++) {
        const struct mmul_link *link = &links[sampled_member(i, measured, size)];
        x[i] = link->bytes_per_second;
        x[size + i] = link->latency_seconds;
    }
    struct mmul_link median = {.bytes_per_second = mmul_median(x, measured),
                               .latency_seconds = mmul_median(x + size, measured)};
    for (int i = 1; i < size; i++)
        if (!(links[i].bytes_per_second > 0))
            links[i] = median;
    mmul_free(x);
    return MMUL_OK;
}

static int measure_root_links(struct side side, int rank, int size, int count,
                              struct mmul_link *links) {
    int code = MPI_SUCCESS;
    for (int i = 0; code == MPI_SUCCESS && i < count; i++) {
        int member = sampled_member(i, count, size);
        side.peer = rank == 0 ? member : 0;
        if (rank == 0 || rank == member)
            code = measure_pair(&side, rank == 0, &links[member]);
    }
    return code;
}

// Returns the turn in which a ring link is measured. Links of one turn share no member: first those
// that begin at even members, then at odd ones; in a ring of odd length the last one is alone.
static int ring_turn(int member, int size) {
    return member == size - 1 && size % 2 != 0 ? 2 : member % 2;
}

static int measure_ring_links(struct side side, int rank, int size, struct mmul_link *mine) {
    int next = (rank + 1) % size, previous = (rank + size - 1) % size, code = MPI_SUCCESS;
    for (int turn = 0; code == MPI_SUCCESS && turn < 2 + size % 2; turn++) {
        bool first = ring_turn(rank, size) == turn;
        side.peer = first ? next : previous;
        if (first || ring_turn(previous, size) == turn)
            code = measure_pair(&side, first, mine);
        if (code == MPI_SUCCESS)
            code = wait_for_all(&side);
    }
    return code;
}

static enum mmul_status measure_all(const struct side *side, int rank, int size,
                                    struct mmul_link *root_links, struct mmul_link *ring_links,
                                    struct mmul_error *err) {
    const int bytes = (int)sizeof(struct mmul_link), most = side->limits->max_root_links;
    int count = most > 0 ? (int)mmul_min(most, size - 1) : size - 1;
    struct mmul_link mine = {0};
    MPI_Request request;
    int code = measure_root_links(*side, rank, size, count, root_links);
    if (code == MPI_SUCCESS)
        code = wait_for_all(side);
    if (code == MPI_SUCCESS && size > 2)
        code = measure_ring_links(*side, rank, size, &mine);
    // No agreement after an alarm: the other members may be anywhere in this function.
    bool heard = mmul_alarm_is_raised(side->alarm);
    err->status = heard ? MMUL_OK : mmul_comm_check(code, "link measurement", err);
    if (heard || (err->status != MMUL_OK && side->alarm != NULL)) {
        mmul_alarm_raise(side->alarm);
        return err->status;
    }
    if (err->status == MMUL_OK && rank == 0)
        err->status = assign_median(root_links, size, count, err);
    if (mmul_comm_agree_over(side->mpi, err) != MMUL_OK)
        return err->status;
    code = MPI_Ibcast(root_links, size * bytes, MPI_BYTE, 0, side->mpi, &request);
    code = mmul_comm_finish(code, &request);
    if (code == MPI_SUCCESS && size > 2) {
        code = MPI_Iallgather(&mine, bytes, MPI_BYTE, ring_links, bytes, MPI_BYTE, side->mpi,
                              &request);
        code = mmul_comm_finish(code, &request);
    }
    if (size == 2) // both directions of the ring use the only link
        ring_links[0] = ring_links[1] = root_links[1];
    return mmul_refusal_check(side->mpi, code, "link measurement", err);
}

enum mmul_status mmul_links_measure(MPI_Comm mpi, struct mmul_alarm *alarm,
                                    const struct mmul_link_limits *limits,
                                    struct mmul_link *root_links, struct mmul_link *ring_links,
                                    struct mmul_error *err) {
    struct side side = {.mpi = mpi, .alarm = alarm, .limits = limits};
    int rank, size;
    MPI_Comm_rank(mpi, &rank);
    MPI_Comm_size(mpi, &size);
    memset(root_links, 0, (size_t)size * sizeof *root_links);
    memset(ring_links, 0, (size_t)size * sizeof *ring_links);
    if (size == 1)
        return MMUL_OK;
    err->status = MMUL_ALLOCATE_RAW(side.buffer, limits->most_bytes, "link measurement", err);
    if (err->status == MMUL_OK)
        memset(side.buffer, 1, (size_t)limits->most_bytes);
    enum mmul_status status = mmul_comm_agree_over(mpi, err);
    if (status == MMUL_OK)
        status = measure_all(&side, rank, size, root_links, ring_links, err);
    if (mmul_alarm_is_raised(alarm))
        mmul_abandon(side.buffer); // MPI may still use it
    else
        mmul_free(side.buffer);
    return status;
}
