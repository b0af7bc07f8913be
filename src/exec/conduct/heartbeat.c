// SPDX-License-Identifier: MIT
// Small messages on the run's communicator, with tags of their own. At most one message is in
// flight in each direction, so that none pile up at a stopped rank. Silence is counted only while
// the listener itself was awake: after a job was stopped as a whole, no rank is accused.
//
//     rank:  BEAT BEAT ... LEAVING BEAT ... BYE      root:  BEAT ... CANCEL? ... OVER
//                           (OVER has come)^                     (all are LEAVING)^
//
// Root answers a rank's ASK by GIVEN, and a leader answers root's QUESTION by ANSWER, before BYE at
// the latest: root does not finish while it may still ask. Such an expected message is polled all
// the time and counts as a transfer of the run. Its failure fails the run, and so does the failure
// of any message of a rank that may ask or be asked.
#include "exec/conduct/heartbeat.h"

#include <stdarg.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/stall.h"
#include "base/status.h"
#include "exec/conduct/lost_ranks.h"

static const double LOOK_SECONDS = 0.05, AWAKE_SECONDS = 0.5, SILENT_SECONDS = 10,
                    BEAT_SECONDS = 0.5;

enum { TAG_TO_ROOT = 9001, TAG_FROM_ROOT = 9002 };
enum kind { BEAT, LEAVING, BYE, CANCEL, OVER, ASK, GIVEN, QUESTION, ANSWER };
enum { KIND, CANCELLED, RIGHT, GARBLED, PLAIN_DONE, PLAIN_LINES, PLAIN_FLOPS };
enum { LENDING = 2 };  // index of the first word of a question or an answer
enum { STALL = 15 };   // index of the reason why this rank has stalled, enum stall
enum { STANDING = 8 }; // index of the first progress word, in messages of every kind

_Static_assert((int)LENDING + (int)MMUL_NODE_STEAL_WORDS <= (int)STANDING, "they fit");
_Static_assert((int)STANDING + (int)MMUL_RANK_STATUS_WORDS <= (int)STALL, "these, too");
_Static_assert((int)STALL < (int)MMUL_WORDS, "and this one");

enum stall { IS_ACTIVE, FILE_STALLS, TASK_STALLS, IS_SILENT };

struct mmul_heartbeat_peer {
    struct mmul_words receive, send;
    int64_t heard[MMUL_WORDS]; // the last message received
    int rank;
    enum kind last; // LEAVING and BYE are never overwritten by BEAT
    // seconds: since the last message; silence limit when it was named, 0: it was not
    double silent, named;
    bool has_spoken;    // a message has come
    bool was_cancelled; // a cancel message has been sent to it
    bool asks;          // root: it may request lines
    bool counts;        // a question or an answer is in flight, or may be
};

static bool is_root(const struct mmul_heartbeat *heartbeat) {
    return heartbeat->run->rank_resources.context->comm->rank == 0;
}

static bool is_cancelled(const struct mmul_heartbeat *heartbeat) {
    return mmul_failure_is_void(&heartbeat->run->rank_resources.failure);
}

// A failed heartbeat message does not fail the run: it only looks like silence. Messages that count
// are the exception.
static struct mmul_peers peers_of(const struct mmul_heartbeat *heartbeat,
                                  const struct mmul_heartbeat_peer *peer) {
    struct mmul_peers peers = heartbeat->run->rank_resources.transport.talk;
    peers.failure = peer->counts ? peers.failure : NULL;
    peers.alarm = peer->counts ? peers.alarm : NULL;
    return peers;
}

static void post_receive(const struct mmul_heartbeat *heartbeat, struct mmul_heartbeat_peer *peer) {
    const struct mmul_peers peers = peers_of(heartbeat, peer);
    mmul_words_receive(&peers, peer->rank, is_root(heartbeat) ? TAG_TO_ROOT : TAG_FROM_ROOT,
                       &peer->receive);
}

static bool is_transfer_over(const struct mmul_heartbeat *heartbeat,
                             const struct mmul_heartbeat_peer *peer, struct mmul_words *words) {
    const struct mmul_peers peers = peers_of(heartbeat, peer);
    return mmul_words_is_over(&peers, words);
}

static enum stall find_own_stall(const struct mmul_heartbeat *heartbeat) {
    const double limit = mmul_stall_limit();
    return limit <= 0                 ? IS_ACTIVE
           : mmul_stall_is_in_call()  ? FILE_STALLS
           : heartbeat->late >= limit ? TASK_STALLS
                                      : IS_ACTIVE;
}

