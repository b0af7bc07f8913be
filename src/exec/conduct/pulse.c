// SPDX-License-Identifier: MIT
// Small messages on the run's communicator, with tags of their own; one each way is under way at a
// time, so that nothing piles up at a rank that is stopped. Silence is counted in the time that the
// listener itself was awake: a job that was stopped as a whole accuses nobody.
//
//     rank:  BEAT BEAT ... LEAVING BEAT ... BYE      root:  BEAT ... CANCEL? ... OVER
//                           (OVER has come)^                     (all are LEAVING)^
//
// Root's QUESTION to a leader is followed by an ANSWER, before BYE at the latest: root is not done as long as it
// may ask. What is awaited so is tested all the time, and is a transfer of the run: its failure is one, as is
// that of any words of a leader that may be asked.
#include "exec/conduct/pulse.h"

#include <stdarg.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/status.h"

static const double LOOK_SECONDS = 0.05, AWAKE_SECONDS = 0.5, SILENT_SECONDS = 10;

enum { TAG_TO_ROOT = 9001, TAG_FROM_ROOT = 9002 };
enum kind { BEAT, LEAVING, BYE, CANCEL, OVER, QUESTION, ANSWER };
enum { KIND, CANCELLED, RIGHT, GARBLED, PLAIN_DONE, PLAIN_LINES, PLAIN_FLOPS };
enum { LENDING = 2 }; // where the words of a question and an answer begin

_Static_assert((int)LENDING + (int)MMUL_LENDING_WORDS <= (int)MMUL_WORDS, "they fit");

struct mmul_pulse_peer {
    struct mmul_words receive, send;
    int64_t heard[MMUL_WORDS]; // the last that came
    int rank;
    enum kind last;       // LEAVING and BYE stay
    double silent, named; // seconds: since the last words, and when it was named; 0: it was not
    bool was_cancelled;   // it has been told that the run is
    bool counts;          // a question or an answer is on the way, or may be
};

static bool is_root(const struct mmul_pulse *pulse) {
    return pulse->run->site.context->comm->rank == 0;
}

static bool is_cancelled(const struct mmul_pulse *pulse) {
    return mmul_failure_is_void(&pulse->run->site.failure);
}

// A failure of these messages is not one of the run: what is not heard is silence, unless it counts.
static struct mmul_channel channel_of(const struct mmul_pulse *pulse,
                                      const struct mmul_pulse_peer *peer) {
    struct mmul_channel channel = pulse->run->site.transport.talk;
    channel.failure = peer->counts ? channel.failure : NULL;
    channel.alarm = peer->counts ? channel.alarm : NULL;
    return channel;
}

static void listen(const struct mmul_pulse *pulse, struct mmul_pulse_peer *peer) {
    const struct mmul_channel channel = channel_of(pulse, peer);
    mmul_words_receive(&channel, peer->rank, is_root(pulse) ? TAG_TO_ROOT : TAG_FROM_ROOT,
                       &peer->receive);
}

static bool is_done(const struct mmul_pulse *pulse, const struct mmul_pulse_peer *peer,
                    struct mmul_words *words) {
    const struct mmul_channel channel = channel_of(pulse, peer);
    return mmul_words_is_over(&channel, words);
}

static void fill_words(const struct mmul_pulse *pulse, enum kind kind, int64_t *words) {
    const struct mmul_run *run = pulse->run;
    words[KIND] = kind;
    words[CANCELLED] = is_cancelled(pulse);
    words[RIGHT] = atomic_load(&run->site.findings.blocks_right);
    words[GARBLED] = atomic_load(&run->site.findings.blocks_garbled);
    words[PLAIN_DONE] = atomic_load(&run->site.findings.plain_done);
    words[PLAIN_LINES] = atomic_load(&run->site.findings.plain_lines);
    words[PLAIN_FLOPS] = atomic_load(&run->site.findings.plain_flops);
}

// Sends what has been filled in. False: it cannot be: to be tried again.
static bool send(const struct mmul_pulse *pulse, struct mmul_pulse_peer *peer) {
    const struct mmul_channel channel = channel_of(pulse, peer);
    mmul_words_send(&channel, peer->rank, is_root(pulse) ? TAG_FROM_ROOT : TAG_TO_ROOT,
                    &peer->send);
    return !peer->send.failed;
}

// False: the last words have not left yet, or these cannot: to be tried again.
static bool say(const struct mmul_pulse *pulse, struct mmul_pulse_peer *peer, enum kind kind) {
    if (!is_done(pulse, peer, &peer->send))
        return false;
    fill_words(pulse, kind, peer->send.values);
    return send(pulse, peer);
}

