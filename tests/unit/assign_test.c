// SPDX-License-Identifier: MIT
// Assignment of devices and cores to ranks, for machines defined by hand.
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "exec/setup/assign.h"

enum { RANKS_MAX = 8, DEVICES_MAX = 4 };

static struct mmul_device_info make_device(const char *id, const char *name, const char *pci,
                                           enum mmul_device_type type) {
    struct mmul_device_info info = {
        .type = type, .probed = true, .usable = type == MMUL_DEVICE_GPU};
    strcpy(info.id, id);
    strcpy(info.name, name);
    strcpy(info.pci, pci);
    return info;
}

static struct mmul_topology make_machine(int cores) {
    struct mmul_topology topology = {.host = "box", .packages = 1, .numa_nodes = 1, .cores = cores};
    for (int unit = 0; unit < cores; unit++) {
        mmul_cpuset_add(&topology.own, unit);
        mmul_cpuset_add(&topology.allowed, unit);
        mmul_cpuset_add(&topology.core_first_units, unit);
    }
    return topology;
}

// Two GPUs (the second one first in PCI order) and PoCL.
static int make_gpu_box(struct mmul_device_info *devices) {
    devices[0] = make_device("0:0", "Radeon VII", "0000:65:00.0", MMUL_DEVICE_GPU);
    devices[1] = make_device("0:1", "GeForce GTX 1080", "0000:17:00.0", MMUL_DEVICE_GPU);
    devices[2] = make_device("1:0", "pthread-EPYC", "", MMUL_DEVICE_CPU);
    strcpy(devices[2].reason, "PoCL: OpenBLAS is faster on a CPU; used only when named");
    return 3;
}

struct device_case {
    const char *wishes[RANKS_MAX];
    const char *devices[RANKS_MAX]; // expected; NULL: the whole case fails
    enum mmul_status status;
    const char *error, *hint;
};

static const struct device_case device_cases[] = {
    {{"auto"}, {"0:1"}, MMUL_OK, NULL, NULL},
    {{"auto", "auto"}, {"0:1", "0:0"}, MMUL_OK, NULL, NULL},
    {{"auto", "auto", "auto", "auto"}, {"0:1", "0:0", "cpu", "cpu"}, MMUL_OK, NULL, NULL},
    {{"auto", "gpu:0"}, {"0:0", "0:1"}, MMUL_OK, NULL, NULL},
    {{"cpu", "auto"}, {"cpu", "0:1"}, MMUL_OK, NULL, NULL},
    {{"gpu", "gpu"}, {"0:1", "0:0"}, MMUL_OK, NULL, NULL},
    {{"gpu:1", "gpu:1"}, {"0:0", "0:0"}, MMUL_OK, NULL, NULL},
    {{"0:0", "1:0"}, {"0:0", "1:0"}, MMUL_OK, NULL, NULL},
    {{"radeon", "PTHREAD"}, {"0:0", "1:0"}, MMUL_OK, NULL, NULL},
    {{"pci:0000:17:00.0"}, {"0:1"}, MMUL_OK, NULL, NULL},
    {{"reference", "faulty:delay=1ms:cpu"},
     {"reference", "faulty:delay=1ms:cpu"},
     MMUL_OK,
     NULL,
     NULL},
    {{"faulty:fail=1:0:0", "auto"}, {"faulty:fail=1:0:0", "0:1"}, MMUL_OK, NULL, NULL},
    {{"cpu", "Voodoo"},
     {NULL},
     MMUL_ERR_UNAVAILABLE,
     "rank 1 on box: no device 'Voodoo'",
     "devices of this machine: cpu, 0:0 (Radeon VII), 0:1 (GeForce GTX 1080), 1:0 (pthread-EPYC)"},
    {{"cuda:1"},
     {NULL},
     MMUL_ERR_UNAVAILABLE,
     "rank 0 on box: no device 'cuda:1'",
     "did you mean 'gpu:1'? devices of this machine: cpu, 0:0 (Radeon VII), 0:1 (GeForce GTX "
     "1080), 1:0 "
     "(pthread-EPYC)"},
    {{"PoCL"},
     {NULL},
     MMUL_ERR_UNAVAILABLE,
     "rank 0 on box: no device 'PoCL'",
     "did you mean '1:0'? devices of this machine: cpu, 0:0 (Radeon VII), 0:1 (GeForce GTX 1080), "
     "1:0 "
     "(pthread-EPYC)"},
    {{"gpu", "gpu", "gpu"}, {NULL}, MMUL_ERR_UNAVAILABLE, "rank 2 on box: no device 'gpu'", NULL},
    {{"gpu:2"}, {NULL}, MMUL_ERR_UNAVAILABLE, "rank 0 on box: no device 'gpu:2'", NULL},
    {{"gpu:x"},
     {NULL},
     MMUL_ERR_USAGE,
     "--device gpu:K: 'x' is not a whole number from 0 to 4095",
     NULL},
    {{"pci:"}, {NULL}, MMUL_ERR_UNAVAILABLE, "rank 0 on box: no device 'pci:'", NULL},
    {{""}, {NULL}, MMUL_ERR_USAGE, "--device: '' is not a device", NULL},
    {{"faulty:fail=1:9:9"}, {NULL}, MMUL_ERR_UNAVAILABLE, "rank 0 on box: no device '9:9'", NULL},
};