static void fill_message(const struct mmul_heartbeat *heartbeat, enum kind kind, int64_t *words) {
    const struct mmul_run *run = heartbeat->run;
    words[KIND] = kind;
    words[CANCELLED] = is_cancelled(heartbeat);
    words[RIGHT] = atomic_load(&run->rank_resources.findings.blocks_right);
    words[GARBLED] = atomic_load(&run->rank_resources.findings.blocks_garbled);
    words[PLAIN_DONE] = atomic_load(&run->rank_resources.findings.plain_done);
    words[PLAIN_LINES] = atomic_load(&run->rank_resources.findings.plain_lines);
    words[PLAIN_FLOPS] = atomic_load(&run->rank_resources.findings.plain_flops);
    words[STALL] = find_own_stall(heartbeat);
    memcpy(words + STANDING, &heartbeat->mine, sizeof heartbeat->mine);
}

// Sends the prepared message. False: sending failed; try again later.
static bool send_prepared(const struct mmul_heartbeat *heartbeat,
                          struct mmul_heartbeat_peer *peer) {
    const struct mmul_peers peers = peers_of(heartbeat, peer);
    mmul_words_send(&peers, peer->rank, is_root(heartbeat) ? TAG_FROM_ROOT : TAG_TO_ROOT,
                    &peer->send);
    return !peer->send.failed;
}

// Sends a message of one kind. False: the last one has not left yet, or sending failed; try again
// later.
static bool send_message(const struct mmul_heartbeat *heartbeat, struct mmul_heartbeat_peer *peer,
                         enum kind kind) {
    if (!is_transfer_over(heartbeat, peer, &peer->send))
        return false;
    fill_message(heartbeat, kind, peer->send.values);
    return send_prepared(heartbeat, peer);
}