static void notice(const struct mmul_pulse *pulse, const struct mmul_pulse_peer *peer,
                   const char *format, ...) __attribute__((format(printf, 3, 4)));
static void notice(const struct mmul_pulse *pulse, const struct mmul_pulse_peer *peer,
                   const char *format, ...) {
    const struct mmul_job_calls *calls = pulse->run->calls;
    char text[256];
    va_list arguments;
    if (calls->notice == NULL)
        return;
    int length = snprintf(text, sizeof text, "rank %d on %.64s ", peer->rank,
                          pulse->run->site.context->cluster->ranks[peer->rank].host);
    va_start(arguments, format);
    vsnprintf(text + length, sizeof text - (size_t)length, format, arguments);
    va_end(arguments);
    calls->notice(calls->context, text);
}

// The words of lending in what has come.
static void hear_lending(struct mmul_pulse *pulse, struct mmul_pulse_peer *peer, enum kind kind) {
    const int64_t *words = peer->receive.values + LENDING;
    if (kind == QUESTION) {
        pulse->is_asked = true;
        memcpy(pulse->question, words, sizeof pulse->question);
    } else {
        peer->counts = false;
        mmul_lending_end(&pulse->lending, words);
    }
}

static void hear(struct mmul_pulse *pulse, struct mmul_pulse_peer *peer) {
    enum kind kind = (enum kind)peer->receive.values[KIND];
    bool lends = kind == QUESTION || kind == ANSWER;
    if (lends)
        hear_lending(pulse, peer, kind);
    memcpy(peer->heard, peer->receive.values, (lends ? LENDING : MMUL_WORDS) * sizeof *peer->heard);
    if (peer->named > 0)
        notice(pulse, peer, "moves again, after %.0f s", peer->silent);
    peer->silent = peer->named = 0;
    if (kind == LEAVING || kind == BYE)
        peer->last = kind;
    if (peer->heard[CANCELLED] != 0 || kind == CANCEL)
        mmul_failure_void(&pulse->run->site.failure);
    pulse->has_cancelled |= peer->heard[CANCELLED] != 0;
    pulse->is_over |= kind == OVER;
    if (kind != BYE && kind != OVER)
        listen(pulse, peer);
}

static void hear_all(struct mmul_pulse *pulse, struct mmul_pulse_peer *peer) {
    while (peer->receive.active && is_done(pulse, peer, &peer->receive) && !peer->receive.failed)
        hear(pulse, peer);
}

static void wait_for_words(struct mmul_pulse *pulse, struct mmul_pulse_peer *peer, double awake) {
    bool listens = peer->receive.active;
    hear_all(pulse, peer);
    // Root only has words for rank 1 while it waits.
    if (!listens || (!is_root(pulse) && pulse->run->site.context->comm->rank != 1))
        return;
    peer->silent += awake;
    double limit = peer->named > 0 ? 2 * peer->named : SILENT_SECONDS + pulse->interval - 1;
    if (peer->silent < limit)
        return;
    peer->named = limit;
    notice(pulse, peer, "has not moved for %.0f s", limit);
}

// What is due besides answers.
static void speak(struct mmul_pulse *pulse, bool beats) {
    pulse->has_cancelled |= is_cancelled(pulse);
    for (int i = 0; i < pulse->peer_count; i++) {
        struct mmul_pulse_peer *peer = &pulse->peers[i];
        if (pulse->has_cancelled && !peer->was_cancelled)
            peer->was_cancelled = say(pulse, peer, is_root(pulse) ? CANCEL : BEAT);
        else if (beats && (!is_root(pulse) || peer->rank == 1))
            say(pulse, peer, BEAT);
    }
}

// Root, of a rank that has spoken: plain loops are slow, and whoever waits for them should know. The
// words may be of several moments: what is read from them is told, never computed with.
static void tell_plain_work(struct mmul_pulse *pulse, const struct mmul_pulse_peer *peer,
                            double now) {
    static const double short_flops = 2e9;
    const int64_t *words = peer->heard;
    if ((double)words[PLAIN_FLOPS] <= short_flops || words[PLAIN_LINES] <= 0)
        return;
    pulse->told_at = now;
    notice(pulse, peer,
           "computes by plain loops, because the check found its device wrong: %.0f %% "
           "of %lld lines",
           100.0 * (double)words[PLAIN_DONE] / (double)words[PLAIN_LINES],
           (long long)words[PLAIN_LINES]);
}