static int make_requests(const struct device_case *c, const struct mmul_topology *topology,
                         struct mmul_assign_request *requests) {
    int ranks = 0;
    for (; ranks < RANKS_MAX && c->wishes[ranks] != NULL; ranks++) {
        requests[ranks] = (struct mmul_assign_request){.own = topology->own, .rank = ranks};
        strcpy(requests[ranks].device, c->wishes[ranks]);
    }
    return ranks;
}

static void test_each_rank_gets_its_device_or_an_error(void **state) {
    (void)state;
    struct mmul_topology topology = make_machine(8);
    struct mmul_device_info devices[DEVICES_MAX];
    int count = make_gpu_box(devices);
    for (size_t i = 0; i < sizeof device_cases / sizeof device_cases[0]; i++) {
        const struct device_case *c = &device_cases[i];
        struct mmul_assign_request requests[RANKS_MAX];
        struct mmul_assignment out[RANKS_MAX];
        struct mmul_error err = {.text = ""};
        int ranks = make_requests(c, &topology, requests);
        assert_int_equal(
            mmul_assign_devices(
                &(struct mmul_assign_node){&topology, devices, count, requests, ranks}, out, &err),
            c->status);
        if (c->error != NULL)
            assert_string_equal(err.text, c->error);
        if (c->hint != NULL)
            assert_string_equal(err.hint, c->hint);
        for (int rank = 0; c->status == MMUL_OK && rank < ranks; rank++)
            assert_string_equal(out[rank].device, c->devices[rank]);
    }
}

struct core_case {
    int cores;
    double quota;
    const char *wishes[RANKS_MAX];
    const char *sets[RANKS_MAX]; // expected cores; "" if not bound
    int threads[RANKS_MAX];
};

static const struct core_case core_cases[] = {
    {8, 0, {"cpu"}, {"0-7"}, {8}},
    {8, 0, {"cpu", "cpu"}, {"0-3", "4-7"}, {4, 4}},
    {8, 0, {"cpu", "cpu", "cpu"}, {"0-1", "2-4", "5-7"}, {2, 3, 3}},
    {8, 0, {"gpu", "gpu", "cpu"}, {"6", "7", "0-5"}, {1, 1, 6}},
    {2, 0, {"cpu", "cpu", "cpu"}, {"0", "1", "0"}, {1, 1, 1}},
    {1, 0, {"gpu", "cpu"}, {"0", "0"}, {1, 1}},
    {8, 2.0, {"cpu"}, {""}, {2}},
    {8, 3.0, {"cpu", "cpu"}, {"", ""}, {2, 2}},
    {8, 0, {"1:0", "cpu"}, {"0-3", "4-7"}, {4, 4}}, // OpenCL on the CPU gets cores like the CPU
};

static void test_ranks_of_a_node_divide_its_cores(void **state) {
    (void)state;
    struct mmul_device_info devices[DEVICES_MAX];
    int count = make_gpu_box(devices);
    for (size_t i = 0; i < sizeof core_cases / sizeof core_cases[0]; i++) {
        const struct core_case *c = &core_cases[i];
        struct mmul_topology topology = make_machine(c->cores);
        topology.cpu_quota = c->quota;
        struct mmul_assign_request requests[RANKS_MAX];
        struct mmul_assignment out[RANKS_MAX];
        struct mmul_error err;
        const struct device_case wishes = {
            .wishes = {c->wishes[0], c->wishes[1], c->wishes[2], c->wishes[3]}};
        int ranks = make_requests(&wishes, &topology, requests);
        assert_int_equal(
            mmul_assign_devices(
                &(struct mmul_assign_node){&topology, devices, count, requests, ranks}, out, &err),
            MMUL_OK);
        for (int rank = 0; rank < ranks; rank++) {
            char text[64] = "";
            if (out[rank].bind)
                mmul_cpuset_format(&out[rank].cores, text);
            assert_string_equal(text, c->sets[rank]);
            assert_int_equal(out[rank].threads, c->threads[rank]);
        }
    }
}

// A binding set by the user is kept; ranks with the same binding divide its cores.
static void test_a_binding_of_the_user_is_kept(void **state) {
    (void)state;
    struct mmul_topology topology = make_machine(8);
    struct mmul_assign_request requests[3] = {
        {.device = "cpu", .user_binding = true, .own = topology.own, .rank = 0},
        {.device = "cpu", .user_binding = true, .own = topology.own, .rank = 1},
        {.device = "cpu", .user_binding = true, .rank = 2}};
    struct mmul_assignment out[3];
    struct mmul_error err;
    mmul_cpuset_add(&requests[2].own, 3);
    assert_int_equal(
        mmul_assign_devices(&(struct mmul_assign_node){&topology, NULL, 0, requests, 3}, out, &err),
        MMUL_OK);
    assert_int_equal(out[0].threads, 4);
    assert_int_equal(out[1].threads, 4);
    assert_int_equal(out[2].threads, 1);
    assert_false(out[0].bind || out[1].bind || out[2].bind);
}

