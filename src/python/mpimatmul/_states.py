# SPDX-License-Identifier: MIT
"""Named values in a file, such as the state of models and optimizers, and values from parts in the
memory of the ranks."""
import ctypes as c
import os
import warnings

import numpy

from . import _caller, _library as lib
from ._begin import collective, session
from ._library import Error, check, library
from ._paths import as_path
from ._program import format_sizes
from ._values import as_value, hold_kept, load, loads, save_all


def matched(state, own, owner):
    """Returns the values of a state by the names of `own`. Checks that names and shapes are those
    of the owner."""
    for name in own:
        if name not in state:
            raise Error(65, f"the state lacks '{name}' of the {owner}", _SAME)
    for name in state:
        if name not in own:
            raise Error(65, f"the state has '{name}', which the {owner} lacks", _SAME)
    values = {name: as_value(state[name]) for name in own}
    for name, value in values.items():
        if value.shape != own[name].shape:
            raise Error(65, f"'{name}' of the state is {format_sizes(value.shape)}, in the {owner} it is "
                        f"{format_sizes(own[name].shape)}", _SAME)
    return values


_SAME = "a state fits only the same layers with the same sizes"


def save_file(tensors, path):
    """Writes a dict of names and values to a .safetensors file, like the function of the
    safetensors package. A one-axis value, such as a bias, has one axis in the file. Collective."""
    path = as_path(path)
    if not path.endswith(b".safetensors"):
        raise Error(64, f"cannot take '{os.fsdecode(path)}': the name of a state's file must end in .safetensors")
    if not tensors:
        raise Error(64, f"cannot write '{os.fsdecode(path)}': there are no values")
    save_all([(path + b":" + os.fsencode(name), as_value(value)) for name, value in tensors.items()], one_axis=True)


def _read_tensor_names(inputs, path):
    """Returns the names of tensors that can become values, after the file's checksums were
    verified. Warns about the others. Root only."""
    file, tensors, matrix, names, left = os.fsdecode(path), c.c_void_p(), c.c_void_p(), [], []
    check(library.mmul_inputs_open_tensors, inputs, path, c.byref(tensors))
    if not tensors:
        check(library.mmul_inputs_open_matrix, inputs, path, c.byref(matrix))  # fails if the file cannot be read
        library.mmul_matrix_close(matrix)
        raise Error(65, f"'{file}' holds a single unnamed matrix", "use load")
    try:
        check(library.mmul_tensors_check, tensors)
        for i in range(library.mmul_tensors_info(tensors).count):
            tensor = library.mmul_tensors_get(tensors, c.c_int64(i))
            if library.mmul_tensor_is_matrix(c.byref(tensor)):
                names.append(tensor.name)
            else:
                sizes = format_sizes(tensor.sizes[:tensor.dimensions]) or "a number" * tensor.is_readable
                kind = tensor.type.decode(errors="replace")
                left.append(f"'{os.fsdecode(tensor.name)}' ({sizes + ', ' * bool(sizes)}{kind})")
    finally:
        library.mmul_tensors_close(tensors)
    if left:
        more = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
        text = f"'{file}': not loaded: {', '.join(left[:_NAMED])}{more}"
        warnings.warn("".join(x if x.isprintable() else "?" for x in text), stacklevel=_caller.depth())
    return names


_NAMED = 4  # limit in a warning


@collective("load_file")
def load_file(path):
    """Loads the values of root's .safetensors, .npz, .pt or .gguf file by name. All come from one
    version of the file; checksums are verified if there are any. A tensor that cannot be a value
    (unsupported type, a single number, more than 4 axes) is left out with a warning. Collective."""
    path = as_path(path)
    values = loads(lambda inputs: [path + b":" + name for name in _read_tensor_names(inputs, path)])
    return {os.fsdecode(name[len(path) + 1:]): value for name, value in values.items()}


@collective("keep")
def keep(name, part, axis=-2):
    """Makes a value from each rank's part in memory: rows (axis -2) or columns (-1), in the order
    of ranks. A rank may have none. The value then stays on the ranks as load("kept:name").
    Collective."""
    s, held, error = session(), numpy.asarray(part), None
    if held.ndim != 2 or held.dtype.kind != "f" or axis not in (-2, -1):
        error = Error(65, f"an array of {held.dtype}, {held.ndim} axes, cannot be a part: "
                          "expected float32 or float64, 2")
    s.agree(error)
    held = numpy.ascontiguousarray(held, dtype="f8" if held.dtype == "f8" else "f4")
    rows, cols = held.shape
    own = lib.sized(lib.LocalPart, data=held.ctypes.data if held.size else None, rows=rows, cols=cols, row_step=cols,
                    dtype=lib.F64 if held.dtype == "f8" else lib.F32, axis=2 + axis)
    hold_kept([name.encode()])
    check(library.mmul_keep_part, s.context, name.encode(), c.byref(own))
    return load("kept:" + name)