static bool has_work(const struct mmul_run *run, int rank) {
    bool any = false;
    for (int i = 0; !any && i < run->stage_count; i++)
        any = mmul_stage_has_work(&run->stages[i], rank);
    return any;
}

// Root: has every rank that works found nothing but garbled blocks, and is it long to repair them?
// A device that errs is replaced, but all of them do not err alike.
static bool is_hopeless(const struct mmul_pulse *pulse, int64_t *blocks) {
    static const double long_flops = 2e10;
    bool is_long = false;
    *blocks = 0;
    for (int i = -1; i < pulse->peer_count; i++) {
        const struct mmul_pulse_peer *peer = i < 0 ? pulse->own : &pulse->peers[i];
        if (peer->heard[RIGHT] > 0 ||
            (peer->heard[GARBLED] == 0 && has_work(pulse->run, peer->rank)))
            return false;
        *blocks += peer->heard[GARBLED];
        is_long |= (double)peer->heard[PLAIN_FLOPS] > long_flops;
    }
    return is_long;
}

static void end_hopeless(struct mmul_pulse *pulse, int64_t blocks) {
    struct mmul_run *run = pulse->run;
    struct mmul_error err;
    if (is_cancelled(pulse) || pulse->has_cancelled)
        return;
    mmul_fail(
        &err, MMUL_ERR_WRONG,
        "all blocks that were checked are wrong, %lld on %d rank%s; computing them again by plain "
        "loops was given up",
        (long long)blocks, run->site.context->comm->size,
        run->site.context->comm->size == 1 ? "" : "s");
    mmul_hint(&err, "suspect what they share: OpenBLAS's kernels for this processor "
                    "(OPENBLAS_CORETYPE=Haswell takes others), or memory");
    pulse->has_cancelled = true;
    mmul_failure_keep(&run->site.failure, &err);
}

// Root, each second.
static void judge(struct mmul_pulse *pulse, double now) {
    static const double told_seconds = 5;
    int64_t blocks;
    fill_words(pulse, BEAT, pulse->own->heard);
    if (is_hopeless(pulse, &blocks))
        end_hopeless(pulse, blocks);
    if (now - pulse->told_at < told_seconds)
        return;
    for (int i = -1; i < pulse->peer_count; i++)
        tell_plain_work(pulse, i < 0 ? pulse->own : &pulse->peers[i], now);
}

// ----------------------------------------------------------------------------------------- lending

// Root: asks for somebody who wants lines, hears what is said.
static void ask(struct mmul_pulse *pulse) {
    struct mmul_lending *lending = &pulse->lending;
    int64_t question[MMUL_LENDING_WORDS];
    bool waits = lending->is_asked;
    int rank = waits ? lending->leader : mmul_lending_find(lending, question);
    if (rank < 0)
        return;
    struct mmul_pulse_peer *peer = &pulse->peers[rank - 1];
    bool is_sent = is_done(pulse, peer, &peer->send);
    hear_all(pulse, peer);
    if (waits || !is_sent)
        return;
    if (!peer->receive.active || peer->last == LEAVING || peer->last == BYE) {
        mmul_lending_leave(lending);
        return;
    }
    fill_words(pulse, QUESTION, peer->send.values);
    memcpy(peer->send.values + LENDING, question, sizeof question);
    peer->counts = lending->is_asked = true;
    (void)send(pulse, peer);
}

// The leader of another node.
static void answer(struct mmul_pulse *pulse) {
    struct mmul_pulse_peer *peer = &pulse->peers[0];
    hear_all(pulse, peer);
    if (!is_done(pulse, peer, &peer->send) || !pulse->is_asked)
        return;
    pulse->is_asked = false;
    fill_words(pulse, ANSWER, peer->send.values);
    mmul_lending_answer(&pulse->run->site, pulse->question, peer->send.values + LENDING);
    (void)send(pulse, peer);
}

static void lend(struct mmul_pulse *pulse) {
    if (pulse->lending.stage != NULL)
        ask(pulse);
    else if (pulse->answers)
        answer(pulse);
}

// ---------------------------------------------------------------------------------- all the time

static void look(struct mmul_pulse *pulse) {
    double now = mmul_clock_now(), awake = now - pulse->looked_at;
    bool beats = now - pulse->sent_at >= pulse->interval;
    awake = awake < AWAKE_SECONDS ? awake : AWAKE_SECONDS;
    pulse->looked_at = now;
    for (int i = 0; i < pulse->peer_count; i++)
        wait_for_words(pulse, &pulse->peers[i], awake);
    if (beats)
        pulse->sent_at = now;
    if (beats && is_root(pulse))
        judge(pulse, now);
    if (!pulse->is_over)
        speak(pulse, beats);
}

