# SPDX-License-Identifier: MIT
"""Values of a script: a tree of operations that is computed on demand.

All ranks run the same script. Values that are computed together form one program of the library and
one job, and intermediate values stay on the ranks. Leaves are root's files and arrays; other ranks
know only their shapes.
"""
import builtins
import contextlib
import ctypes as c
import math
import operator
import os
import warnings
import weakref

import numpy

from . import _caller, _elements, _html, _library as lib
from ._begin import OPTIONS, begun, collective, session
from ._library import Error, check, library
from ._paths import as_path, check_type, split
from . import _program
from ._program import Building, Expression, Program, as_shape, format_sizes, known_result, stack, try_operation


_steps = 0  # steps of the optimizer that stepped last


def count_steps(turn):
    """Stores the number of steps of an optimizer, for `top`."""
    global _steps
    _steps = turn


def _report_number(value, number):
    """Reports to `top` a number that the script reads, by its name or line, and the number of steps
    before."""
    here = begun()
    if not here or not here.context:
        return
    name = next((name for name, thing in _caller.things(Value) if thing is value), _caller.place())
    library.mmul_context_publish_number(here.context, name.encode("utf-8", "replace"), c.c_double(number))
    if _steps:
        library.mmul_context_publish_number(here.context, b"steps", c.c_double(_steps))


_is_taping = True  # false inside no_grad()


@contextlib.contextmanager
def no_grad():
    """with no_grad(): values made inside require no gradient."""
    global _is_taping
    before, _is_taping = _is_taping, False
    try:
        yield
    finally:
        _is_taping = before


def _leaves(operands):
    """Returns the leaves of the operands that require a gradient, in order: {id: value}."""
    found = {}
    for v in operands:
        if type(v) is float:
            continue
        of = v.leaves if v.slot is None else {id(v): v}
        if of:
            found = {**found, **of} if found else of
    return found


class Slot:
    """Sums the gradients of a leaf."""

    def __init__(self):
        self.grad = None


