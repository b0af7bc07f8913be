// SPDX-License-Identifier: MIT
// UTF-8: the length of a character, and conversion of any bytes to one printable line.
#include "mpimatmul_local.h"

// Byte ranges: RFC 3629, and table 3-7 of the Unicode standard.
int mmul_utf8_length(const char *text) {
    const unsigned char *bytes = (const unsigned char *)text;
    unsigned first = bytes[0];
    int length = first < 0x80 ? 1 : first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    if (first > 0xF4)
        return 0;
    for (int i = 1; i < length; i++)
        if ((bytes[i] & 0xC0) != 0x80)
            return 0;
    bool is_overlong = (first == 0xE0 && bytes[1] < 0xA0) || (first == 0xF0 && bytes[1] < 0x90);
    bool is_surrogate = first == 0xED && bytes[1] > 0x9F;
    bool is_beyond = first == 0xF4 && bytes[1] > 0x8F;
    return is_overlong || is_surrogate || is_beyond ? 0 : length;
}

// Returns true for characters that change the display order of a terminal (bidirectional controls):
// U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069.
static bool is_direction(const unsigned char bytes[static 3]) {
    const bool is_mark = bytes[1] == 0x80 && (bytes[2] == 0x8E || bytes[2] == 0x8F),
               is_embedding = bytes[1] == 0x80 && bytes[2] >= 0xAA && bytes[2] <= 0xAE,
               is_isolate = bytes[1] == 0x81 && bytes[2] >= 0xA6 && bytes[2] <= 0xA9;
    return bytes[0] == 0xE2 && (is_mark || is_embedding || is_isolate);
}

char *mmul_make_printable(char *text) {
    char *to = text;
    for (const char *at = text; *at != '\0';) {
        const unsigned char *bytes = (const unsigned char *)at;
        int length = mmul_utf8_length(at);
        bool is_control = (length == 1 && (bytes[0] < 0x20 || bytes[0] == 0x7F)) ||
                          (length == 2 && bytes[0] == 0xC2 && bytes[1] < 0xA0) ||
                          (length == 3 && is_direction(bytes));
        if (length == 0 || is_control) {
            *to++ = '?';
            at += length == 0 ? 1 : length;
        }
        for (int i = 0; !is_control && i < length; i++)
            *to++ = *at++;
    }
    *to = '\0';
    return text;
}
