// SPDX-License-Identifier: MIT
//
// The cached answer of the OpenCL drivers: it is read back unchanged or not at all.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#if MMUL_WITH_OPENCL

#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "device/opencl_device_list.h"
#include "folder.h"

// Static: too large for the stack.
static struct mmul_opencl_device_list kept, found;

static void make_listing(void) {
    mmul_opencl_device_list_add_libraries(&kept);
    assert_true(kept.library_count > 0);
    kept.count = 2;
    for (int i = 0; i < 2; i++)
        kept.devices[i] = (struct mmul_device_info){.id = "0:0",
                                                    .name = "Radeon \"VII\" \xe2\x84\xa2",
                                                    .vendor = "AMD",
                                                    .platform = "AMD APP",
                                                    .driver = "3635.0",
                                                    .pci = "0000:65:00.0",
                                                    .type = MMUL_DEVICE_GPU,
                                                    .usable = i == 0,
                                                    .compute_units = 60,
                                                    .memory_bytes = INT64_C(17163091968),
                                                    .max_allocation_bytes = INT64_C(14588628168),
                                                    .reason = "said by another"};
    memset(kept.devices[0].reason, 0, sizeof kept.devices[0].reason);
}

static void a_cached_answer_is_returned(void **state) {
    (void)state;
    make_listing();
    assert_false(mmul_opencl_device_list_load(&found));
    mmul_opencl_device_list_store(&kept);
    memset(&found, 1, sizeof found);
    assert_true(mmul_opencl_device_list_load(&found));
    assert_int_equal(found.count, kept.count);
    for (int i = 0; i < kept.count; i++)
        assert_memory_equal(&found.devices[i], &kept.devices[i], sizeof kept.devices[i]);
}

static void a_set_aside_answer_is_not_returned(void **state) {
    (void)state;
    make_listing();
    mmul_opencl_device_list_store(&kept);
    mmul_opencl_device_list_hide();
    assert_false(mmul_opencl_device_list_load(&found));
    mmul_opencl_device_list_unhide();
    assert_true(mmul_opencl_device_list_load(&found));
}

static void a_changed_library_invalidates_the_cached_answer(void **state) {
    (void)state;
    make_listing();
    kept.libraries[kept.library_count - 1].bytes++;
    mmul_opencl_device_list_store(&kept);
    assert_false(mmul_opencl_device_list_load(&found));
    make_listing();
    kept.libraries[0].changed_ns++;
    mmul_opencl_device_list_store(&kept);
    assert_false(mmul_opencl_device_list_load(&found));
    make_listing();
    kept.library_count = 0;
    mmul_opencl_device_list_store(&kept);
    assert_false(mmul_opencl_device_list_load(&found));
}

static void only_variables_of_drivers_invalidate_the_answer(void **state) {
    (void)state;
    make_listing();
    mmul_opencl_device_list_store(&kept);
    setenv("UNRELATED", "1", 1);
    assert_true(mmul_opencl_device_list_load(&found));
    setenv("ROCR_VISIBLE_DEVICES", "1", 1);
    assert_false(mmul_opencl_device_list_load(&found));
    unsetenv("ROCR_VISIBLE_DEVICES");
    assert_true(mmul_opencl_device_list_load(&found));
}

// A machine without device files of cards. The driver libraries are named only; none exists.
static void auto_finds_nothing_with_drivers_of_cpus_alone(void **state) {
    (void)state;
    static const struct {
        const char *libraries;
        bool is_hopeless;
    } cases[] = {
        {"libpocl.so.2", true},
        {"libMesaOpenCL.so.1", true},
        {"libRusticlOpenCL.so.1:/usr/lib/libpocl.so.2", true},
        {"/opt/mesa/lib/libRusticlOpenCL.so.1:libMesaOpenCL.so.1", true},
        {"libRusticlOpenCL.so.1:libnvidia-opencl.so.1", false}, // may open further drivers
        {"/opt/pocl/libamdocl64.so", false},
    };
    glob_t there;
    bool has_node = false;
    static const char *const nodes[] = {"/dev/dri/render*", "/dev/nvidia*", "/dev/kfd",
                                        "/dev/dxg",         "/dev/mali*",   "/dev/kgsl*",
                                        "/dev/accel/*"};
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++)
        if (glob(nodes[i], 0, NULL, &there) == 0) {
            has_node = true;
            globfree(&there);
        }
    setenv("OCL_ICD_VENDORS", "/dev/null/none.icd", 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("OCL_ICD_FILENAMES", cases[i].libraries, 1);
        assert_int_equal(mmul_opencl_has_only_cpus(), cases[i].is_hopeless && !has_node);
        setenv("RUSTICL_ENABLE", "radeonsi", 1);
        assert_int_equal(mmul_opencl_has_only_cpus(), cases[i].is_hopeless && !has_node);
        unsetenv("RUSTICL_ENABLE");
    }
    unsetenv("OCL_ICD_FILENAMES");
}

static int set_up(void **state) {
    struct folder *folder = malloc(sizeof *folder);
    *state = folder;
    folder_create(folder);
    return setenv("XDG_CACHE_HOME", folder->path, 1);
}

static int tear_down(void **state) {
    folder_destroy(*state);
    free(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_cached_answer_is_returned, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_set_aside_answer_is_not_returned, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_changed_library_invalidates_the_cached_answer, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(only_variables_of_drivers_invalidate_the_answer, set_up,
                                        tear_down),
        cmocka_unit_test(auto_finds_nothing_with_drivers_of_cpus_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

static void a_build_without_opencl_skips_these_tests(void **state) {
    (void)state;
    print_message("# opencl: built without it\n");
    skip();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_build_without_opencl_skips_these_tests)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
