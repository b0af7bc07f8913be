// SPDX-License-Identifier: MIT
// Pickles written by hand: names of the tensors found, skipped objects, and refusals. cli/torch
// tests files of torch and of Python's own pickle.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "folder.h"
#include "io/pickle.h"

// A tensor of 2 elements of storage "0", stored as memo value 1, and a reference to it.
#define TENSOR                                                                             \
    "ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0" \
    "0X\3\0\0\0cpuK\2tQK\0K\2\x85K\1\x85\x89}tRq\1"
#define AGAIN "h\1"
// numpy's array of two uint8 in protocol 3.
#define ARRAY(shape, bytes)                                                                      \
    "cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85"                             \
    "C\1b\x87R(K\1" shape "cnumpy\ndtype\nX\2\0\0\0u1\x89\x88\x87R(K\3X\1\0\0\0|NNNtb\x89" bytes \
    "tb"

struct expected {
    const char *pickle;
    size_t length;
    const char *names;   // each followed by a comma; NULL: refused
    const char *skipped; // "2 a.B,"; or the error without its beginning
};
#define CASE(pickle, names, skipped) \
    { pickle, sizeof(pickle) - 1, names, skipped }

static const struct expected cases[] = {
    CASE("\x80\2" TENSOR ".", "data,", ""),
    CASE("\x80\2]" TENSOR "a.", "0,", ""),
    CASE("\x80\2}(X\1\0\0\0a" TENSOR "K\7" AGAIN "u.", "a,7,", ""),
    CASE("\x80\2}(X\1\0\0\0a" TENSOR "N" AGAIN "u.", "a,", ""),
    CASE("\x80\2" TENSOR "K\1\x86.", "0,", ""),
    // Tensors in sets are skipped.
    CASE("\x80\4\x8F(" TENSOR "\x90.", "", ""),
    CASE("\x80\4(" TENSOR "\x91.", "", ""),
    // An object: arguments, attributes, attributes and slots, items, and pairs.
    CASE("\x80\2ca\nB\n)\x81.", "", "1 a.B,"),
    CASE("\x80\2ca\nB\n" TENSOR "\x85\x81.", "0,", ""),
    CASE("\x80\2ca\nB\n)\x81}X\1\0\0\0t" TENSOR "sb.", "t,", ""),
    CASE("\x80\2ca\nB\n)\x81}X\1\0\0\0t" TENSOR "s}X\1\0\0\0u" AGAIN "s\x86"
         "b.",
         "t,u,", ""),
    CASE("\x80\2ca\nB\n)\x81N}X\1\0\0\0u" TENSOR "s\x86"
         "b.",
         "u,", ""),
    CASE("\x80\2ca\nB\n)\x81" TENSOR "a" AGAIN "a.", "0,1,", ""),
    CASE("\x80\2ca\nB\n)\x81X\1\0\0\0k" TENSOR "s.", "k,", ""),
    CASE("\x80\4ca\nB\n)}\x92}X\1\0\0\0t" TENSOR "sb.", "t,", ""),
    CASE("\x80\4\x8c\1a\x8c\1B\x93)\x81.", "", "1 a.B,"),
    // A module of torch: its tensors get the names of its state_dict.
    CASE("\x80\2ca\nNet\n)\x81}(X\x0b\0\0\0_parameters}X\1\0\0\0w" TENSOR "s"
         "X\x08\0\0\0_modules}X\1\0\0\0m"
         "ca\nNet\n)\x81}X\x08\0\0\0_buffers}X\1\0\0\0b" AGAIN "ssbsub.",
         "w,m.b,", ""),
    // A dict with keys like those of a module.
    CASE("\x80\2}X\x0b\0\0\0_parameters}X\1\0\0\0w" TENSOR "ss.", "_parameters.w,", ""),
    // Classes sorted by number of objects, then by name; classes of one name count together.
    CASE("\x80\2](cb\nB\n)\x81"
         "ca\nC\n)\x81"
         "ca\nA\n)\x81"
         "ca\nC\n)\x81"
         "e.",
         "", "2 a.C,1 a.A,1 b.B,"),
    // Objects that contain themselves and each other.
    CASE("\x80\2ca\nB\n)\x81q\0}X\1\0\0\0sh\0sb.", "", "1 a.B,"),
    CASE("\x80\2ca\nB\n)\x81q\0}(X\1\0\0\0sh\0X\1\0\0\0t" TENSOR "ub.", "t,", ""),
    // The result of a call is called.
    CASE("\x80\2cbuiltins\ngetattr\nNX\1\0\0\0x\x86R)R.", "", "1 builtins.getattr,"),
    // Python 2's OrderedDict, defaultdict, and memo and stack of protocol 4.
    CASE("\x80\2"
         "ccollections\nOrderedDict\n](](U\1a" TENSOR "ee\x85R.",
         "a,", ""),
    CASE("\x80\2"
         "ccollections\ndefaultdict\nN\x85RX\1\0\0\0a" TENSOR "s.",
         "a,", ""),
    CASE("\x80\4\x95\0\0\0\0\0\0\0\0]\x94h\0"
         "0K\1"
         "0(K\1K\2"
         "1" TENSOR "2"
         "0a.",
         "0,", ""),
    // Arrays.
    CASE("\x80\3" ARRAY("K\2\x85", "C\2\xff\x01") ".", "data,", ""),
    CASE("\x80\2" ARRAY("K\2\x85",
                        "c_codecs\nencode\nX\3\0\0\0\xc3\xbf\x01X\6\0\0\0latin1\x86R") ".",
         "data,", ""),
    CASE("\x80\3" ARRAY("K\2\x85", "]" TENSOR "a") ".", "0,", ""),
    // Refused.
    CASE("\x80\3" ARRAY("K\2\x85", "C\3\xff\x01\2") ".", NULL,
         "has an array with a length that does not match its sizes"),
    CASE("\x80\2" ARRAY("K\2\x85",
                        "c_codecs\nencode\nX\3\0\0\0\xc4\xbf\x01X\6\0\0\0latin1\x86R") ".",
         NULL, "has an array with a length that does not match its sizes"),
    CASE("\x80\3" ARRAY("K\2K\1K\1K\1K\1K\1K\1K\1K\1t", "C\2\xff\x01") ".", NULL, "lacks a mark"),
    CASE("\x80\3" ARRAY("(K\2K\1K\1K\1K\1K\1K\1K\1K\1t", "C\2\xff\x01") ".", NULL,
         "has an array of more than 8 dimensions"),
    CASE("\x80\3" ARRAY("J\xff\xff\xff\xff\x85", "C\2\xff\x01") ".", NULL,
         "has an array with sizes that are not whole numbers"),
    CASE("\x80\3" ARRAY("N", "C\2\xff\x01") ".", NULL,
         "has an array without sizes, type and elements"),
    CASE("\x80\2K\1}b.", NULL, "sets attributes of something that is not an object"),
    CASE("\x80\2K\1)R.", NULL, "calls something that is not a function"),
    CASE("\x80\4K\1K\2\x93.", NULL, "has a global without a name"),
    CASE("\x80\2K\1K\2a.", NULL, "adds items to something that is not a list"),
    CASE("\x80\2]K\1K\2s.", NULL, "adds items to something that is not a dict"),
    CASE("\x80\4](K\1\x90.", NULL, "adds items to something that is not a set"),
    CASE("\x80\2X\1\0\0\0", NULL, "ends too early"),
    CASE("\x80\2\x8E\xff\xff\xff\xff\xff\xff\xff\xff.", NULL, "ends too early"),
    CASE("\x80\2ca\n", NULL, "ends too early"),
};
enum { CASES = sizeof cases / sizeof *cases };