static void notify_user(const struct mmul_heartbeat *heartbeat,
                        const struct mmul_heartbeat_peer *peer, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void notify_user(const struct mmul_heartbeat *heartbeat,
                        const struct mmul_heartbeat_peer *peer, const char *format, ...) {
    const struct mmul_job_calls *calls = heartbeat->run->calls;
    char text[256];
    va_list arguments;
    if (calls->notice == NULL)
        return;
    int length = snprintf(text, sizeof text, "rank %d on %.64s ", peer->rank,
                          heartbeat->run->rank_resources.context->cluster->ranks[peer->rank].host);
    va_start(arguments, format);
    vsnprintf(text + length, sizeof text - (size_t)length, format, arguments);
    va_end(arguments);
    calls->notice(calls->context, text);
}

static void handle_lending_message(struct mmul_heartbeat *heartbeat,
                                   struct mmul_heartbeat_peer *peer, enum kind kind,
                                   const int64_t *words) {
    if (kind == ASK) {
        mmul_node_steal_add_request(&heartbeat->lending, peer->rank, words);
    } else if (kind == GIVEN) {
        mmul_node_steal_process_reply(&heartbeat->run->rank_resources, words);
    } else if (kind == QUESTION) {
        heartbeat->is_asked = true;
        memcpy(heartbeat->question, words, sizeof heartbeat->question);
    } else {
        peer->counts = peer->asks;
        mmul_node_steal_process_answer(&heartbeat->lending, words);
    }
}

static void handle_message(struct mmul_heartbeat *heartbeat, struct mmul_heartbeat_peer *peer) {
    enum kind kind = (enum kind)peer->receive.values[KIND];
    bool is_about_stealing = kind >= ASK;
    if (is_about_stealing)
        handle_lending_message(heartbeat, peer, kind, peer->receive.values + LENDING);
    memcpy(peer->heard, peer->receive.values,
           (is_about_stealing ? LENDING : STANDING) * sizeof *peer->heard);
    memcpy(peer->heard + STANDING, peer->receive.values + STANDING,
           (MMUL_WORDS - STANDING) * sizeof *peer->heard);
    peer->has_spoken = true;
    if (peer->named > 0)
        notify_user(heartbeat, peer, "responds again after %.0f s", peer->silent);
    peer->silent = peer->named = 0;
    if (kind == LEAVING || kind == BYE)
        peer->last = kind;
    if (peer->heard[CANCELLED] != 0 || kind == CANCEL)
        mmul_failure_void_traffic(&heartbeat->run->rank_resources.failure);
    heartbeat->has_cancelled |= peer->heard[CANCELLED] != 0;
    heartbeat->is_over |= kind == OVER;
    if (kind != BYE && kind != OVER)
        post_receive(heartbeat, peer);
}

static void handle_messages(struct mmul_heartbeat *heartbeat, struct mmul_heartbeat_peer *peer) {
    while (peer->receive.active && is_transfer_over(heartbeat, peer, &peer->receive) &&
           !peer->receive.failed)
        handle_message(heartbeat, peer);
}

// Ends the job if a rank has stalled. The job ends here, because the stalled rank cannot take part
// in an agreement.
static void judge_stall(const struct mmul_heartbeat *heartbeat, int rank, enum stall stall) {
    static const char *const reasons[] = {
        [FILE_STALLS] = "a read or write of a file does not return",
        [TASK_STALLS] = "a task on its device takes far longer than expected",
        [IS_SILENT] = "it sends no messages; it is stopped, or its host or network is down",
    };
    if (stall != IS_ACTIVE)
        mmul_stall_end_job(rank, heartbeat->run->rank_resources.context->cluster->ranks[rank].host,
                           reasons[stall]);
}

static void check_silence(struct mmul_heartbeat *heartbeat, struct mmul_heartbeat_peer *peer,
                          double awake) {
    bool listens = peer->receive.active;
    handle_messages(heartbeat, peer);
    // While root waits it sends messages to rank 1 only.
    if (!listens ||
        (!is_root(heartbeat) && heartbeat->run->rank_resources.context->comm->rank != 1))
        return;
    peer->silent += awake;
    // A rank that was stopped itself accuses none: the job may be ending for that reason.
    const bool is_gone =
        mmul_stall_limit() > 0 && peer->silent >= mmul_stall_limit() && !mmul_stall_was_stopped();
    judge_stall(heartbeat, peer->rank, is_gone ? IS_SILENT : (enum stall)peer->heard[STALL]);
    const double crowd = heartbeat->interval > 1 ? heartbeat->interval - 1 : 0;
    double limit = peer->named > 0 ? 2 * peer->named : SILENT_SECONDS + crowd;
    if (peer->silent < limit)
        return;
    peer->named = limit;
    notify_user(heartbeat, peer, "has not responded for %.0f s", limit);
}

// Sends heartbeats and cancel messages that are due. Replies are sent elsewhere.
static void send_due_messages(struct mmul_heartbeat *heartbeat, bool beats) {
    heartbeat->has_cancelled |= is_cancelled(heartbeat);
    for (int i = 0; i < heartbeat->peer_count; i++) {
        struct mmul_heartbeat_peer *peer = &heartbeat->peers[i];
        if (heartbeat->has_cancelled && !peer->was_cancelled)
            peer->was_cancelled = send_message(heartbeat, peer, is_root(heartbeat) ? CANCEL : BEAT);
        else if (beats && (!is_root(heartbeat) || peer->rank == 1))
            send_message(heartbeat, peer, BEAT);
    }
}

// Root: tells the user about a rank that computes in plain loops, because those are slow. The words
// of a message may be of different moments, so they are only shown and never computed with.
static void report_plain_work(struct mmul_heartbeat *heartbeat,
                              const struct mmul_heartbeat_peer *peer, double now) {
    static const double short_flops = 2e9;
    const int64_t *words = peer->heard;
    if ((double)words[PLAIN_FLOPS] <= short_flops || words[PLAIN_LINES] <= 0)
        return;
    heartbeat->last_notice_at = now;
    notify_user(heartbeat, peer,
                "recomputes with plain loops because its device gave wrong results: %.0f %% "
                "of %lld lines",
                100.0 * (double)words[PLAIN_DONE] / (double)words[PLAIN_LINES],
                (long long)words[PLAIN_LINES]);
}

static bool rank_has_work(const struct mmul_run *run, int rank) {
    bool any = false;
    for (int i = 0; !any && i < run->stage_count; i++)
        any = mmul_stage_has_work(&run->stages[i], rank);
    return any;
}

// Root: returns true if every rank with work has found nothing but garbled blocks and the repair
// would take long. A single failing device is replaced, but devices do not all fail in the same
// way. *blocks: number of garbled blocks.
static bool is_hopeless(const struct mmul_heartbeat *heartbeat, int64_t *blocks) {
    static const double long_flops = 2e10;
    bool is_long = false;
    *blocks = 0;
    for (int i = -1; i < heartbeat->peer_count; i++) {
        const struct mmul_heartbeat_peer *peer = i < 0 ? heartbeat->own : &heartbeat->peers[i];
        if (peer->heard[RIGHT] > 0 ||
            (peer->heard[GARBLED] == 0 && rank_has_work(heartbeat->run, peer->rank)))
            return false;
        *blocks += peer->heard[GARBLED];
        is_long |= (double)peer->heard[PLAIN_FLOPS] > long_flops;
    }
    return is_long;
}

static void cancel_hopeless_run(struct mmul_heartbeat *heartbeat, int64_t blocks) {
    struct mmul_run *run = heartbeat->run;
    struct mmul_error err;
    if (is_cancelled(heartbeat) || heartbeat->has_cancelled)
        return;
    mmul_fail(&err, MMUL_ERR_WRONG,
              "all checked blocks are wrong, %lld on %d rank%s; recomputing them with plain "
              "loops was given up",
              (long long)blocks, run->rank_resources.context->comm->size,
              run->rank_resources.context->comm->size == 1 ? "" : "s");
    mmul_hint(&err, "suspect a shared cause: OpenBLAS's kernels for this processor "
                    "(OPENBLAS_CORETYPE=Haswell selects others), or memory");
    heartbeat->has_cancelled = true;
    mmul_failure_keep(&run->rank_resources.failure, &err);
}

// Root, with each of its beats: ends a hopeless run, and tells about plain loops every five
// seconds.
static void judge_checks(struct mmul_heartbeat *heartbeat, double now) {
    static const double told_seconds = 5;
    int64_t blocks;
    fill_message(heartbeat, BEAT, heartbeat->own->heard);
    if (is_hopeless(heartbeat, &blocks))
        cancel_hopeless_run(heartbeat, blocks);
    if (now - heartbeat->last_notice_at < told_seconds)
        return;
    for (int i = -1; i < heartbeat->peer_count; i++)
        report_plain_work(heartbeat, i < 0 ? heartbeat->own : &heartbeat->peers[i], now);
}

// ----------------------------------------------------------------------------------------- lending

// Sends a message of the lending protocol, which must not be lost.
static bool send_lending_message(const struct mmul_heartbeat *heartbeat,
                                 struct mmul_heartbeat_peer *peer, enum kind kind,
                                 const int64_t *words) {
    fill_message(heartbeat, kind, peer->send.values);
    memcpy(peer->send.values + LENDING, words, MMUL_NODE_STEAL_WORDS * sizeof *words);
    return send_prepared(heartbeat, peer);
}

// Root: receives from ranks that may request lines, up to 64 per call, and sends their replies.
static void serve_borrowers(struct mmul_heartbeat *heartbeat) {
    const int at_once = 64;
    for (int i = 0; i < at_once && i < heartbeat->peer_count; i++) {
        struct mmul_heartbeat_peer *peer =
            &heartbeat->peers[heartbeat->turn++ % (unsigned)heartbeat->peer_count];
        struct mmul_steal_request *want = &heartbeat->lending.wants[peer->rank];
        if (peer->asks)
            handle_messages(heartbeat, peer);
        if (want->is_answered && is_transfer_over(heartbeat, peer, &peer->send))
            want->is_answered = !send_lending_message(heartbeat, peer, GIVEN, want->words);
    }
}

// Root: asks a leader for lines on behalf of a waiting rank, or receives the leader's answer.
static void ask_lender(struct mmul_heartbeat *heartbeat) {
    struct mmul_node_steal *lending = &heartbeat->lending;
    int64_t question[MMUL_NODE_STEAL_WORDS], answer[MMUL_NODE_STEAL_WORDS];
    if (is_cancelled(heartbeat))
        mmul_node_steal_refuse_requests(lending);
    bool waits = lending->is_asked;
    int rank = waits ? lending->leader : mmul_node_steal_choose_victim(lending, question);
    if (rank < 0)
        return;
    if (rank == 0) {
        mmul_node_steal_answer_question(&heartbeat->run->rank_resources, heartbeat->run->stages,
                                        question, answer);
        mmul_node_steal_process_answer(lending, answer);
        return;
    }
    struct mmul_heartbeat_peer *peer = &heartbeat->peers[rank - 1];
    bool is_sent = is_transfer_over(heartbeat, peer, &peer->send);
    handle_messages(heartbeat, peer);
    if (waits || !is_sent)
        return;
    if (!peer->receive.active || peer->last == LEAVING || peer->last == BYE) {
        mmul_node_steal_exclude_victim(lending);
        return;
    }
    peer->counts = lending->is_asked = true;
    (void)send_lending_message(heartbeat, peer, QUESTION, question);
}

static void serve_lending_on_root(struct mmul_heartbeat *heartbeat) {
    int64_t words[MMUL_NODE_STEAL_WORDS];
    if (mmul_node_steal_take_request(&heartbeat->run->rank_resources, words))
        mmul_node_steal_add_request(&heartbeat->lending, 0, words);
    serve_borrowers(heartbeat);
    ask_lender(heartbeat);
}

// Non-root rank that may request lines, or leads a node that may be asked.
static void serve_lending_elsewhere(struct mmul_heartbeat *heartbeat) {
    struct mmul_rank_resources *rank_resources = &heartbeat->run->rank_resources;
    struct mmul_heartbeat_peer *peer = &heartbeat->peers[0];
    int64_t words[MMUL_NODE_STEAL_WORDS];
    handle_messages(heartbeat, peer);
    if (!peer->receive.active)
        mmul_node_steal_cancel_request(rank_resources);
    if (!is_transfer_over(heartbeat, peer, &peer->send))
        return;
    if (heartbeat->is_asked) {
        heartbeat->is_asked = false;
        mmul_node_steal_answer_question(rank_resources, heartbeat->run->stages, heartbeat->question,
                                        words);
        (void)send_lending_message(heartbeat, peer, ANSWER, words);
    } else if (mmul_node_steal_take_request(rank_resources, words)) {
        (void)send_lending_message(heartbeat, peer, ASK, words);
    }
}

static void serve_lending(struct mmul_heartbeat *heartbeat) {
    struct mmul_rank_resources *rank_resources = &heartbeat->run->rank_resources;
    if (rank_resources->steal_scope == MMUL_STEAL_NOTHING)
        return;
    mmul_steals_poll(rank_resources);
    if (is_root(heartbeat))
        serve_lending_on_root(heartbeat);
    else if (heartbeat->may_steal)
        serve_lending_elsewhere(heartbeat);
}

// ----------------------------------------------------------------------------------- the main loop

static void poll_peers(struct mmul_heartbeat *heartbeat) {
    double now = mmul_clock_now(), awake = now - heartbeat->looked_at;
    bool beats = now - heartbeat->sent_at >= heartbeat->interval;
    mmul_lost_ranks_poll();
    awake = awake < AWAKE_SECONDS ? awake : AWAKE_SECONDS;
    heartbeat->looked_at = now;
    const bool is_late = mmul_watchdog_is_late(&heartbeat->run->rank_resources.watchdog);
    heartbeat->late = is_late ? heartbeat->late + awake : 0;
    if (is_root(heartbeat) && heartbeat->late > 0)
        judge_stall(heartbeat, 0, find_own_stall(heartbeat));
    for (int i = 0; i < heartbeat->peer_count; i++)
        check_silence(heartbeat, &heartbeat->peers[i], awake);
    if (beats) {
        heartbeat->sent_at = now;
        heartbeat->mine = mmul_rank_status_read(&heartbeat->watch, false, now);
    }
    if (beats && is_root(heartbeat))
        judge_checks(heartbeat, now);
    if (!heartbeat->is_over)
        send_due_messages(heartbeat, beats);
}

void mmul_heartbeat_poll(struct mmul_heartbeat *heartbeat) {
    serve_lending(heartbeat);
    if (mmul_clock_now() - heartbeat->looked_at >= LOOK_SECONDS)
        poll_peers(heartbeat);
}

// Steps of the closing handshake, each done with all peers before the next one: root's first, then
// those of the others.
enum closing_step { HEAR_LEAVING, SAY_OVER, HEAR_BYE, SAY_LEAVING, HEAR_OVER, SAY_BYE, SENT };

// Returns true if a step is done with a peer. A peer that MPI can no longer reach counts as done.
static bool is_step_done(const struct mmul_heartbeat *heartbeat, struct mmul_heartbeat_peer *peer,
                         enum closing_step step) {
    switch (step) {
    case HEAR_LEAVING:
        return peer->last == LEAVING || peer->last == BYE || peer->receive.failed;
    case SAY_OVER:
        return send_message(heartbeat, peer, OVER);
    case HEAR_BYE:
        return (peer->last == BYE || peer->receive.failed) &&
               is_transfer_over(heartbeat, peer, &peer->send);
    case SAY_LEAVING:
        return send_message(heartbeat, peer, LEAVING);
    case HEAR_OVER:
        return heartbeat->is_over || peer->receive.failed;
    case SAY_BYE:
        return send_message(heartbeat, peer, BYE);
    default:
        return is_transfer_over(heartbeat, peer, &peer->send);
    }
}

void mmul_heartbeat_end(struct mmul_heartbeat *heartbeat) {
    const enum closing_step last = is_root(heartbeat) ? HEAR_BYE : SENT;
    heartbeat->mine = mmul_rank_status_read(&heartbeat->watch, true, mmul_clock_now());
    heartbeat->has_ended = true;
    for (enum closing_step step = is_root(heartbeat) ? HEAR_LEAVING : SAY_LEAVING; step <= last;
         step++) {
        if (step == SAY_OVER)
            heartbeat->is_over = true; // from here on OVER is the only message sent
        double nap = 20e-6;
        for (int i = 0; i < heartbeat->peer_count;) {
            if (is_step_done(heartbeat, &heartbeat->peers[i], step)) {
                i++;
                continue;
            }
            mmul_clock_sleep(nap);
            nap = nap < 1e-3 ? 1.5 * nap : nap;
            serve_lending(heartbeat);
            poll_peers(heartbeat);
        }
    }
}

enum mmul_status mmul_heartbeat_init(struct mmul_heartbeat *heartbeat, struct mmul_run *run,
                                     struct mmul_error *err) {
    const struct mmul_comm *comm = run->rank_resources.context->comm;
    const double now = mmul_clock_now(), crowd = comm->size / 500.0;
    int peers = comm->rank > 0 ? 1 : comm->size - 1;
    *heartbeat = (struct mmul_heartbeat){.run = run,
                                         .interval = crowd > BEAT_SECONDS ? crowd : BEAT_SECONDS,
                                         .looked_at = now,
                                         .sent_at = now};
    enum mmul_status status = MMUL_ALLOCATE(heartbeat->peers, peers + 1, "signs of life", err);
    if (status == MMUL_OK)
        status = mmul_rank_status_tracker_init(&heartbeat->watch, run, err);
    if (status == MMUL_OK) {
        heartbeat->own = &heartbeat->peers[peers];
        heartbeat->own->rank = comm->rank;
        status = mmul_node_steal_init(&heartbeat->lending, &run->rank_resources, run->stages, err);
    }
    heartbeat->may_steal =
        run->rank_resources.steal_scope != MMUL_STEAL_NOTHING &&
        (comm->node_rank == 0 || mmul_node_steal_may_request(&run->rank_resources, comm->rank));
    for (int i = 0; status == MMUL_OK && i < peers; i++) {
        struct mmul_heartbeat_peer *peer = &heartbeat->peers[i];
        peer->rank = comm->rank > 0 ? 0 : i + 1;
        peer->asks =
            comm->rank == 0 && mmul_node_steal_may_request(&run->rank_resources, peer->rank);
        peer->counts = comm->rank == 0 ? peer->asks : heartbeat->may_steal;
    }
    return status;
}

bool mmul_heartbeat_rank_status(struct mmul_heartbeat *heartbeat, int rank, double now,
                                struct mmul_rank_status *standing) {
    if (rank == 0) {
        *standing = heartbeat->has_ended ? heartbeat->mine
                                         : mmul_rank_status_read(&heartbeat->watch, false, now);
        return true;
    }
    const struct mmul_heartbeat_peer *peer = &heartbeat->peers[rank - 1];
    memcpy(standing, peer->heard + STANDING, sizeof *standing);
    return peer->has_spoken;
}

void mmul_heartbeat_begin(struct mmul_heartbeat *heartbeat) {
    const struct mmul_comm *comm = heartbeat->run->rank_resources.context->comm;
    heartbeat->peer_count = comm->rank > 0 ? 1 : comm->size - 1;
    for (int i = 0; i < heartbeat->peer_count; i++)
        post_receive(heartbeat, &heartbeat->peers[i]);
}

void mmul_heartbeat_fini(struct mmul_heartbeat *heartbeat) {
    mmul_node_steal_fini(&heartbeat->lending);
    mmul_rank_status_tracker_fini(&heartbeat->watch);
    mmul_free(heartbeat->peers);
    *heartbeat = (struct mmul_heartbeat){0};
}
