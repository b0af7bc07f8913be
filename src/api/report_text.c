// SPDX-License-Identifier: MIT
// The report for people, and as a log.
#include <math.h>
#include <string.h>

#include "api/texts.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "model/report.h"

// Returns the rate while computing.
static double rank_rate(const struct mmul_report_rank *rank) {
    return rank->compute_seconds > 0 ? rank->flops / rank->compute_seconds : 0;
}

static bool is_unstable(const struct mmul_report *report) {
    for (int i = 0; i < report->size; i++)
        if (report->ranks[i].speed_unstable)
            return true;
    return false;
}

// Formats the note about a rank for users: the reason for few or no rows, and the replacement of
// its device. Facts that `devices` shows, too, appear only with `verbose`. Returns `text`.
static const char *note_of(const struct mmul_report_rank *r, bool verbose, char text[static 224]) {
    const char *note = verbose || r->device_replacements > 0 ? r->note : "";
    snprintf(text, 224, "%s%s%s", r->why, r->why[0] && note[0] ? "; " : "", note);
    return text;
}

// Returns whole rows (or columns) that ranks [0, count) computed. Claims are parts of rows;
// rounding the running sum makes the printed numbers add up.
static int64_t units_of_first(const struct mmul_report *report, int count) {
    int64_t width = mmul_problem_result_width(&report->problem, report->axis), elements = 0;
    for (int i = 0; i < count; i++) {
        const struct mmul_report_rank *r = &report->ranks[i];
        elements += (r->end - r->begin) * width + r->elements_stolen - r->elements_stolen_from_it;
    }
    return (elements + width / 2) / width;
}

// Adds a rank's share of one product.
static void add_share(const struct mmul_report *report, int rank, struct mmul_text *table) {
    const struct mmul_report_rank *r = &report->ranks[rank];
    mmul_text_add(table, "\t%lld",
                  (long long)(units_of_first(report, rank + 1) - units_of_first(report, rank)));
    if (r->claims > 0)
        mmul_text_add(table, " (%.0f stolen)", ceil(mmul_report_units(report, r->elements_stolen)));
    mmul_text_add(table, "\t%.1f %%", 100 * r->share);
}

// Prints a row per rank. The columns from set-up to commit are seconds and add up to the wall time.
static void print_ranks(const struct mmul_report *report, bool verbose, FILE *stream) {
    const bool is_product = report->is_product;
    struct mmul_text table = {0};
    char note[224];
    bool any_note = false;
    for (int i = 0; i < report->size; i++)
        any_note |= note_of(&report->ranks[i], verbose, note)[0] != '\0';
    mmul_text_add(&table, "rank\thost\tdevice%s", verbose ? "\tthreads" : "");
    if (is_product)
        mmul_text_add(&table, "\t%s\tshare", report->axis == MMUL_ROWS ? "rows" : "cols");
    mmul_text_add(&table, "\tset-up\tscatter\tcompute%s\tcheck\tgather\tidle\tcommit%s%s\n",
                  is_product ? "" : "\tcopy", is_product ? "\tGFLOP/s" : "",
                  any_note ? "\tnote" : "");
    for (int i = 0; i < report->size; i++) {
        const struct mmul_report_rank *r = &report->ranks[i];
        mmul_text_add(&table, "%d\t%s\t%s", i, r->host, r->device);
        if (verbose)
            mmul_text_add(&table, "\t%d", r->threads);
        if (is_product)
            add_share(report, i, &table);
        mmul_text_add(&table, "\t%.3f\t%.3f\t%.3f", r->setup_seconds, r->scatter_seconds,
                      r->compute_seconds);
        if (!is_product)
            mmul_text_add(&table, "\t%.3f", r->copy_seconds);
        mmul_text_add(&table, "\t%.3f\t%.3f\t%.3f\t%.3f", r->verify_seconds, r->gather_seconds,
                      r->idle_seconds, r->commit_seconds);
        if (is_product)
            mmul_text_add(&table, "\t%.1f", rank_rate(r) * 1e-9);
        mmul_text_add(&table, any_note ? "\t%s\n" : "%s\n", note_of(r, verbose, note));
    }
    mmul_text_print_table(mmul_text_get(&table), stream);
    mmul_text_fini(&table);
}

// Prints the seconds before the wall time.
static void print_startup(const struct mmul_startup *s, FILE *stream) {
    fprintf(stream,
            "before that %.3f s: launch %.3f, discovery %.3f, files %.3f, planning %.3f, measuring "
            "%.3f, warm-up %.3f\n",
            mmul_startup_seconds(s), s->launch_seconds, s->discover_seconds, s->files_seconds,
            s->plan_seconds, s->measure_seconds, s->warm_up_seconds);
}

