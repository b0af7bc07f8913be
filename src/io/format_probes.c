// SPDX-License-Identifier: MIT
// Probes the first bytes of files. Nothing beyond the given bytes is read. A wrong guess only
// chooses the words in which a file is refused, so each probe is as narrow as its format allows.
// The starts of .bin matrices (-3 to 4 as an int32) match none of them.
#include "io/format_probes.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

// Returns true if the name in a zip entry's local header ends with `part`: length at byte 26, name
// at 30.
static bool first_entry_ends_with(const unsigned char *start, size_t count, const char *part) {
    enum { LENGTH_AT = 26, NAME_AT = 30 };
    size_t part_bytes = strlen(part);
    if (count < NAME_AT)
        return false;
    size_t length = start[LENGTH_AT] | (size_t)start[LENGTH_AT + 1] << 8;
    if (length > count - NAME_AT || length < part_bytes)
        return false;
    return memcmp(start + NAME_AT + length - part_bytes, part, part_bytes) == 0;
}

bool mmul_is_npz(const unsigned char *start, size_t count) {
    return first_entry_ends_with(start, count, ".npy");
}

bool mmul_is_pytorch_zip(const unsigned char *start, size_t count) {
    return first_entry_ends_with(start, count, "/data.pkl") ||
           first_entry_ends_with(start, count, "/.format_version");
}

bool mmul_is_pickle(const unsigned char *start, size_t count) {
    return count >= 3 && start[0] == 0x80 && start[1] >= 2 && start[1] <= 5;
}

// The magic number is a LONG1 of 10 bytes. Since protocol 4 a frame precedes it.
bool mmul_is_old_pytorch(const unsigned char *start, size_t count) {
    static const unsigned char magic[] = "\x8A\n\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19";
    enum { PROTO = 2, FRAME = 9, MAGIC = sizeof magic - 1 };
    if (!mmul_is_pickle(start, count))
        return false;
    const size_t at = count > PROTO && start[PROTO] == 0x95 ? PROTO + FRAME : PROTO;
    return count >= at + MAGIC && memcmp(start + at, magic, MAGIC) == 0;
}

static bool is_blank(unsigned char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

bool mmul_is_safetensors(const unsigned char *start, size_t count) {
    enum { EMPTY = 2, LEAST = 9 }; // {} and {"a":{...}: shorter headers name no tensor
    uint64_t length = 0;
    if (count < 10)
        return false;
    for (int b = 7; b >= 0; b--)
        length = length << 8 | start[b];
    // Headers over 100 MB are refused later. Beyond 32 bits the file may be a .bin with a batch. A
    // header without tensors must fill the file: a .bin of 0 rows is longer.
    return (length >= LEAST || (length >= EMPTY && length == count - 8)) && length <= UINT32_MAX &&
           start[8] == '{' && (start[9] == '"' || start[9] == '}' || is_blank(start[9]));
}

bool mmul_is_text(const unsigned char *start, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!is_blank(start[i]) && (start[i] < 0x20 || start[i] == 0x7F || start[i] >= 0xF8))
            return false;
    return count > 0;
}

size_t mmul_mark_bytes(const unsigned char *start, size_t count) {
    static const char mark[] = "\xEF\xBB\xBF";
    enum { MARK = sizeof mark - 1 };
    return count >= MARK && memcmp(start, mark, MARK) == 0 ? MARK : 0;
}

bool mmul_is_mostly_text(const unsigned char *start, size_t count) {
    enum { BYTES_EACH = 16 }; // random bytes have one in 7
    size_t controls = 0;
    while (count > 0 && start[count - 1] == 0) // a file that was extended, but not written
        count--;
    for (size_t i = 0; i < count; i++)
        controls += !mmul_is_text(start + i, 1);
    return count > 0 && mmul_is_text(start, 1) && controls <= count / BYTES_EACH + 1;
}

// Returns true if the file begins with ASCII text of which character c is at byte `at` of 4.
static bool is_utf32_at(const unsigned char *start, size_t count, size_t at) {
    enum { EACH = 4, LEAST = 2 * EACH };
    for (size_t i = 0; i + EACH <= count; i += EACH)
        for (size_t b = 0; b < EACH; b++)
            if (b == at ? !mmul_is_text(start + i + b, 1) : start[i + b] != 0)
                return false;
    return count >= LEAST;
}

bool mmul_is_utf32(const unsigned char *start, size_t count) {
    static const unsigned char mark[] = {0xFF, 0xFE, 0, 0};
    return (count >= sizeof mark && memcmp(start, mark, sizeof mark) == 0) ||
           is_utf32_at(start, count, 0);
}

bool mmul_is_utf32_big(const unsigned char *start, size_t count) {
    static const unsigned char mark[] = {0, 0, 0xFE, 0xFF};
    return (count >= sizeof mark && memcmp(start, mark, sizeof mark) == 0) ||
           is_utf32_at(start, count, 3);
}

static bool is_utf16(const unsigned char *start, size_t count, bool is_big) {
    enum { LEAST = 8 };
    if (count < LEAST)
        return false;
    // A .bin of float16 begins with FE FF FF FF.
    if (is_big ? start[0] == 0xFE && start[1] == 0xFF && start[2] != 0xFF
               : start[0] == 0xFF && start[1] == 0xFE)
        return true;
    for (size_t i = 0; i + 1 < count; i += 2)
        if (start[i + !is_big] != 0 || !mmul_is_text(start + i + is_big, 1))
            return false;
    return true;
}

bool mmul_is_utf16(const unsigned char *start, size_t count) {
    return is_utf16(start, count, false);
}

bool mmul_is_utf16_big(const unsigned char *start, size_t count) {
    return is_utf16(start, count, true);
}

bool mmul_is_mtx(const unsigned char *start, size_t count) {
    static const char banner[] = "%%MatrixMarket";
    const size_t mark = mmul_mark_bytes(start, count);
    return count - mark >= sizeof banner - 1 &&
           strncasecmp((const char *)start + mark, banner, sizeof banner - 1) == 0;
}

bool mmul_is_json(const unsigned char *start, size_t count) {
    size_t first = 0;
    while (first < count && is_blank(start[first]))
        first++;
    return first < count && (start[first] == '{' || start[first] == '[') &&
           mmul_is_text(start, count);
}

bool mmul_is_json_lines(const unsigned char *start, size_t count) {
    const unsigned char *line = memchr(start, '\n', count);
    if (line == NULL || !mmul_is_json(start, count))
        return false;
    const size_t first = (size_t)(line - start);
    const unsigned char closing = start[0] == '[' ? ']' : '}';
    size_t last = first;
    while (last > 0 && is_blank(start[last - 1]))
        last--;
    return last > 0 && start[last - 1] == closing && first + 1 < count && line[1] == start[0];
}

// Looks for two protobuf fields: the version of ONNX, then a field of a model that is either as
// short as a version or has a length.
bool mmul_is_onnx(const unsigned char *start, size_t count) {
    enum { VERSION = 1 << 3, VERSION_MOST = 64 };
    if (count < 3 || start[0] != VERSION || start[1] == 0 || start[1] > VERSION_MOST)
        return false;
    const int field = start[2] >> 3, kind = start[2] & 7;
    return field == 5 ? kind == 0 : field >= 2 && field <= 8 && kind == 2;
}