class Value(Expression):
    """A matrix or stack with up to four axes and numpy's `shape`. float64 if all its inputs are,
    else float32. Functions of elements, and functions of this package that are methods of numpy
    arrays or torch tensors, are methods here, too."""

    __array_priority__ = 1000  # numpy leaves operators to this class

    def __init__(self, shape, make, operands=(), integers=False, name=None, is_row=False, stored=None, operation=None):
        super().__init__(shape, make, operands, integers, name, stored, operation)
        self.is_row = is_row  # has one axis in numpy, and is a row (1, n) here
        # Made of differences of all pairs of a column and a row of equal length.
        self.are_pairs = False
        self.is_bool = False  # holds bools as 1 and 0
        self.corner = None  # root: first rows and columns, once computed
        if _is_taping and not integers:
            self.leaves = _leaves(operands)

    ndim = property(lambda self: len(self.shape), doc="How many axes.")

    @property
    def dtype(self):
        """The element type, as far as known without computing. Integers are int32, or int64 if an
        element needs it."""
        if self.integers:
            return numpy.dtype("i4")
        return numpy.dtype("f8" if self.stored == "f8" and not OPTIONS["float32"] else "f4")

    @property
    def requires_grad(self):
        """True if backward() gives gradients to this value or passes them through it. Can be set
        for a leaf, whose inputs require none."""
        return self.slot is not None or bool(self.leaves)

    @requires_grad.setter
    def requires_grad(self, wanted):
        value = as_value(self)
        if value.leaves:
            raise Error(64, "requires_grad can only be set for a leaf: this value depends on values that require a "
                        "gradient",
                        "compute it inside `with mm.no_grad():`")
        if value.integers:
            raise Error(64, "integers have no gradient")
        value.slot = (value.slot or Slot()) if wanted else None

    @property
    def grad(self):
        """The sum of a leaf's gradients since the last assignment of None, or None."""
        return self.slot.grad if self.slot is not None else None

    @grad.setter
    def grad(self, gradient):
        if self.slot is not None:
            self.slot.grad = gradient
        elif gradient is not None:
            raise Error(64, "a value without requires_grad has no gradient", "set its requires_grad = True")

    def __len__(self):
        return self.shape[0]

    def __iter__(self):
        """Iterates over x[i] along the first axis."""
        if self.is_row:
            raise Error(64, f"cannot iterate over a one-axis value, which is stored as a row "
                        f"(1 x {self.shape[1]}) here",
                        "x.tolist()[0] has its numbers, x.reshape(-1, 1) is a column")
        return (self[i] for i in range(len(self)))

    def __copy__(self):
        return self

    def __deepcopy__(self, _):
        return self  # values are immutable

    def __reduce_ex__(self, _):
        raise TypeError("a value cannot be pickled, because its elements are on the ranks: mm.save('x.npy', value) "
                        "saves it (mm.load has it again), value.numpy() is an array on root")

    def __repr__(self):
        text = f"{type(self).__name__}({format_sizes(self.shape)}, {self.dtype})"
        if self.corner is None:
            return text
        rows, cols = self.corner.shape
        lines = numpy.array2string(self.corner, precision=6, threshold=1000).split("\n")
        if cols < self.shape[-1]:
            lines = [line.rstrip("]") + " ..." + line[len(line.rstrip("]")):] for line in lines]
        if rows < self.shape[-2] or math.prod(self.shape[:-2]) > 1:
            lines.append(" ...")
        return "\n".join([text, *lines])

    _repr_html_ = _html.shown

    def __bool__(self):
        raise TypeError("a matrix has no truth value: float(v) gives the number of a 1 x 1 value")

    def numpy(self):
        """Returns the elements as an array on root (rank 0), None on all other ranks. `local`
        returns what each rank holds, item() the number of a 1 x 1 value on all ranks.
        Collective."""
        return evaluate_named("numpy", [self])[0]

    def tolist(self):
        """Returns the elements in nested lists on root, None on all other ranks. Collective."""
        found = evaluate_named("tolist", [self])[0]
        return None if found is None else found.tolist()

    def item(self):
        """Returns the number of a 1 x 1 value on all ranks. Collective."""
        if math.prod(self.shape) != 1:
            raise TypeError(f"a value of {format_sizes(self.shape)} is not one number")
        with session().together("item", "float"):
            found = evaluate(self)[0]
            number = session().broadcast(c.c_double(0 if found is None else found.item())).value
        _report_number(self, number)
        return int(number) if self.integers else number

    def __float__(self):
        return float(self.item())

    def __format__(self, spec):
        """Formats a 1 x 1 value as its number, like `print`; collective in that case."""
        if math.prod(self.shape) != 1:
            return format(repr(self), spec)
        number = self.item()
        return format(number, spec or ("d" if isinstance(number, int) else ".6g"))

    def __int__(self):
        return int(self.item())

    def local(self):
        """Returns the parts that this rank holds: [(matrix, row, column, array)], with the array's
        position in the stack. Collective."""
        return local_parts(self)

    def __array__(self, dtype=None, copy=None):
        array = self.numpy()
        if array is None:
            raise Error(64, f"rank {session().rank} has no array of a value: only root, rank 0, has its elements, and "
                            "numpy() is None elsewhere", "value.local() is what this rank holds")
        return array if dtype is None else array.astype(dtype)


def is_number(v):
    return type(v) is float or (isinstance(v, (int, float, numpy.number)) and not isinstance(v, numpy.complexfloating))


def as_value(x):
    return x.current() if isinstance(x, Value) else array(x)


_COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
# Operations that pass no gradient.
_STEPS = _elements.WITHOUT_GRADIENT | {"stop_gradient", "all", "any"}
_ELEMENTS = _elements.NAMES | {"clip"}
# Operations that return integers for integer operands.
_MOVES = ("slice", "reshape", "permute", "sort", "take", "transpose")
# A one-axis operand gives a one-axis result, except for these operations.
_NO_ROWS = ("matmul", "reshape", "permute", "transpose", "concat", "take", "cross_entropy", "mse",
            "binary_cross_entropy")


