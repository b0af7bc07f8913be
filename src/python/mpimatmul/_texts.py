# SPDX-License-Identifier: MIT
"""Texts of characters: encoding as numbers and decoding."""
import ctypes as c
import os

import numpy

from ._begin import collective, session
from ._library import Error
from ._paths import as_path
from ._values import Value, array, evaluate_named


class Tokens:
    """The result of `tokens`. `vocabulary`: number of distinct ids. `letters`: string of the
    characters in the order of their ids (None for bytes). `ids`: the text as an array of ids on
    root, None elsewhere."""

    def __init__(self, path, letters, ids):
        self.path, self.letters, self.ids = path, letters, ids
        self.vocabulary = 256 if letters is None else len(letters)

    def __repr__(self):
        return f"Tokens('{self.path}', {self.vocabulary} numbers)"


def _read(path, kind):
    """Returns the characters and ids of a text. Root only."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise Error(66, f"cannot open '{path}': {error.strerror}") from None
    if kind == "bytes":
        return "", numpy.frombuffer(data, "u1").astype("i4")
    try:
        points = numpy.frombuffer(data.decode().encode("utf-32-le"), "<u4")
    except UnicodeDecodeError as error:
        raise Error(65, f"'{path}' is not UTF-8: invalid byte at offset {error.start}",
                    'kind="bytes" takes any file') from None
    letters, ids = numpy.unique(points, return_inverse=True)
    return "".join(map(chr, letters)), ids.astype("i4")


@collective("tokens")
def tokens(file, kind="chars"):
    """Reads a text of root's file. The characters (UTF-8) are numbered in sorted order;
    kind="bytes" uses the bytes. Collective."""
    path = os.fsdecode(as_path(file))
    if kind not in ("chars", "bytes"):
        raise Error(64, f"no tokens of kind '{kind}': expected chars, bytes")
    s = session()
    letters, ids = s.on_root(lambda: _read(path, kind)) or ("", None)
    held = letters.encode()
    told = (c.c_char * s.broadcast(c.c_int64(len(held))).value)(*held)
    return Tokens(path, s.broadcast(told).raw.decode() if len(told) > 0 else None, ids)


def encode(letters, text):
    """Returns the ids of letters as a value (1, n), a batch of one window. Collective."""
    known = None if text.letters is None else {letter: i for i, letter in enumerate(text.letters)}
    ids = list(letters.encode()) if known is None else [known.get(letter, -1) for letter in letters]
    if not ids:
        raise Error(65, "encode: the string is empty")
    if -1 in ids:
        raise Error(65, f"'{text.path}' has no '{letters[ids.index(-1)]}'")
    return array([ids])


def decode(ids, text):
    """Returns the string for ids of a text, on all ranks. ids: a value, an array, or nested lists.
    Unknown ids become U+FFFD. Collective if ids is a value."""
    if isinstance(ids, Value):
        with session().together("decode", "decode"):
            found = evaluate_named("decode", [ids])[0]
            told = (c.c_int64 * numpy.prod(ids.shape, dtype=int))()
            if found is not None:
                told[:] = found.astype("i8").ravel().tolist()
            ids = session().broadcast(told)[:]
    ids = numpy.asarray(ids).ravel().tolist()
    if text.letters is None:
        return b"".join(bytes([i]) if 0 <= i < 256 else b"\xff" for i in ids).decode(errors="replace")
    return "".join(text.letters[i] if 0 <= i < text.vocabulary else "\ufffd" for i in ids)
