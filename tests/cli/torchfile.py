# SPDX-License-Identifier: MIT
"""Writes files in the form of torch.save with Python's own zipfile and pickle. The modules here
have torch's names and contain nothing but names."""
import io
import pickle
import sys
import types
import zipfile
from collections import OrderedDict

STORAGES = {"f4": "Float", "f2": "Half", "f8": "Double", "i8": "Long", "i4": "Int", "i2": "Short", "i1": "Char",
            "u1": "Byte", "b1": "Bool", "c8": "ComplexFloat"}

for _module in "torch", "torch._utils", "torch.storage":
    sys.modules[_module] = types.ModuleType(_module)


def _named(module, name):
    made = type(name, (), {"__module__": module})
    setattr(sys.modules[module], name, made)
    return made


class _Called:
    """An object pickled as a call of module.name."""

    def __init__(self, module, name, *arguments):
        self.call = getattr(sys.modules[module], name, None) or _named(module, name), arguments

    def __reduce__(self):
        return self.call


class _Storage:
    def __init__(self, kind, array):
        self.id = ("storage", getattr(sys.modules["torch"], kind, None) or _named("torch", kind), array.nbytes)
        self.bytes = array.tobytes()


class _Pickler(pickle.Pickler):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.storages = []

    def persistent_id(self, obj):
        if not isinstance(obj, _Storage):
            return None
        if obj not in self.storages:
            self.storages.append(obj)
        return (*obj.id[:2], str(self.storages.index(obj)), "cpu", obj.id[2])


def storage(array):
    return _Storage(STORAGES[array.dtype.str[1:]] + "Storage", array)


def tensor(of, sizes, strides=None, first=0, *more):
    """A tensor of a storage, or of an array in its own layout."""
    if strides is None:
        strides = [1] * len(sizes)
        for d in range(len(sizes) - 2, -1, -1):
            strides[d] = strides[d + 1] * sizes[d + 1]
    return _Called("torch._utils", "_rebuild_tensor_v2", of, first, tuple(sizes), tuple(strides), False, OrderedDict(),
                   *more)


def tensor_v3(array, name):
    """An array of a type that has no storage of its own."""
    of = _Storage("UntypedStorage", array)
    strides = tuple(s // array.itemsize for s in array.strides)
    kind = getattr(sys.modules["torch"], name, None) or _named("torch", name)
    return _Called("torch._utils", "_rebuild_tensor_v3", of, 0, array.shape, strides, False, OrderedDict(), kind, None)


def call(module, name, *arguments):
    if module not in sys.modules:
        sys.modules[module] = types.ModuleType(module)
    return _Called(module, name, *arguments)


def save(obj, path, protocol=2, order=None, compression=zipfile.ZIP_STORED):
    stream = io.BytesIO()
    pickler = _Pickler(stream, protocol)
    pickler.dump(obj)
    save_pickle(stream.getvalue(), path, [s.bytes for s in pickler.storages], order, compression)


def save_pickle(text, path, storages=(), order=None, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr("archive/data.pkl", text)
        if order is not None:
            file.writestr("archive/byteorder", order)
        for number, data in enumerate(storages):
            file.writestr(f"archive/data/{number}", data)
        file.writestr("archive/version", "3\n")