static enum mmul_status parse(const struct expected *expected, unsigned char **exact,
                              struct mmul_pickle *pickle, struct mmul_error *err) {
    // A heap copy of exact length: a sanitizer detects reads beyond it.
    *exact = malloc(expected->length);
    assert_non_null(*exact);
    memcpy(*exact, expected->pickle, expected->length);
    return mmul_pickle_parse(*exact, expected->length, "p", pickle, err);
}

static void pickles_hold_tensors_and_skip_objects(void **state) {
    (void)state;
    for (int c = 0; c < CASES; c++) {
        unsigned char *exact;
        struct mmul_pickle pickle;
        struct mmul_error err;
        char names[256] = "", skipped[256] = "";
        const enum mmul_status status = parse(&cases[c], &exact, &pickle, &err);
        print_message("case %d: %s\n", c, status == MMUL_OK ? "" : err.text);
        assert_int_equal(status, cases[c].names != NULL ? MMUL_OK : MMUL_ERR_DATA);
        if (status != MMUL_OK) {
            static const char beginning[] = "'p' is not a valid PyTorch file: its pickle ";
            assert_memory_equal(err.text, beginning, sizeof beginning - 1);
            assert_string_equal(err.text + sizeof beginning - 1, cases[c].skipped);
            assert_int_equal(pickle.bytes,
                             strcmp(cases[c].skipped, "ends too early") == 0 ? cases[c].length : 0);
            free(exact);
            continue;
        }
        for (int64_t t = 0; t < pickle.count; t++)
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s,",
                     pickle.tensors[t].name);
        for (int64_t s = 0; s < pickle.skipped_count; s++)
            snprintf(skipped + strlen(skipped), sizeof skipped - strlen(skipped), "%d %s,",
                     (int)pickle.skipped[s].count, pickle.skipped[s].name);
        assert_string_equal(names, cases[c].names);
        assert_string_equal(skipped, cases[c].skipped);
        assert_int_equal(pickle.bytes, cases[c].length);
        mmul_pickle_fini(&pickle);
        free(exact);
    }
    assert_int_equal(mmul_live_bytes(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pickles_hold_tensors_and_skip_objects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