void mmul_pulse_attend(struct mmul_pulse *pulse) {
    lend(pulse);
    if (mmul_clock_now() - pulse->looked_at >= LOOK_SECONDS)
        look(pulse);
}

// Looks, in naps, until `condition` holds of every peer. Who cannot be heard any more, because MPI has
// failed, is not waited for.
static void look_until(struct mmul_pulse *pulse,
                       bool (*condition)(struct mmul_pulse *, struct mmul_pulse_peer *)) {
    double nap = 20e-6;
    for (int i = 0; i < pulse->peer_count;) {
        if (condition(pulse, &pulse->peers[i])) {
            i++;
            continue;
        }
        mmul_clock_nap(nap);
        nap = nap < 1e-3 ? 1.5 * nap : nap;
        lend(pulse);
        look(pulse);
    }
}

static bool has_left(struct mmul_pulse *pulse, struct mmul_pulse_peer *peer) {
    (void)pulse;
    return peer->last == LEAVING || peer->last == BYE || peer->receive.failed;
}

static bool is_told_over(struct mmul_pulse *pulse, struct mmul_pulse_peer *peer) {
    return say(pulse, peer, OVER);
}

static bool has_gone(struct mmul_pulse *pulse, struct mmul_pulse_peer *peer) {
    return (peer->last == BYE || peer->receive.failed) && is_done(pulse, peer, &peer->send);
}

static bool has_said_leaving(struct mmul_pulse *pulse, struct mmul_pulse_peer *peer) {
    return say(pulse, peer, LEAVING);
}

static bool has_heard_over(struct mmul_pulse *pulse, struct mmul_pulse_peer *peer) {
    return pulse->is_over || peer->receive.failed;
}

static bool has_said_bye(struct mmul_pulse *pulse, struct mmul_pulse_peer *peer) {
    return say(pulse, peer, BYE);
}

static bool is_sent(struct mmul_pulse *pulse, struct mmul_pulse_peer *peer) {
    return is_done(pulse, peer, &peer->send);
}

void mmul_pulse_end(struct mmul_pulse *pulse) {
    if (is_root(pulse)) {
        look_until(pulse, has_left);
        pulse->is_over = true; // nothing but that is said from here on
        look_until(pulse, is_told_over);
        look_until(pulse, has_gone);
    } else {
        look_until(pulse, has_said_leaving);
        look_until(pulse, has_heard_over);
        look_until(pulse, has_said_bye);
        look_until(pulse, is_sent);
    }
}

enum mmul_status mmul_pulse_init(struct mmul_pulse *pulse, struct mmul_run *run,
                                 struct mmul_error *err) {
    const struct mmul_comm *comm = run->site.context->comm;
    double now = mmul_clock_now(), crowd = comm->size / 500.0;
    int peers = comm->rank > 0 ? 1 : comm->size - 1;
    *pulse = (struct mmul_pulse){
        .run = run, .interval = crowd > 1 ? crowd : 1, .looked_at = now, .sent_at = now};
    enum mmul_status status = MMUL_ALLOCATE(pulse->peers, peers + 1, "signs of life", err);
    if (status == MMUL_OK) {
        pulse->own = &pulse->peers[peers];
        pulse->own->rank = comm->rank;
    }
    if (status == MMUL_OK)
        status = mmul_lending_init(&pulse->lending, &run->site, err);
    pulse->answers = comm->node_index > 0 && comm->node_rank == 0 && run->site.lent != NULL;
    for (int i = 0; status == MMUL_OK && i < peers; i++) {
        pulse->peers[i].rank = comm->rank > 0 ? 0 : i + 1;
        pulse->peers[i].counts = pulse->answers;
    }
    return status;
}

void mmul_pulse_begin(struct mmul_pulse *pulse) {
    const struct mmul_comm *comm = pulse->run->site.context->comm;
    pulse->peer_count = comm->rank > 0 ? 1 : comm->size - 1;
    for (int i = 0; i < pulse->peer_count; i++)
        listen(pulse, &pulse->peers[i]);
}

void mmul_pulse_fini(struct mmul_pulse *pulse) {
    mmul_lending_fini(&pulse->lending);
    mmul_free(pulse->peers);
    *pulse = (struct mmul_pulse){0};
}
