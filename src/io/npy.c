// SPDX-License-Identifier: MIT
// Reads and writes the header of .npy files, a Python dict in text form:
//     {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
// A small recursive-descent parser reads it: bounded by the header's end, no evaluation, no
// allocation. Element types that are not read are refused by name.
#include "io/npy.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "io/tensors.h"
#include "io/transfer.h" // refuses big-endian hosts
#include "model/matrix.h"

const unsigned char mmul_npy_magic[MMUL_NPY_MAGIC_BYTES] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

enum { DIMENSIONS_MAX = MMUL_TENSOR_DIMENSIONS, DESCR_MAX = 16 };

// Returns the bytes before the dict. The length has two bytes in version 1, four in 2 and 3.
static size_t prefix_bytes(const unsigned char *bytes) {
    return bytes[6] == 1 ? 10 : 12;
}

enum mmul_status mmul_npy_header_bytes(const unsigned char *bytes, size_t count, const char *name,
                                       size_t *header_bytes, struct mmul_error *err) {
    if (count < MMUL_NPY_PREFIX_BYTES) {
        return mmul_fail(err, MMUL_ERR_DATA,
                         "'%s' is not a valid .npy file: %zu bytes are too few for a header", name,
                         count);
    }
    if (bytes[6] < 1 || bytes[6] > 3 || bytes[7] != 0) {
        return mmul_fail(err, MMUL_ERR_DATA,
                         "'%s' is .npy version %d.%d: versions 1.0, 2.0 and 3.0 are read", name,
                         bytes[6], bytes[7]);
    }
    size_t length = bytes[8] | (size_t)bytes[9] << 8;
    if (bytes[6] > 1)
        length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    length += prefix_bytes(bytes);
    if (length > MMUL_NPY_HEADER_MAX) {
        return mmul_fail(err, MMUL_ERR_DATA,
                         "'%s' is not a valid .npy file: a header of %zu bytes, expected at most "
                         "%d",
                         name, length, MMUL_NPY_HEADER_MAX);
    }
    *header_bytes = length;
    return MMUL_OK;
}

// ----------------------------------------------------------------------------------------- parsing

struct scanner {
    const char *at, *end;
    const char *problem; // expected text; "": no error so far
};

struct fields {
    char descr[DESCR_MAX];
    bool fortran_order;
    int64_t sizes[DIMENSIONS_MAX]; // first DIMENSIONS_MAX sizes
    int dimensions;
    bool has_descr, has_order, has_shape;
};

static bool fail_expected(struct scanner *scanner, const char *what) {
    if (*scanner->problem == '\0')
        scanner->problem = what;
    return false;
}

static void skip_blanks(struct scanner *scanner) {
    while (scanner->at < scanner->end && strchr(" \t\n", *scanner->at) != NULL &&
           *scanner->at != '\0')
        scanner->at++;
}

static bool next_char_is(struct scanner *scanner, char c) {
    skip_blanks(scanner);
    return scanner->at < scanner->end && *scanner->at == c;
}

static bool accept_char(struct scanner *scanner, char c) {
    if (!next_char_is(scanner, c))
        return false;
    scanner->at++;
    return true;
}

// Reads 'text' or "text", without escapes.
static bool scan_string(struct scanner *scanner, char *text, size_t capacity) {
    if (!next_char_is(scanner, '\'') && !next_char_is(scanner, '"'))
        return fail_expected(scanner, "a string");
    char quote = *scanner->at++;
    const char *begin = scanner->at;
    const char *close = memchr(begin, quote, (size_t)(scanner->end - begin));
    if (close == NULL || (size_t)(close - begin) >= capacity)
        return fail_expected(scanner, "a short string");
    memcpy(text, begin, (size_t)(close - begin));
    text[close - begin] = '\0';
    if (strlen(text) != (size_t)(close - begin) || strchr(text, '\\') != NULL)
        return fail_expected(scanner, "a plain string");
    scanner->at = close + 1;
    return true;
}

static bool scan_word(struct scanner *scanner, const char *word) {
    size_t length = strlen(word);
    skip_blanks(scanner);
    if ((size_t)(scanner->end - scanner->at) < length)
        return false;
    if (memcmp(scanner->at, word, length) != 0)
        return false;
    scanner->at += length;
    return true;
}

static bool scan_bool(struct scanner *scanner, bool *value) {
    *value = scan_word(scanner, "True");
    return *value || scan_word(scanner, "False") || fail_expected(scanner, "True or False");
}