// After its GPU failed, a rank gets more than the one core that drove the GPU.
static void test_a_cpu_fallback_gets_more_than_the_gpu_s_core(void **state) {
    (void)state;
    struct mmul_topology topology = make_machine(8);
    struct mmul_device_info devices[DEVICES_MAX];
    int count = make_gpu_box(devices);
    struct mmul_assign_request requests[2] = {{.device = "gpu", .own = topology.own, .rank = 0},
                                              {.device = "cpu", .own = topology.own, .rank = 1}};
    struct mmul_assignment out[2];
    struct mmul_error err;
    char text[64];
    assert_int_equal(
        mmul_assign_devices(&(struct mmul_assign_node){&topology, devices, count, requests, 2}, out,
                            &err),
        MMUL_OK);
    assert_int_equal(out[0].threads, 1);
    assert_int_equal(out[0].fallback_threads, 4);
    assert_string_equal(mmul_cpuset_format(&out[0].fallback_cores, text), "0-3");
    assert_int_equal(out[1].fallback_threads, 7);
    requests[0].threads = 2;
    assert_int_equal(
        mmul_assign_devices(&(struct mmul_assign_node){&topology, devices, count, requests, 2}, out,
                            &err),
        MMUL_OK);
    assert_int_equal(out[0].fallback_threads, 2);
}

static void test_given_threads_and_binding_override_the_assignment(void **state) {
    (void)state;
    struct mmul_topology topology = make_machine(8);
    struct mmul_assign_request requests[2] = {
        {.device = "cpu", .own = topology.own, .threads = 2, .rank = 0},
        {.device = "cpu", .own = topology.own, .no_bind = true, .rank = 1}};
    struct mmul_assignment out[2];
    struct mmul_error err;
    assert_int_equal(
        mmul_assign_devices(&(struct mmul_assign_node){&topology, NULL, 0, requests, 2}, out, &err),
        MMUL_OK);
    assert_int_equal(out[0].threads, 2);
    assert_true(out[0].bind);
    assert_int_equal(out[1].threads, 4);
    assert_false(out[1].bind);
    assert_string_equal(out[0].note, "shares the CPU with rank 1");
    requests[0].threads = 8; // more threads than its share of cores: a binding would crowd them
    assert_int_equal(
        mmul_assign_devices(&(struct mmul_assign_node){&topology, NULL, 0, requests, 2}, out, &err),
        MMUL_OK);
    assert_int_equal(out[0].threads, 8);
    assert_false(out[0].bind);
}

struct file_case {
    const char *host;
    int node_rank;
    const char *device; // NULL: fails with `error`
    double weight;
    const char *error;
};

static void test_a_device_file_assigns_devices_and_weights(void **state) {
    (void)state;
    static const char text[] = "# the lab\nold-box 0:0,cpu 2.5\n\nserver cpu\nold-box 0:1 1\n";
    static const struct file_case cases[] = {
        {"old-box", 0, "0:0", 2.5, NULL},
        {"old-box", 1, "cpu", 2.5, NULL},
        {"old-box", 2, "0:1", 1, NULL},
        {"server", 0, "cpu", -1, NULL},
        {"server", 1, NULL, 0, "'lab.txt' has no device for rank 1 of host 'server'"},
        {"other", 0, NULL, 0, "'lab.txt' has no device for rank 0 of host 'other'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mmul_device_file_entry line;
        struct mmul_error err;
        enum mmul_status status =
            mmul_device_file_find(text, "lab.txt", cases[i].host, cases[i].node_rank, &line, &err);
        if (cases[i].device == NULL) {
            assert_int_equal(status, MMUL_ERR_DATA);
            assert_string_equal(err.text, cases[i].error);
            continue;
        }
        assert_int_equal(status, MMUL_OK);
        assert_string_equal(line.device, cases[i].device);
        assert_true(line.weight == cases[i].weight);
    }
}

static void test_malformed_device_files_are_refused(void **state) {
    (void)state;
    static const char *const texts[] = {"box\n", "box cpu x\n", "box cpu 1 2\n", "box cpu -1\n",
                                        "box cpu nan\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct mmul_device_file_entry line;
        struct mmul_error err;
        assert_int_equal(mmul_device_file_find(texts[i], "f", "box", 0, &line, &err),
                         MMUL_ERR_DATA);
        assert_string_equal(err.text, "'f' line 1 is not 'host device[,device...] [weight]'");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_rank_gets_its_device_or_an_error),
        cmocka_unit_test(test_ranks_of_a_node_divide_its_cores),
        cmocka_unit_test(test_a_binding_of_the_user_is_kept),
        cmocka_unit_test(test_a_cpu_fallback_gets_more_than_the_gpu_s_core),
        cmocka_unit_test(test_given_threads_and_binding_override_the_assignment),
        cmocka_unit_test(test_a_device_file_assigns_devices_and_weights),
        cmocka_unit_test(test_malformed_device_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
