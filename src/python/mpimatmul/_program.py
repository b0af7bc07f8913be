# SPDX-License-Identifier: MIT
"""Programs of the library: expressions, construction and execution. A script of small steps spends
its time here. So shapes and descriptions of operations are cached, because every step needs them
again."""
import ctypes as c
import functools
import os
import warnings
import weakref
from collections import deque

from . import _caller, _library as lib
from ._begin import OPTIONS, begun, session
from ._library import Error, check, library
from ._placements import current_signal, wished

_REMEMBERED = 4096  # limit of cached operations
recorder = None  # set while `compile` traces a step (_compile.Recorder), else None


class Given(float):
    """A number that a replayed step computes again. of: its owner and index
    (_compile.Record.numbers)."""
    __slots__ = ("of",)

    def __new__(cls, number, of):
        made = super().__new__(cls, number)
        made.of = of
        return made


class Expression:
    """A deferred computation. `make(program, numbers of operands)` appends it to a program.
    Operands are expressions and floats. `operation` is the library's name, if there is one."""

    _given = ()  # indices of Given operands, with their owners
    _parameters = ()  # parameters of the operation
    _draws = None  # dropout: the layer and iteration of the draws
    _memory = None  # root: copy of the array behind this value

    def __init__(self, shape, make, operands=(), integers=False, name=None, stored=None, operation=None):
        self.shape, self.make, self.operands, self.integers = tuple(shape), make, operands, integers
        self.name, self.operation = name, operation  # `name` is that of the file, or None
        # "f4", "f8", or None for integers, which fit both
        self.stored = _stored_of(operands) if operands else stored
        self.signal = current_signal()
        self.place = _caller.place()
        self.placement = None  # root: placement when last held or fetched, as "rows 0 32 64", or "rank 0"
        # Root: `is_computed` after a program computed the value or a later one; `held` is the
        # number under which the ranks hold it; `crossed` are gradients that pass through it and so
        # need its operands; `gradients` is the group of gradients it belongs to.
        self.is_computed, self.held, self.crossed, self.gradients = False, None, (), None
        # All ranks: the value differs per node, or is whole on every node.
        self.is_apart = self.is_everywhere = False
        # All ranks: the leaves that backward() gives gradients to. A leaf has a slot for its
        # gradient, other values list their leaves.
        self.leaves, self.slot = {}, None
        there = begun()
        if there and there.rank != 0:  # only root builds programs
            self.make, self.operands = None, ()

    def current(self):
        """Returns the expression to compute with: itself, except for parameters."""
        return self


def cross(value, gradients):
    """Records that the gradients pass through the value."""
    value.crossed = value.crossed or weakref.WeakSet()
    value.crossed.add(gradients)


def stay(value, number):
    """Marks the value as held by the ranks under this number, as long as the expression exists.
    Root only."""
    value.held = number
    weakref.finalize(value, _RELEASED.append, number).atexit = False


def _stored_of(operands):
    found = None
    for v in operands:
        if type(v) is not float and v.stored is not None:
            if v.stored == "f4":
                return "f4"
            found = v.stored
    return found


# Numbers of held values without references. The library is told before the next program.
_RELEASED = deque()


def release(s):
    """Releases the values in _RELEASED."""
    while _RELEASED:
        library.mmul_context_release(s.context, c.c_int64(_RELEASED.popleft()))


def stack(shape):
    """Returns numpy's shape as four sizes."""
    return (1,) * (4 - len(shape)) + tuple(shape)


def format_sizes(sizes):
    """Formats sizes for messages: 2 x 3."""
    return " x ".join(map(str, sizes))


def as_shape(sizes):
    """Returns numpy's shape as a struct of the library."""
    return lib.Shape(*stack(sizes))


@functools.lru_cache(_REMEMBERED)
def _call(name, operand_count, parameters):
    """Returns a cached description of an operation without its operands, and its arrays of operands
    and numbers: each access to them makes a new object. parameters: pairs of name and value."""
    call = lib.sized(lib.Call, operation=name.encode(), operand_count=operand_count)
    for field, given in parameters:
        if field in ("begin", "end", "step", "axes"):
            getattr(call.with_, field)[:] = given
        else:
            setattr(call.with_, field, as_shape(given) if field == "shape" else given)
    return call, call.operands, call.with_.numbers