static bool scan_size(struct scanner *scanner, int64_t *size) {
    skip_blanks(scanner);
    const char *begin = scanner->at;
    int64_t value = 0;
    for (; scanner->at < scanner->end && *scanner->at >= '0' && *scanner->at <= '9'; scanner->at++)
        if (!mmul_multiply_sizes(value, 10, &value) ||
            __builtin_add_overflow(value, *scanner->at - '0', &value))
            return fail_expected(scanner, "sizes below 2^63");
    if (scanner->at == begin)
        return fail_expected(scanner, "a size");
    if (scanner->at < scanner->end && *scanner->at == 'L')
        scanner->at++; // Python 2 wrote 3L
    *size = value;
    return true;
}

// Reads (), (3,), (3, 4) or (3, 4,).
static bool scan_shape(struct scanner *scanner, struct fields *fields) {
    if (!accept_char(scanner, '('))
        return fail_expected(scanner, "a tuple of sizes");
    bool comma = true;
    while (!accept_char(scanner, ')')) {
        if (!comma)
            return fail_expected(scanner, "a comma between sizes");
        int64_t size = 0;
        if (!scan_size(scanner, &size))
            return false;
        if (fields->dimensions < DIMENSIONS_MAX)
            fields->sizes[fields->dimensions] = size;
        fields->dimensions++;
        comma = accept_char(scanner, ',');
    }
    if (fields->dimensions == 1 && !comma)
        return fail_expected(scanner, "a tuple of sizes");
    return true;
}

static bool mark_seen(struct scanner *scanner, bool *seen) {
    if (*seen)
        return fail_expected(scanner, "each key once");
    *seen = true;
    return true;
}

static bool scan_entry(struct scanner *scanner, struct fields *fields) {
    char key[DESCR_MAX];
    if (!scan_string(scanner, key, sizeof key))
        return false;
    if (!accept_char(scanner, ':'))
        return fail_expected(scanner, "a colon");
    if (strcmp(key, "descr") == 0) {
        if (next_char_is(scanner, '['))
            return fail_expected(scanner, "plain elements, not records");
        return mark_seen(scanner, &fields->has_descr) &&
               scan_string(scanner, fields->descr, sizeof fields->descr);
    }
    if (strcmp(key, "fortran_order") == 0)
        return mark_seen(scanner, &fields->has_order) && scan_bool(scanner, &fields->fortran_order);
    if (strcmp(key, "shape") == 0)
        return mark_seen(scanner, &fields->has_shape) && scan_shape(scanner, fields);
    return fail_expected(scanner, "the keys descr, fortran_order and shape");
}

static bool scan_dict(struct scanner *scanner, struct fields *fields) {
    if (!accept_char(scanner, '{'))
        return fail_expected(scanner, "a dict");
    bool comma = true;
    while (!accept_char(scanner, '}')) {
        if (!comma)
            return fail_expected(scanner, "a comma between entries");
        if (!scan_entry(scanner, fields))
            return false;
        comma = accept_char(scanner, ',');
    }
    if (!fields->has_descr || !fields->has_order || !fields->has_shape)
        return fail_expected(scanner, "the keys descr, fortran_order and shape");
    skip_blanks(scanner);
    return scanner->at == scanner->end || fail_expected(scanner, "nothing after the dict");
}

// ----------------------------------------------------------------------------------------- meaning

static const struct {
    const char *type; // numpy's name, without the byte order
    enum mmul_dtype dtype;
} types[] = {{"f2", MMUL_F16}, {"f4", MMUL_F32}, {"f8", MMUL_F64}, {"i4", MMUL_I32},
             {"i8", MMUL_I64}, {"u1", MMUL_U8},  {"i1", MMUL_I8},  {"i2", MMUL_I16},
             {"u2", MMUL_U16}, {"u4", MMUL_U32}, {"b1", MMUL_BOOL}};
enum { TYPE_COUNT = sizeof types / sizeof *types };

bool mmul_npy_type(const char *descr, enum mmul_dtype *dtype, bool *is_big) {
    const bool has_order = *descr == '<' || *descr == '>' || *descr == '=';
    for (size_t t = 0; (has_order || *descr == '|') && t < TYPE_COUNT; t++) {
        // Types of one byte have no byte order.
        if (strcmp(descr + 1, types[t].type) == 0 &&
            (has_order || mmul_dtype_bytes(types[t].dtype) == 1)) {
            *dtype = types[t].dtype;
            *is_big = *descr == '>';
            return true;
        }
    }
    return false;
}

static enum mmul_status read_descr(const char *descr, const char *name,
                                   struct mmul_npy_header *header, struct mmul_error *err) {
    if (mmul_npy_type(descr, &header->dtype, &header->big_endian))
        return MMUL_OK;
    mmul_fail(
        err, MMUL_ERR_DATA,
        "'%s' holds elements of numpy type '%s': f2, f4, f8 (float16, 32, 64), b1 (bool), i1 to "
        "i8 and u1 to u4 (int8 to 64, uint8 to 32) are read",
        name, descr);
    mmul_hint(err, "%s",
              *descr != '\0' && descr[1] == 'c'
                  ? MMUL_HINT_COMPLEX
                  : "save it from numpy with array.astype('float32')");
    return err->status;
}

