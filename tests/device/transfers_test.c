// SPDX-License-Identifier: MIT
//
// Conformance test of a device, part 2, transfers: `transfers_test NAME`. Regions arrive at their
// place and nowhere else. Every 16-bit pattern is widened as its definition says.
#include "stored.h"

// ----------------------------------------------------------------------------------- transfers

struct region {
    int64_t offset, ld, rows, cols, host_ld;
};

// Uploads a region into a buffer of -1 and downloads it again; checks the surroundings.
static bool survives_round_trip(struct mmul_device *device, const struct region *g) {
    const int64_t count = 4000;
    struct mmul_error err;
    struct stored s = store_matrix(device, 1, count, 0, NULL, 0, -1);
    int64_t host_count = g->rows * g->host_ld;
    float *out = must_allocate(host_count, sizeof(float));
    float *back = must_allocate(host_count, sizeof(float));
    for (int64_t e = 0; e < host_count; e++) {
        out[e] = (float)(e + 1);
        back[e] = -2;
    }
    struct mmul_operand place = {s.buffer, g->offset, g->ld};
    must_succeed(mmul_device_upload(
                     device,
                     &(struct mmul_upload){place, g->rows, g->cols, out, g->host_ld, MMUL_F32},
                     &err),
                 &err);
    must_succeed(mmul_device_download(
                     device,
                     &(struct mmul_download){place, g->rows, g->cols, back, g->host_ld, MMUL_F32},
                     &err),
                 &err);
    float *all = download_all(device, &s);
    bool ok = true;
    for (int64_t e = 0; e < host_count; e++)
        ok = ok && back[e] == (e % g->host_ld < g->cols ? out[e] : -2);
    for (int64_t r = 0; r < g->rows; r++) {
        for (int64_t c = 0; c < g->cols; c++) {
            float *element_found = &all[g->offset + r * g->ld + c];
            ok = ok && *element_found == out[r * g->host_ld + c];
            *element_found = -1;
        }
    }
    for (int64_t e = 0; e < count; e++)
        ok = ok && all[e] == -1;
    free(all);
    free(out);
    free(back);
    discard_matrix(device, &s);
    return ok;
}