class Building:
    """A program of the library under construction."""

    def __init__(self):
        self.handle = c.c_void_p()
        check(library.mmul_program_create, c.byref(self.handle))
        if OPTIONS["float32"]:
            library.mmul_program_use_float32(self.handle)

    def dtype(self, value):
        """Returns F64 or F32; a type that fits both counts as F32."""
        return library.mmul_program_value_dtype(self.handle, value)

    def is_bool(self, value):
        """Returns true if the value consists of bools."""
        return library.mmul_program_is_bool(self.handle, value)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        library.mmul_program_destroy(self.handle)

    def generate(self, shape, kind=0, seed=1, name=None):
        """Adds a value whose elements are computed from their positions."""
        value = c.c_int()
        check(library.mmul_program_generate, self.handle, lib.Generated(kind, seed, as_shape(shape)),
              os.fsencode(name) if name is not None else None, c.byref(value))
        return value.value

    def apply(self, name, operands, parameters, shown=None, place=None):
        """Adds an operation. parameters: pairs of name and value. shown: the script's name of the
        result. place: the line that made it."""
        (call, values, numbers), value = _call(name, len(operands), parameters), c.c_int()
        call.origin = place.encode() if place else None
        for i, operand in enumerate(operands):
            is_given = type(operand) is float
            values[i] = lib.NUMBER if is_given else operand
            numbers[i] = operand if is_given else 0.0
        check(library.mmul_program_apply, self.handle, c.byref(call), (shown or name).encode(), c.byref(value))
        return value.value


# Functions that make a value of a kind with the shape of their operand.
_OF_KIND = {"bools": lambda program, x, name: program.apply("equal", [x, x], (), name),
            "integers": lambda program, x, name: program.apply("argsort", [x], (), name)}


def try_operation(name, operands, kinds, parameters, names):
    """Tries an operation in a program of its own. Returns the result's four sizes, and if it holds
    integers, and if it holds bools. operands: sizes or numbers. kinds: "bools", "integers" or None
    per operand. names: of the operands for errors, or None."""
    with Building() as program:
        numbers = []
        for i, v in enumerate(operands):
            called = names[i] if names and names[i] else f"argument {i + 1} of {name}"
            number = v if type(v) is float else program.generate(v, name=called)
            numbers.append(_OF_KIND[kinds[i]](program, number, called) if kinds[i] else number)
        result, integers = program.apply(name, numbers, parameters), c.c_bool()
        sizes = library.mmul_program_value_shape(program.handle, result, c.byref(integers)).sizes()
        return sizes, integers.value, program.is_bool(result)


@functools.lru_cache(_REMEMBERED)
def known_result(name, operands, kinds, parameters):
    """As try_operation, cached. Returns None if the operation fails."""
    try:
        return try_operation(name, operands, kinds, parameters, None)
    except Error:
        return None


def program_options(keep=False):
    """Returns the program options chosen with `init`."""
    weights = OPTIONS["weights"]
    return lib.sized(lib.ProgramOptions, weights=weights.encode() if weights else None, keep_values=keep,
                     record=OPTIONS["record"], may_run_on_root=True)


