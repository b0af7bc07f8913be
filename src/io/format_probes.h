// SPDX-License-Identifier: MIT
// Probes of the first bytes, for formats without a plain magic number. Pure.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// Zip archives, by the name of their first entry.
bool mmul_is_npz(const unsigned char *start, size_t count);
bool mmul_is_pytorch_zip(const unsigned char *start, size_t count);

// A pickle of protocol 2 to 5; a pickle that starts with PyTorch's magic number.
bool mmul_is_pickle(const unsigned char *start, size_t count);
bool mmul_is_old_pytorch(const unsigned char *start, size_t count);

// A length of eight bytes, then a JSON object of that length.
bool mmul_is_safetensors(const unsigned char *start, size_t count);

// Only printable characters (ASCII, UTF-8 in form) and white space.
bool mmul_is_text(const unsigned char *start, size_t count);

// Text that begins with a printable character, and has few control bytes.
bool mmul_is_mostly_text(const unsigned char *start, size_t count);

// Text in UTF-16 or UTF-32, little-endian and big-endian: with a byte order mark, or ASCII
// throughout. A byte order mark of UTF-32 is also one of UTF-16.
bool mmul_is_utf16(const unsigned char *start, size_t count);
bool mmul_is_utf16_big(const unsigned char *start, size_t count);
bool mmul_is_utf32(const unsigned char *start, size_t count);
bool mmul_is_utf32_big(const unsigned char *start, size_t count);

// Returns the length of a byte order mark of UTF-8 at the beginning, 0 without one.
size_t mmul_mark_bytes(const unsigned char *start, size_t count);

// "%%MatrixMarket" in any case, also behind a byte order mark of UTF-8.
bool mmul_is_mtx(const unsigned char *start, size_t count);

// Text that begins with a brace or a bracket.
bool mmul_is_json(const unsigned char *start, size_t count);
bool mmul_is_json_lines(const unsigned char *start, size_t count); // one after the other

// A model as protobuf.
bool mmul_is_onnx(const unsigned char *start, size_t count);