def _are_rows(matrices, may_be_longer):
    """Returns true if the result has one axis, as all its operands do. One-element operands do not
    count, and a sum of a longer row has no axis."""
    longer = [v for v in matrices if math.prod(v.shape) > 1]
    return (any(v.is_row for v in matrices) and all(v.is_row for v in longer) and (may_be_longer or not longer))


def apply(name, operands, ndim=None, **parameters):
    """Makes a value by an operation. The library computes its sizes; the last `ndim` of them are
    its shape."""
    given = [(i, v.of) for i, v in enumerate(operands) if type(v) is _program.Given] if _program.recorder else ()
    operands = [v if type(v) is float else v.current() if isinstance(v, Value) else
                float(v) if is_number(v) else array(v) for v in operands]
    parameters = tuple(parameters.items())
    sizes, kinds, alike, values = [], [], [], []
    for v in operands:
        if type(v) is float:
            sizes.append(v)
            kinds.append(None)
            # Sizes and kinds depend on no number, except 0 and 1, which may be bools.
            alike.append(v if v in (0.0, 1.0) or name not in _ELEMENTS or name == "clip" else 0.5)
        else:
            sizes.append(v.shape)
            kinds.append("bools" if v.is_bool else "integers" if v.integers else None)
            alike.append(v.shape)
            values.append(v)
    kinds = tuple(kinds)
    found = known_result(name, tuple(alike), kinds, parameters)
    # Try again with the script's names for the error message.
    if found is None:
        names = _caller.names(Value)
        found = try_operation(name, sizes, kinds, parameters, [v if type(v) is float else names.get(id(v)) or v.name
                                                               for v in operands])
    shape, integers, is_bool = found
    ndim = ndim or builtins.max([len(v.shape) for v in values])
    moved = name in _MOVES and operands[0].integers

    def make(program, ids):
        return program.apply(name, ids, parameters, *program.words())

    result = Value(shape[4 - ndim:], make, operands, integers or moved, operation=name)
    result.is_row = name not in _NO_ROWS and result.shape[:-1] == (1,) and _are_rows(
        values, math.prod(result.shape) > 1 or name == "slice")
    result.is_bool, result._parameters = is_bool, parameters
    if given:
        result._given = given
    if name in _STEPS:
        result.leaves = {}
    if name in _ELEMENTS:
        result.are_pairs = any(v.are_pairs for v in values)
        if len(operands) == len(values) == 2 and _are_column_and_row(*sizes):
            result.are_pairs |= name == "subtract"
            if name in _COMPARISONS:
                warn("compares all pairs of {} and {}".format(*map(format_sizes, sizes)))
    return result


def _are_column_and_row(x, y):
    """Returns true for n x 1 and 1 x n with n > 1. Both are broadcast, and often one was meant to
    be transposed."""
    return x[-2:] == y[-1:-3:-1] and 1 in x[-2:] and x[-2:] != (1, 1)


def warn(text):
    """Warns at the script's line. Root only."""
    if not begun() or begun().rank == 0:
        warnings.warn(text, stacklevel=_caller.depth())


# ---------------------------------------------------------------------------------------- leaves


def _copy(data):
    """Copies an array in C order, as the library reads it, so that later changes of the array have
    no effect."""
    found = numpy.asarray(data)
    kind = found.dtype.kind
    if kind not in "biuf":
        raise Error(65, f"an array of {found.dtype} cannot be a value: expected real numbers")
    if kind == "u" and found.size > 0 and found.max() >= 1 << 63:
        raise Error(65, f"{found.max()} cannot be an element: expected whole numbers below 2^63")
    held = numpy.array(found, dtype="?" if kind == "b" else "i8" if kind in "iu" else
                       "f8" if found.dtype.itemsize > 4 else "f4", order="C")
    return held.reshape(1, -1) if held.ndim < 2 else held


@collective("array")
def array(data):
    """Returns root's array as a value, copied. Other ranks may pass None. Up to four axes; an array
    with one axis is a row. Collective."""
    return arrays(1, lambda: [data])[0]