class Program(Building):
    """A complete program with root's files and arrays."""

    def __init__(self):
        super().__init__()
        self.matrices, self.outputs, self.made, self.loaded = [], [], {}, []
        self.plan, self.values = c.c_void_p(), c.c_void_p()
        self.read = []  # expressions in the program, which the library reads
        self.fetched = []  # arrays that the program writes, with their expressions
        self.shared = {}  # numbers made together for several expressions
        self.holds = []  # expressions that stay on the ranks, with their numbers
        self.gradients = set()  # groups of gradients in the program
        self.names, self.under_way = None, None
        self.is_left = False  # the library still runs it
        self.is_recorded = False  # kept for replays

    def __exit__(self, *_):
        if not self.is_left and not self.is_recorded:
            self.clean()

    def clean(self):
        library.mmul_values_destroy(self.values)
        library.mmul_program_plan_destroy(self.plan)
        library.mmul_program_destroy(self.handle)
        for output in self.outputs:
            library.mmul_output_destroy(output)
        for matrix in self.matrices:
            library.mmul_matrix_close(matrix)

    def add(self, value):
        """Returns the number of an expression. Adds it with its operands if necessary, each
        once."""
        if id(value) not in self.made:
            self._make(self._settled([value]))
        return self.made[id(value)]

    def _make(self, order):
        for v in order:
            self.under_way = v
            self.read.append(v)
            if self.is_leaf(v):
                number = self.load_leaf(v)
            else:
                number = v.make(self, [o if type(o) is float else self.made[id(o)] for o in v.operands])
            self.made[id(v)] = number if v.signal is None else wished(self, v.signal, number)

    def expect(self, values):
        """Adds several expressions at once. Values that gradients among them pass through are built
        from their operands from the beginning, even if the ranks hold them."""
        self._make(self._settled(values))

    def _settled(self, values):
        """Returns the expressions still to be added, in order. Also collects all groups of
        gradients."""
        known, order, has_crossed = -1, [], True
        # A new group may pass through a value taken for a leaf.
        while known < len(self.gradients) and has_crossed:
            known = len(self.gradients)
            order, has_crossed = self._order(values)
        return order

    def _order(self, values):
        """Returns the missing expressions with operands first, and if a leaf among them may lie on
        the path of gradients. Collects the groups of gradients. Works without recursion, because
        programs may be long."""
        order, seen, waiting, has_crossed = [], set(), [*reversed(values)], False
        while waiting:
            v = waiting.pop()
            if v is None:  # all operands of the next value are in order
                order.append(waiting.pop())
            elif id(v) not in seen and id(v) not in self.made:
                seen.add(id(v))
                waiting += (v, None)
                if v.held is not None and self.is_leaf(v):
                    has_crossed = has_crossed or bool(v.crossed)
                    continue
                if v.gradients is not None:
                    self.gradients.add(v.gradients)
                waiting += [o for o in v.operands if type(o) is not float]
        return order, has_crossed

    def is_leaf(self, value):
        """Returns true for a held value, unless a gradient must pass through it."""
        if value.held is None:
            return False
        if not value.crossed and not value.leaves:
            value.operands = ()  # no longer needed by anything
        return self.gradients.isdisjoint(value.crossed)

    def operands_of(self, value):
        return () if self.is_leaf(value) else value.operands

    def word(self, kind):
        """Returns the script's name for the value that is being added."""
        if self.under_way is None:
            return kind
        name, place = self.words()
        return name or f"{kind} of {place}"

    def words(self):
        """Returns that name or None, and the line that made the value."""
        v = self.under_way
        if self.names is None:
            self.names = _caller.names(Expression)
        return self.names.get(id(v)) or v.name, v.place

    def load(self, matrix, value, name):
        self.matrices.append(matrix)
        if recorder is not None:
            recorder.arrays.append((self.under_way, value))
        return self.load_shared(matrix, value, name)

    def load_shared(self, matrix, value, name):
        """Loads a matrix that its owner closes after the program."""
        check(library.mmul_program_load, self.handle, matrix, c.byref(value))
        self.loaded.append((value.value, name))
        return value.value

    def tell_of_types(self):
        for value, name in self.loaded:
            if library.mmul_program_is_rounded(self.handle, value):
                warnings.warn(f"'{name}' is float64 and is read as float32", stacklevel=_caller.depth())

    def fetch(self, value, array, dtype):
        """Copies the elements of a value to an array. Root only."""
        output = c.c_void_p()
        check(library.mmul_output_borrow, array.ctypes.data_as(c.c_void_p), as_shape(value.shape), dtype,
              c.byref(output))
        self.save(value, output)
        self.fetched.append((value, array))

    def save(self, value, output):
        self.outputs.append(output)  # owned here until the program runs
        check(library.mmul_program_save, self.handle, self.add(value), output)

    def keep(self, value, name):
        check(library.mmul_program_keep, self.handle, self.add(value), name, c.c_bool(False))

    def load_leaf(self, leaf):
        """Loads a held value."""
        if leaf.is_apart:
            raise Error(65, f"every node has its own value of '{self.word('value')}'",
                        "an outer step of DiLoCo combines them")
        number = self.load_held(leaf.held, session().context)
        if recorder is not None:
            recorder.held.append((leaf, number))
        return number

    def load_held(self, number, context):
        value = c.c_int()
        check(library.mmul_program_load_held, self.handle, context, c.c_int64(number), self.word("value").encode(),
              c.byref(value))
        return value.value

    def hold(self, value):
        """Holds a computed value after the run, unless it is held already or has no operands. Root
        only."""
        if value.operands and value.held is None:
            self.hold_leaf(value)

    def hold_leaf(self, value):
        """Holds a value without operands or from a file. Root only."""
        number = c.c_int64()
        check(library.mmul_program_hold, self.handle, self.add(value), c.byref(number))
        self.holds.append((value, number.value))

    def hold_again(self, values):
        """Holds all values that are computed for the second time: those of `values` and operands of
        new values. Root only."""
        again = {id(v): v for v in values if v.is_computed}
        for v in self.read:
            if not v.is_computed:
                again.update((id(o), o) for o in self.operands_of(v) if type(o) is not float and o.is_computed)
        for value in again.values():
            self.hold(value)

    def hold_losses(self):
        """Holds the values whose gradients were made, because scripts usually print them. Root
        only."""
        made = [v.gradients.y for v in self.read if v.gradients is not None and v.gradients in self.gradients]
        for value in {id(v): v for v in made}.values():
            self.hold(value)

    def run(self, keep=False):
        """Plans and runs the program. Collective."""
        s = session()
        if recorder is not None:
            recorder.take(self)
        self.tell_of_types()
        options = program_options(keep)

        def work():
            release(s)
            check(library.mmul_program_plan_create, s.context, self.handle, c.byref(options), c.byref(self.plan))
            self.outputs.clear()
            check(library.mmul_program_run, s.context, self.plan, c.byref(self.values))
        try:
            s.compute(work, self.clean, hash(tuple((v.operation, v.shape) for v in self.read)))
        finally:
            self.is_left = s.is_left(self.clean)
        if s.rank == 0 and OPTIONS["record"]:
            s.report = lib.text_of(library.mmul_report_json, c.c_void_p(library.mmul_values_report(self.values)))
        for value in self.read:
            value.is_computed = True
        for value, _ in (*self.holds, *self.fetched):
            value.placement = lib.placement(self.values, self.made[id(value)])
        for value, number in self.holds:
            stay(value, number)