static void test_regions(struct mmul_device *device) {
    static const struct {
        const char *name;
        struct region region;
    } cases[] = {
        {"region: one element", {17, 1, 1, 1, 1}},
        {"region: packed", {5, 40, 30, 40, 40}},
        {"region: packed on the device", {41, 31, 29, 31, 37}},
        {"region: packed on the host", {41, 37, 29, 31, 31}},
        {"region: inside a wider matrix on both sides", {3 * 50 + 7, 50, 41, 13, 19}},
        {"region: one column", {11, 50, 60, 1, 1}},
        {"region: starts near the end of a row of its own", {49, 50, 20, 33, 33}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        report_point(survives_round_trip(device, &cases[i].region), cases[i].name,
                     "elements differ");
}

// Widens 16 bits independently of the library: float16 by its definition.
static float widen(enum mmul_dtype dtype, uint16_t bits) {
    float value;
    uint32_t shifted = (uint32_t)bits << 16;
    if (dtype == MMUL_BF16) {
        memcpy(&value, &shifted, sizeof value);
        return value;
    }
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    value = exponent == 31 ? (fraction != 0 ? NAN : INFINITY)
                           : ldexpf((float)(fraction + (exponent != 0 ? 1024 : 0)),
                                    (exponent != 0 ? exponent : 1) - 25);
    return (bits & 0x8000) != 0 ? -value : value;
}

// Widens rows x cols consecutive patterns from `first` on, in host rows of host_ld.
static bool widens_patterns(struct mmul_device *device, enum mmul_dtype dtype, int64_t rows,
                            int64_t cols, int64_t pad, char *detail) {
    struct mmul_error err;
    int64_t host_ld = cols + pad;
    uint16_t *out = must_allocate(rows * host_ld, sizeof *out);
    for (int64_t e = 0; e < rows * host_ld; e++)
        out[e] = (uint16_t)(e / host_ld * cols + e % host_ld);
    struct stored s = store_matrix(device, rows, cols, 2 * pad, NULL, 0, -1);
    must_succeed(
        mmul_device_upload(
            device, &(struct mmul_upload){operand_of(&s), rows, cols, out, host_ld, dtype}, &err),
        &err);
    float *all = download_all(device, &s);
    bool ok = true;
    for (int64_t e = 0; e < rows * cols && ok; e++) {
        float *found = &all[s.offset + e / cols * s.ld + e % cols];
        float expected = widen(dtype, (uint16_t)e);
        ok = isnan(expected) ? isnan(*found) : memcmp(found, &expected, sizeof expected) == 0;
        if (!ok) {
            snprintf(detail, 256, "pattern 0x%04x gives %a, expected %a", (unsigned)(e & 0xffff),
                     (double)*found, (double)expected);
        }
    }
    ok = ok && check_padding(&s, all, detail);
    free(all);
    free(out);
    discard_matrix(device, &s);
    return ok;
}

static void test_widening(struct mmul_device *device) {
    static const struct {
        const char *name;
        int64_t rows, cols, pad;
    } cases[] = {
        {"all patterns in a row", 1, 65536, 0},
        {"all patterns in a column", 65536, 1, 0},
        {"all patterns in a region", 263, 251, 5},
        {"more rows than the staging buffer holds", 2901, 2909, 3},
        {"a row longer than the staging buffer", 1, (1 << 23) + 77, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int d = 0; d < 2; d++) {
            enum mmul_dtype dtype = d == 0 ? MMUL_F16 : MMUL_BF16;
            char name[128], detail[256] = "";
            snprintf(name, sizeof name, "%s: %s", mmul_dtype_name(dtype), cases[i].name);
            bool ok =
                widens_patterns(device, dtype, cases[i].rows, cases[i].cols, cases[i].pad, detail);
            report_point(ok, name, detail);
        }
    }
}

// Returns true if the call was refused with this line, without other effects.
static bool was_refused(const struct mmul_device *device, enum mmul_status found,
                        const struct mmul_error *err, enum mmul_status expected, const char *text) {
    return found == expected && err->status == expected && !device->lost &&
           strstr(err->text, text) != NULL;
}

static bool refuses_buffers(struct mmul_device *device, enum mmul_dtype dtype) {
    double memory[4] = {1, 2, 3, 4};
    struct mmul_buffer *buffer = NULL;
    struct mmul_error err = {0};
    char text[64];
    snprintf(text, sizeof text, "does not support %s", mmul_dtype_name(dtype));
    bool ok = was_refused(device, mmul_device_buffer_create(device, dtype, 4, &buffer, &err), &err,
                          MMUL_ERR_UNAVAILABLE, text);
    if (!ok || !mmul_device_can_borrow(device))
        return ok;
    err = (struct mmul_error){0};
    return was_refused(device, mmul_device_buffer_borrow(device, dtype, memory, 4, &buffer, &err),
                       &err, MMUL_ERR_UNAVAILABLE, text) &&
           buffer == NULL;
}

// Refuses uploads and downloads of a type other than the buffer's. The downloads leave 5 in place.
static bool refuses_transfers(struct mmul_device *device, const struct stored *s) {
    double wide[4] = {1, 2, 3, 4};
    struct mmul_error err = {0};
    const struct mmul_upload up = {operand_of(s), 2, 2, wide, 2, MMUL_F64};
    bool ok = was_refused(device, mmul_device_upload(device, &up, &err), &err, MMUL_ERR_DATA,
                          "cannot upload float64 into a buffer of float32");
    for (int dtype = MMUL_F16; dtype <= MMUL_F64; dtype++) {
        const struct mmul_download down = {operand_of(s), 2, 2, wide, 2, (enum mmul_dtype)dtype};
        char text[96];
        snprintf(text, sizeof text, "cannot download a buffer of float32 as %s",
                 mmul_dtype_name(down.dtype));
        err = (struct mmul_error){0};
        ok = ok && was_refused(device, mmul_device_download(device, &down, &err), &err,
                               MMUL_ERR_DATA, text);
    }
    return ok && wide[0] == 1 && wide[3] == 4;
}

static bool refuses_products(struct mmul_device *device, const struct stored *s) {
    struct mmul_error err = {0};
    const struct mmul_gemm args = {.dtype = MMUL_F64,
                                   .m = 2,
                                   .n = 2,
                                   .k = 2,
                                   .alpha = 1,
                                   .a = operand_of(s),
                                   .b = operand_of(s),
                                   .c = operand_of(s)};
    return was_refused(device, mmul_device_gemm(device, &args, &err), &err, MMUL_ERR_DATA,
                       "cannot multiply in float64: A is a buffer of float32");
}

// Doubles come back unchanged from a device that has doubles.
static bool keeps_doubles(struct mmul_device *device) {
    const double third = 1.0 / 3, sent[6] = {third, 1e300, -third, 5e-324, 2, 3};
    double found[6] = {0};
    struct mmul_buffer *buffer = NULL;
    struct mmul_error err = {0};
    must_succeed(mmul_device_buffer_create(device, MMUL_F64, 9, &buffer, &err), &err);
    const struct mmul_operand at = {buffer, 1, 4};
    must_succeed(
        mmul_device_upload(device, &(struct mmul_upload){at, 2, 3, sent, 3, MMUL_F64}, &err), &err);
    must_succeed(
        mmul_device_download(device, &(struct mmul_download){at, 2, 3, found, 3, MMUL_F64}, &err),
        &err);
    must_succeed(mmul_device_wait(device, &err), &err);
    mmul_device_buffer_destroy(device, buffer);
    return memcmp(sent, found, sizeof sent) == 0;
}

static void test_dtypes(struct mmul_device *device) {
    struct stored s = store_matrix(device, 2, 2, 0, NULL, 0, 5);
    const char *none = "accepted, or another line";
    for (int dtype = MMUL_F16; dtype <= MMUL_F64; dtype++) {
        char name[64];
        if (mmul_device_has_dtype(device, (enum mmul_dtype)dtype)) {
            report_point(keeps_doubles(device), "doubles survive upload and download",
                         "they differ");
            continue;
        }
        snprintf(name, sizeof name, "a buffer of %s is refused",
                 mmul_dtype_name((enum mmul_dtype)dtype));
        report_point(refuses_buffers(device, (enum mmul_dtype)dtype), name, none);
    }
    report_point(refuses_transfers(device, &s), "transfers of another dtype are refused", none);
    report_point(refuses_products(device, &s), "a product of another dtype is refused", none);
    float *all = download_all(device, &s);
    report_point(all[0] == 5 && all[3] == 5, "refused transfers change nothing", "elements differ");
    free(all);
    discard_matrix(device, &s);
}

int main(int argc, char **argv) {
    struct mmul_device *device = open_device(argc, argv);
    test_regions(device);
    test_widening(device);
    test_dtypes(device);
    return close_device(device);
}
