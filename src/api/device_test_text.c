// SPDX-License-Identifier: MIT
// Results of device tests as tables and JSON.
#include <string.h>

#include "api/texts.h"
#include "base/text.h"
#include "model/rates.h"

static const char *host_of(const struct mmul_cluster *cluster,
                           const struct mmul_device_test *test) {
    return cluster->ranks[test->rank].host;
}

// ------------------------------------------------------------------------------------------- table

// Formats a rate in billions per second, "-" if not measured.
static void add_rate(struct mmul_text *table, int digits, double rate) {
    if (rate > 0)
        mmul_text_add(table, "%.*f\t", digits, rate * 1e-9);
    else
        mmul_text_add(table, "-\t");
}

static void add_row(struct mmul_text *table, const struct mmul_cluster *cluster,
                    const struct mmul_device_test *t) {
    mmul_text_add(table, "%d\t%s\t%s\t%s\t", t->rank, host_of(cluster, t), t->device,
                  t->passed ? "passed" : "FAILED");
    for (int i = 0; i < MMUL_TESTED_SIZES; i++)
        add_rate(table, 1, t->flops[i]);
    add_rate(table, 2, t->upload_bytes_per_second);
    add_rate(table, 2, t->download_bytes_per_second);
    mmul_text_add(table, "%.24s\n", t->info.name);
}

// "unstable: rank 1 on gpu07, 0:0 at 4096 transfers"
static void print_unstable(const struct mmul_cluster *cluster, const struct mmul_device_test *t,
                           FILE *stream) {
    if (t->unstable == 0)
        return;
    fprintf(stream, "unstable: rank %d on %s, %s at", t->rank, host_of(cluster, t), t->device);
    for (int i = 0; i < MMUL_TESTED_SIZES; i++)
        if ((t->unstable & 1U << i) != 0)
            fprintf(stream, " %d", MMUL_TESTED_SMALLEST << i);
    fputs((t->unstable & MMUL_UNSTABLE_TRANSFERS) != 0 ? " transfers\n" : "\n", stream);
}

static void print_without_double(const struct mmul_cluster *cluster,
                                 const struct mmul_device_test *tests, int count, FILE *stream) {
    for (int i = 0; i < count; i++)
        if (tests[i].passed && !tests[i].has_double)
            fprintf(stream, "tested in float32 only (no float64): rank %d on %s, %s\n",
                    tests[i].rank, host_of(cluster, &tests[i]), tests[i].device);
}

static void print_kernels(const struct mmul_cluster *cluster, const struct mmul_device_test *t,
                          FILE *stream) {
    char text[320], fix[160];
    if (!mmul_kernels_need_measurement(&t->kernels))
        return;
    mmul_kernels_describe(&t->kernels, text);
    const char *colon = strstr(text, ": "); // keeps to 120 columns
    const int first = colon != NULL ? (int)(colon - text) + 1 : (int)strlen(text);
    fprintf(stream, "rank %d on %s: %.*s\n", t->rank, host_of(cluster, t), first, text);
    if (colon != NULL)
        fprintf(stream, "  %s\n", colon + 2);
    if (mmul_kernels_are_slower(&t->kernels))
        fprintf(stream, "  fix: %s\n", mmul_kernels_fix_command(&t->kernels, fix));
}

void mmul_device_tests_print(const struct mmul_cluster *cluster,
                             const struct mmul_device_test *tests, int count, FILE *stream) {
    struct mmul_text table = {0};
    bool is_short = false;
    mmul_text_add(&table, "rank\thost\tdevice\ttest\tGFLOP/s %d\t", MMUL_TESTED_SMALLEST);
    for (int i = 1; i < MMUL_TESTED_SIZES; i++)
        mmul_text_add(&table, "%d\t", MMUL_TESTED_SMALLEST << i);
    mmul_text_add(&table, "up GB/s\tdown GB/s\tname\n");
    for (int i = 0; i < count; i++) {
        add_row(&table, cluster, &tests[i]);
        is_short = is_short || (tests[i].passed && !(tests[i].flops[MMUL_TESTED_SIZES - 1] > 0));
    }
    mmul_text_print_table(mmul_text_get(&table), stream);
    mmul_text_fini(&table);
    if (is_short)
        fputs("sizes marked - would take more than 1 s for a product, or do not fit\n", stream);
    for (int i = 0; i < count; i++)
        print_unstable(cluster, &tests[i], stream);
    print_without_double(cluster, tests, count, stream);
    for (int i = 0; i < count; i++)
        print_kernels(cluster, &tests[i], stream);
    for (int i = 0; i < count; i++)
        if (!tests[i].passed)
            fprintf(stream, "rank %d on %s, %s (%s) failed: %s\n", tests[i].rank,
                    host_of(cluster, &tests[i]), tests[i].device, tests[i].info.name,
                    tests[i].failure);
    for (int node = 0; node < cluster->node_count; node++)
        if (cluster->nodes[node].profile[0] != '\0')
            fprintf(stream, "stored on %s: %s\n", cluster->nodes[node].host,
                    cluster->nodes[node].profile);
}

// -------------------------------------------------------------------------------------------- JSON

static json_t *kernels_json(const struct mmul_kernel_comparison *c) {
    if (c->kernels[0] == '\0')
        return json_null();
    return json_pack("{s:o, s:o, s:s, s:s, s:o, s:o, s:o, s:o, s:b}", "kernels",
                     mmul_json_from_text(c->kernels), "setting", mmul_json_from_text(c->setting),
                     "vectors", c->vectors, "cpu_vectors", c->cpu_vectors, "flops_per_second",
                     mmul_rate_json(c->flops), "other", mmul_json_from_text(c->other),
                     "other_setting", mmul_json_from_text(c->other_setting),
                     "other_flops_per_second", mmul_rate_json(c->other_flops), "loses",
                     mmul_kernels_are_slower(c));
}

static json_t *test_json(const struct mmul_cluster *cluster, const struct mmul_device_test *t) {
    return json_pack(
        "{s:i, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:b, s:s}",
        "rank", t->rank, "host", host_of(cluster, t), "device", mmul_json_from_text(t->device),
        "name", mmul_json_from_text(t->info.name), "vendor", mmul_json_from_text(t->info.vendor),
        "platform", mmul_json_from_text(t->info.platform), "driver",
        mmul_json_from_text(t->info.driver), "kernels", kernels_json(&t->kernels), "pci",
        t->info.pci, "passed", t->passed, "failure", mmul_json_from_text(t->failure), "float64",
        t->passed ? json_boolean(t->has_double) : json_null(), "gemm",
        mmul_rates_json(t->flops, MMUL_TESTED_SIZES, MMUL_TESTED_SMALLEST, t->unstable),
        "upload_bytes_per_second", mmul_rate_json(t->upload_bytes_per_second),
        "download_bytes_per_second", mmul_rate_json(t->download_bytes_per_second),
        "transfers_unstable", (t->unstable & MMUL_UNSTABLE_TRANSFERS) != 0, "tested_at", t->date);
}

enum mmul_status mmul_device_tests_json(const struct mmul_cluster *cluster,
                                        const struct mmul_device_test *tests, int count,
                                        char **text, struct mmul_error *err) {
    json_t *list = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(list, test_json(cluster, &tests[i]));
    json_t *root = json_pack("{s:s, s:i, s:s, s:o}", "schema", "mpimatmul-device-tests",
                             "schema_version", 1, "version", MMUL_VERSION, "devices", list);
    enum mmul_status status = mmul_json_format(root, text, err);
    json_decref(root);
    return status;
}