static enum mmul_status scan_header(const unsigned char *bytes, size_t header_bytes,
                                    const char *name, struct fields *fields,
                                    struct mmul_error *err) {
    struct scanner scanner = {
        .at = (const char *)bytes + prefix_bytes(bytes),
        .end = (const char *)bytes + header_bytes,
        .problem = "",
    };
    if (scan_dict(&scanner, fields))
        return MMUL_OK;
    return mmul_fail(err, MMUL_ERR_DATA,
                     "'%s' is not a valid .npy file: byte %td of its header: expected %s", name,
                     scanner.at - (const char *)bytes, scanner.problem);
}

enum mmul_status mmul_npy_parse(const unsigned char *bytes, size_t header_bytes, const char *name,
                                bool empty_allowed, struct mmul_npy_header *header,
                                struct mmul_error *err) {
    struct fields fields = {0};
    struct mmul_npy_header found = {.version = bytes[6]};
    enum mmul_status status = scan_header(bytes, header_bytes, name, &fields, err);
    if (status == MMUL_OK)
        status = read_descr(fields.descr, name, &found, err);
    const bool is_empty =
        empty_allowed && fields.dimensions == 2 && (fields.sizes[0] == 0 || fields.sizes[1] == 0);
    if (is_empty)
        found.shape = (struct mmul_shape){1, 1, fields.sizes[0], fields.sizes[1]};
    else if (status == MMUL_OK)
        status =
            mmul_shape_from_sizes(fields.sizes, fields.dimensions, name, ".npy", &found.shape, err);
    found.dimensions = fields.dimensions;
    found.fortran_order = fields.fortran_order;
    if (status == MMUL_OK)
        *header = found;
    return status;
}

enum mmul_status mmul_npy_describe(const unsigned char *bytes, size_t header_bytes,
                                   const char *name, struct mmul_tensor_entry *entry,
                                   struct mmul_error *err) {
    struct fields fields = {0};
    struct mmul_npy_header found;
    struct mmul_error ignored;
    enum mmul_status status = scan_header(bytes, header_bytes, name, &fields, err);
    if (status == MMUL_OK && fields.dimensions > MMUL_TENSOR_DIMENSIONS)
        status = mmul_fail(err, MMUL_ERR_DATA, "'%s' has %d dimensions", name, fields.dimensions);
    if (status != MMUL_OK)
        return status;
    entry->is_readable = read_descr(fields.descr, name, &found, &ignored) == MMUL_OK;
    if (entry->is_readable)
        entry->dtype = found.dtype;
    snprintf(entry->type, sizeof entry->type, "%s",
             entry->is_readable ? mmul_dtype_name(entry->dtype) : fields.descr);
    entry->dimensions = fields.dimensions;
    memcpy(entry->sizes, fields.sizes, sizeof entry->sizes);
    return MMUL_OK;
}

// ----------------------------------------------------------------------------------------- writing

size_t mmul_npy_format(struct mmul_shape shape, int dimensions, enum mmul_dtype dtype,
                       unsigned char bytes[static MMUL_NPY_WRITTEN_MAX]) {
    size_t type = 0;
    enum { PREFIX = 10, ALIGNMENT = 64, AXES = 4 };
    const int64_t all[AXES] = {shape.batch, shape.depth, shape.rows, shape.cols};
    char sizes[96] = "", dict[MMUL_NPY_WRITTEN_MAX - PREFIX];
    while (type < TYPE_COUNT - 1 && types[type].dtype != dtype)
        type++;
    if (dimensions == 0)
        dimensions = mmul_shape_axes(shape);
    for (int i = AXES - dimensions; i < AXES; i++)
        snprintf(sizes + strlen(sizes), sizeof sizes - strlen(sizes), "%s%lld",
                 sizes[0] != '\0' ? ", " : "", (long long)all[i]);
    int written =
        snprintf(dict, sizeof dict, "{'descr': '%c%s', 'fortran_order': False, 'shape': (%s%s), }",
                 mmul_dtype_bytes(dtype) == 1 ? '|' : '<', types[type].type, sizes,
                 dimensions == 1 ? "," : "");
    size_t length = (size_t)written;
    size_t total = (PREFIX + length + 1 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    memset(bytes, ' ', total);
    memcpy(bytes, mmul_npy_magic, sizeof mmul_npy_magic);
    bytes[6] = 1;
    bytes[7] = 0;
    bytes[8] = (unsigned char)((total - PREFIX) & 0xFF);
    bytes[9] = (unsigned char)((total - PREFIX) >> 8);
    memcpy(bytes + PREFIX, dict, length);
    bytes[total - 1] = '\n';
    return total;
}