def arrays(count, read):
    """Returns root's arrays as values. read() returns `count` of them on root. All sizes are sent
    in one message. Collective."""
    s = session()
    copies = s.on_root(lambda: [(_copy(data), numpy.ndim(data) == 1) for data in read()])
    told = (c.c_int64 * 9 * count)()
    for words, (held, is_row) in zip(told, copies or ()):
        words[:] = [held.ndim, *stack(held.shape)[:4], held.dtype.kind in "bi", is_row, held.dtype == "f8",
                    held.dtype == "?"]
    s.broadcast(told)
    return [_value_of_array(words, held) for words, (held, _) in zip(told, copies or [(None, None)] * count)]


def _value_of_array(told, held):
    """Returns the value of root's array copy, from the sizes sent to all ranks."""
    if told[0] > 4 or 0 in told[1:5]:
        raise Error(65, f"an array of {told[0]} axes cannot be a value: expected 1 to 4, none of them empty")

    def make(program, _):
        matrix, value = c.c_void_p(), c.c_int()
        check(library.mmul_matrix_borrow, held.ctypes.data_as(c.c_void_p), as_shape(held.shape),
              {"bool": lib.BOOL, "int64": lib.I64, "float64": lib.F64, "float32": lib.F32}[held.dtype.name],
              program.word("array").encode(), c.byref(matrix))
        return program.load(matrix, value, program.word("array"))

    value = Value(tuple(told[5 - told[0]:5]), make, integers=bool(told[5]), is_row=bool(told[6]),
                  stored=_stored(told[5], told[7]))
    value.is_bool, value._memory = bool(told[8]), held
    return value


def _stored(integers, is_double):
    return None if integers else "f8" if is_double else "f4"


@collective("load")
def load(path):
    """Loads a file of root, a tensor in it ("model.safetensors:name"), or a persistent set
    ("kept:name"), in its current version. A file renamed to that path later has no effect.
    Collective."""
    path = as_path(path)
    return loads(lambda _: [path])[path]


def loads(find):
    """Returns values by their paths, which find(inputs) gives on root. All tensors of a file come
    from one version of it. Collective."""
    s = session()
    found = s.on_root(lambda: _open_all(find)) or []
    text = b"\0".join(path for path, _, _ in found)
    counts = s.broadcast((c.c_int64 * 2)(len(found), len(text)))
    text = s.broadcast(c.create_string_buffer(text, counts[1] + 1)).raw[:-1]
    told = (c.c_int64 * 9 * counts[0])()
    for words, (_, _, sizes) in zip(told, found):
        words[:] = sizes
    s.broadcast(told)
    sources = [source for _, source, _ in found] or [None] * counts[0]
    return {path: _value_of_source(words, source, path)
            for words, source, path in zip(told, sources, text.split(b"\0"))}


def _value_of_source(told, source, path):
    value = Value(tuple(told[4 - told[5]:4]), lambda program, _: source.load(program), integers=bool(told[4]),
                  name=os.fsdecode(path), is_row=bool(told[6]), stored=_stored(told[4], told[7]))
    value.is_bool = bool(told[8])
    if isinstance(source, _Kept):
        _kept_values.setdefault(source.name, []).append(weakref.ref(value))
    return value


def _open_all(find):
    inputs = c.c_void_p()
    check(library.mmul_inputs_create, c.byref(inputs))
    try:
        opened = []
        for path in find(inputs):
            kept = library.mmul_kept_name(path)
            source = _Kept(kept) if kept is not None else _File(inputs, path)
            opened.append((path, source, source.sizes()))
        return opened
    finally:
        library.mmul_inputs_destroy(inputs)


_SMALL_BYTES = 1 << 20  # files up to this size are read at once, larger ones stay open


class _Source:
    """The source of a loaded value. Root only. Sizes are those of the engine."""

    def sizes(self):
        with Program() as program:
            value, integers = self.load(program), c.c_bool()
            is_double = program.dtype(value) == lib.F64
            sizes = library.mmul_program_value_shape(program.handle, value, c.byref(integers)).sizes()
            return *sizes, integers.value, *self.axes(sizes), is_double, program.is_bool(value)