static void print_fallbacks(const struct mmul_report *report, FILE *stream) {
    if (report->fallback_products > 0)
        fprintf(stream, "; %lld product%s computed by a replacement device",
                (long long)report->fallback_products, mmul_text_plural(report->fallback_products));
}

static void print_check(const struct mmul_report *report, FILE *stream) {
    if (report->verified)
        fprintf(stream, "result verified (Freivalds), %lld block%s recomputed",
                (long long)report->blocks_recomputed, mmul_text_plural(report->blocks_recomputed));
    else
        fputs("result not verified", stream);
    print_fallbacks(report, stream);
    fputc('\n', stream);
}

static void print_totals(const struct mmul_report *report, FILE *stream) {
    char bytes[3][32];
    double eff = mmul_report_efficiency(report);
    fprintf(stream, "wall %.3f s", report->wall_seconds);
    if (report->size > 1)
        fprintf(stream, " (rank %d ended last)", report->last_rank);
    fprintf(stream, "  %.1f GFLOP/s", mmul_report_rate(report) * 1e-9);
    if (eff > 0 && is_unstable(report))
        fputs("  (the devices' speeds were measured, but unstable)", stream);
    else if (eff > 1)
        fputs("  (more than the devices' measured speed)", stream);
    else if (eff > 0)
        fprintf(stream, "  %.0f %% of the devices' measured speed", 100 * eff);
    if (report->predicted_seconds > 0)
        fprintf(stream, "  (predicted %.3f s)", report->predicted_seconds);
    fputc('\n', stream);
    print_startup(&report->startup, stream);
    fprintf(stream, "read %s  written %s  over the network %s\n",
            mmul_bytes_format(report->bytes_read, bytes[0]),
            mmul_bytes_format(report->bytes_written, bytes[1]),
            mmul_bytes_format(report->network_bytes, bytes[2]));
    if (report->speed_hint[0] != '\0')
        fprintf(stream, "%s\n", report->speed_hint);
    print_check(report, stream);
}

// Prints the kernels of CPU ranks, with one line for consecutive ranks that have the same.
static void print_kernels(const struct mmul_report *report, FILE *stream) {
    for (int i = 0, first = 0; i < report->size; first = ++i) {
        const struct mmul_report_rank *r = &report->ranks[i];
        while (i + 1 < report->size && strcmp(report->ranks[i + 1].kernels, r->kernels) == 0 &&
               strcmp(report->ranks[i + 1].kernels_setting, r->kernels_setting) == 0)
            i++;
        if (r->kernels[0] == '\0')
            continue;
        fprintf(stream, "kernels of rank %d", first);
        if (i > first)
            fprintf(stream, " to %d", i);
        fprintf(stream, ": %s", r->kernels);
        if (r->kernels_setting[0] != '\0')
            fprintf(stream, " (%s is set)", r->kernels_setting);
        if (r->kernels_unused_vectors[0] != '\0')
            fprintf(stream, ", without the processor's %s", r->kernels_unused_vectors);
        fputc('\n', stream);
    }
}

static void print_joules(double joules, FILE *stream) {
    fprintf(stream, joules < 1000 ? "%.3f J" : "%.0f J", joules);
}

// Prints the energy in one line if any rank measured it.
static void print_energy(const struct mmul_report *report, FILE *stream) {
    int measured = 0;
    double joules = 0;
    for (int i = 0; i < report->size; i++) {
        measured += report->ranks[i].joules_source[0] != '\0';
        joules += mmul_report_owns_joules(report, i) ? report->ranks[i].joules : 0;
    }
    if (measured == 0)
        return;
    fputs("energy ", stream);
    print_joules(joules, stream);
    if (measured < report->size)
        fprintf(stream, ", of %d of %d ranks: the others are not measured", measured, report->size);
    fputc('\n', stream);
}

// Prints a line for each rank that reports energy, and for each without a measurement.
static void print_energy_of_ranks(const struct mmul_report *report, FILE *stream) {
    for (int i = 0; i < report->size; i++) {
        const struct mmul_report_rank *r = &report->ranks[i];
        const char *comma = "";
        if (r->joules_source[0] == '\0') {
            fprintf(stream, "energy of rank %d (%s): not measured\n", i, r->device);
            continue;
        }
        if (r->joules_rank != i)
            continue;
        fprintf(stream, "energy of %s of %s, of rank ", r->joules_source, r->host);
        for (int j = 0; j < report->size; j++)
            if (report->ranks[j].joules_source[0] != '\0' && report->ranks[j].joules_rank == i) {
                fprintf(stream, "%s%d", comma, j);
                comma = ", ";
            }
        fputs(": ", stream);
        print_joules(r->joules, stream);
        fputc('\n', stream);
    }
}