class _File(_Source):
    """A matrix file that stays open as long as a value uses it."""

    def __init__(self, inputs, path):
        self.name, self.matrix = os.fsdecode(path), c.c_void_p()
        check(library.mmul_inputs_open_matrix, inputs, path, c.byref(self.matrix))
        weakref.finalize(self, library.mmul_matrix_close, self.matrix).atexit = False
        self.info = library.mmul_matrix_info(self.matrix)
        if self.info.has_header:
            warnings.warn(f"the first line of '{self.name}' is a header and was skipped", stacklevel=_caller.depth())
        if self.info.file_bytes <= _SMALL_BYTES:
            check(library.mmul_matrix_detach, self.matrix)

    def axes(self, _):
        """Returns the number of axes, and if the file has one axis, which makes a row."""
        return self.info.dimensions, self.info.one_dimensional

    def load(self, program):
        if library.mmul_matrix_was_written(self.matrix):
            raise Error(65, f"'{self.name}' was written to after it was loaded",
                        "load it again, or write new contents to another file and rename that")
        return program.load_shared(self.matrix, c.c_int(), self.name)


class _Kept(_Source):
    """A persistent set of the ranks, in the version that was found first."""

    def __init__(self, name):
        self.name, self.version = name, None

    def axes(self, sizes):
        return 4 if sizes[0] > 1 else 3 if sizes[1] > 1 else 2, False

    def load(self, program):
        value = c.c_int()
        check(library.mmul_program_load_kept, program.handle, session().shard_folder, self.name, c.byref(value))
        version = library.mmul_program_kept_version(program.handle, value)
        if self.version not in (None, version):
            raise Error(65, f"'kept:{os.fsdecode(self.name)}' was replaced after it was loaded", "load it again")
        self.version = version
        return value.value


_kept_values = {}  # root: weak references to values loaded from persistent sets, by name


def hold_kept(names):
    """Holds values loaded from persistent sets on the ranks before the sets are replaced.
    Collective."""
    with Program() as program:
        def build():
            for name in names:
                for value in [reference() for reference in _kept_values.pop(name, ())]:
                    if value is not None and value.held is None:
                        program.hold_leaf(value)
            return len(program.holds)
        count = session().broadcast(c.c_int(session().on_root(build) or 0))
        if count.value > 0:
            program.run()


def generate(shape, kind="uniform", seed=1):
    """Generates elements from their positions, so any rank can compute its part. `kind` as for
    `mpimatmul gen`."""
    number, error = c.c_int(), lib.ErrorText()
    if library.mmul_generator_parse(kind.encode(), c.byref(number), c.byref(error)) != 0:
        raise Error(error.status, error.text.decode(), error.hint.decode())
    shape = tuple(shape) if len(shape) > 1 else (1, *shape)
    if len(shape) > 4:
        raise Error(64, f"cannot generate {len(shape)} axes: expected 1 to 4")
    if operator.index(seed) < 0:
        raise Error(64, "seed must be at least 0")
    with Building() as trial:  # reports an error at the script's line now
        trial.generate(shape)
    made = Value(shape, lambda program, _: program.generate(shape, number.value, seed, program.word("generate")))
    made._parameters = (kind, seed)
    return made


def rand(shape, seed=1):
    """Draws uniformly from [0, 1), as torch. `generate` with kind "uniform" draws from [-1, 1)."""
    return generate(shape, "rand", seed)


# ------------------------------------------------------------------------------------ evaluation


def evaluate(*values):
    """Computes all values in one job. Returns their elements as arrays on root, None elsewhere.
    Collective."""
    return evaluate_named("evaluate", values)


def evaluate_named(name, values):
    """As evaluate, under the script's name of the call. numpy, print and evaluate are of one kind,
    so ranks may mix them."""
    s = session()
    with s.together("evaluate", name):
        return _evaluate(s, [as_value(v) for v in values])


def _evaluate(s, values):
    with Program() as program:
        def build():
            program.expect(values)
            dtypes = [program.dtype(program.add(v)) for v in values]
            results = [numpy.empty(v.shape, dtype="f8" if d == lib.F64 else "f4") for v, d in zip(values, dtypes)]
            for v, result, dtype in zip(values, results, dtypes):
                program.fetch(v, result, dtype)
            program.hold_again(values)
            return results
        results = s.on_root(build)
        program.run()
    if results is None:
        return [None] * len(values)
    results = [_as_whole(r) if v.integers else r for v, r in zip(values, results)]
    for v, r in zip(values, results):
        v.corner = r[(0,) * (r.ndim - 2)][:4, :6].copy()
    return results


def _as_whole(found):
    return found.astype("i8" if abs(found).max() >= 1 << 31 else "i4")


_pending = None  # saves of a `with program():` block


class program:
    """with program(): saves inside are computed in one job at the end. Collective."""

    def __enter__(self):
        global _pending
        if _pending is not None:
            raise Error(64, "programs cannot be nested")
        _pending = []

    def __exit__(self, kind, *_):
        global _pending
        saves, _pending = _pending, None
        if kind is None and saves:
            save_all(saves)


def save(path, value):
    """Writes a value to a file of root, or leaves it on the ranks ("kept:name"): now, or at the end
    of a `with program():` block. Collective."""
    path, value = as_path(path), as_value(value)
    if _pending is not None:
        _pending.append((path, value))
    else:
        save_all([(path, value)])


@collective("save")
def save_all(saves, one_axis=False):
    """Writes several values in one job. one_axis: rows are written with one axis."""
    kept_names = [library.mmul_kept_name(path) for path, _ in saves]
    if any(kept_names):
        hold_kept(filter(None, kept_names))
    with Program() as program:
        def build():
            made = {}  # per file: its first output, and its tensors
            program.expect([value for _, value in saves])
            for (path, value), kept in zip(saves, kept_names):
                if kept is not None:
                    program.keep(value, kept)
                    continue
                output = c.c_void_p()
                file, tensor = split(path)
                beside, tensors = made.setdefault(file, (output, set()))
                if tensor in tensors:
                    raise Error(65, f"cannot save to '{os.fsdecode(path)}': it is already saved")
                tensors.add(tensor)
                dtype = lib.I32 if value.integers else program.dtype(program.add(value))
                check_type(path, dtype)
                request = lib.sized(lib.OutputRequest, path=path, shape=as_shape(value.shape), dtype=dtype,
                                    dimensions=1 if one_axis and value.is_row else value.ndim, beside=beside)
                check(library.mmul_output_create, c.byref(request), c.byref(output))
                program.save(value, output)
            program.hold_again([value for _, value in saves])
        session().on_root(build)
        program.run()


@collective("persist")
def persist(*values):
    """Computes values and leaves them on the ranks and their devices, where later computations use
    them. A loss stays, too, if the values depend on its gradients. A value is released with its
    last reference. Returns the values, or the single one. Collective."""
    with Program() as program:
        def build():
            given = [v.current() for v in values if isinstance(v, Value)]
            program.expect([v for v in given if v.operands and v.held is None])
            for value in {id(v): v for v in given}.values():
                program.hold(value)
            program.hold_losses()
            program.hold_again(())
            return len(program.holds)
        count = session().broadcast(c.c_int(session().on_root(build) or 0))
        if count.value > 0:
            program.run()
    return values if len(values) != 1 else values[0]


@collective("local")
def local_parts(value):
    with Program() as program:
        number = (c.c_int * 1)(session().on_root(lambda: program.add(value.current())) or 0)
        session().broadcast(number)
        program.run(keep=True)
        parts = []
        for i in range(library.mmul_values_part_count(program.values, number[0])):
            part = library.mmul_values_part(program.values, number[0], i)
            r = part.region
            sizes = (r.row_end - r.row_begin, r.col_end - r.col_begin)
            if 0 not in sizes:
                kind = c.c_double if part.dtype == lib.F64 else c.c_float
                each = c.sizeof(kind)
                memory = numpy.lib.stride_tricks.as_strided(
                    numpy.ctypeslib.as_array(c.cast(part.data, c.POINTER(kind)), shape=(1,)), shape=sizes,
                    strides=(each * part.row_step, each * part.col_step))
                parts.append((r.matrix, r.row_begin, r.col_begin, memory.copy()))
        return parts