static void print_details(const struct mmul_report *report, FILE *stream) {
    char bytes[2][32];
    fprintf(stream, "used in place %s  shared memory %s\n",
            mmul_bytes_format(report->mapped_bytes, bytes[0]),
            mmul_bytes_format(report->segment_bytes, bytes[1]));
    if (report->verified)
        fprintf(stream, "check: %lld lines checked, %lld wrong, %lld recomputed, seed %llu\n",
                (long long)report->lines_checked, (long long)report->lines_wrong,
                (long long)report->lines_recomputed, (unsigned long long)report->verify_seed);
    for (int i = 0; i < report->size; i++)
        if (report->ranks[i].warm_up_seconds >= 0.001)
            fprintf(stream, "warm-up of rank %d (%s): %.3f s\n", i, report->ranks[i].device,
                    report->ranks[i].warm_up_seconds);
    print_kernels(report, stream);
    print_energy_of_ranks(report, stream);
    fputs(mmul_text_get(&report->unused), stream);
}

// Prints the time and the check's verdict for several operations, in one line.
static void print_outcome(const struct mmul_report *report, FILE *stream) {
    fprintf(stream, "wall %.3f s  ", report->wall_seconds);
    if (report->flops > 0 && report->wall_seconds > 0)
        fprintf(stream, "%.1f GFLOP/s  ", mmul_report_rate(report) * 1e-9);
    fprintf(stream, "(%d step%s; before that %.3f s)  ", report->step_count,
            mmul_text_plural(report->step_count), mmul_startup_seconds(&report->startup));
    if (!report->verified)
        fputs("results not checked", stream);
    else if (report->lines_checked == 0)
        fputs("no operation needed a check", stream);
    else
        fprintf(stream, "results checked, %lld block%s recomputed",
                (long long)report->blocks_recomputed, mmul_text_plural(report->blocks_recomputed));
    print_fallbacks(report, stream);
    fputc('\n', stream);
}

void mmul_report_print(const struct mmul_report *report, bool verbose, FILE *stream) {
    if (report->ranks == NULL)
        return;
    if (report->is_product || verbose)
        print_ranks(report, verbose, stream);
    if (report->is_product)
        print_totals(report, stream);
    else
        print_outcome(report, stream);
    print_energy(report, stream);
    if (verbose)
        print_details(report, stream);
}

// --------------------------------------------------------------------------------------------- log

enum mmul_status mmul_report_store_log(const struct mmul_report *report, const char *path,
                                       struct mmul_error *err) {
    enum { PHASES = 3 };
    struct mmul_text text = {0};
    if (report->operations == NULL)
        return mmul_fail(err, MMUL_ERR_USAGE, "the run was not recorded");
    mmul_text_add(&text, "begin\tend\tseconds\trank\tphase\toperation\tvalue\tshape\tplacement\t"
                         "part_bytes\tnetwork_bytes\n");
    for (int i = 0; i < report->operation_count; i++) {
        const struct mmul_report_operation *o = &report->operations[i];
        const char *const names[PHASES] = {"wait", o->is_move ? "copy" : "compute", "check"};
        for (int line = 0; line < report->size * PHASES; line++) {
            const int rank = line / PHASES, phase = line % PHASES;
            const struct mmul_report_part *p = &mmul_report_parts(report, rank)[i];
            const double seconds[PHASES] = {p->wait_seconds, p->work_seconds, p->check_seconds};
            if (phase != 1 && seconds[phase] < 5e-7)
                continue; // phase did not occur
            mmul_text_add(&text, "%.6f\t%.6f\t%.6f\t%d\t%s\t%s\t%s\t%s\t%s\t%lld\t%lld\n", p->begin,
                          p->end, seconds[phase], rank, names[phase], o->name, o->value, o->shape,
                          o->placement, (long long)p->result_bytes, (long long)o->network_bytes);
        }
    }
    enum mmul_status status = text.failed
                                  ? mmul_fail(err, MMUL_ERR_SYSTEM, "cannot allocate the log")
                                  : mmul_text_store(path, mmul_text_get(&text), err);
    mmul_text_fini(&text);
    return status;
}
