# SPDX-License-Identifier: MIT
"""Programs of the library: what they are built of, how they are, and how they run. A script that computes in small
steps spends its time here, so what every step asks again is remembered: sizes, and what the library is told of an
operation."""
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

_REMEMBERED = 4096  # operations
recorder = None  # of a step that `compile` traces (_compile.Recorder); None: nobody traces


class Given(float):
    """A number that a replayed step computes anew; of: who says it (_compile.Recorder.numbers)."""
    __slots__ = ("of",)

    def __new__(cls, number, of):
        made = super().__new__(cls, number)
        made.of = of
        return made


class Expression:
    """What is computed when it is wanted: `make(program, numbers of operands)` appends it to a program. Operands are
    expressions and numbers of Python, float; `operation` is the library's name of it, where it is one."""

    _given = ()  # places of operands that are Given numbers, and who says them
    _parameters = ()  # of its operation
    _draws = None  # dropout: the layer and the turn that its draws are of
    _memory = None  # root: the copy of an array that it is

    def __init__(self, shape, make, operands=(), integers=False, name=None, stored=None, operation=None):
        self.shape, self.make, self.operands, self.integers = tuple(shape), make, operands, integers
        self.name, self.operation = name, operation  # name: of its file; None: it has none
        # "f4", "f8", or None: whole numbers, which fit both
        self.stored = _stored_of(operands) if operands else stored
        self.signal = current_signal()
        self.place = _caller.place()
        self.placement = None  # root: where it was when it stayed or was fetched last, as "rows 0 32 64"
        # Root: it, or what it is in the middle of, has been computed; the number under which the ranks hold it;
        # gradients that go through it, which have to know what it is made of; those that it is one of.
        self.is_computed, self.held, self.crossed, self.gradients = False, None, (), None
        self.is_apart = self.is_everywhere = False  # all ranks: every node has one of its own, or all of this one
        # All ranks: what backward() gives gradients to. A leaf has a slot for its own, others have leaves.
        self.leaves, self.slot = {}, None
        there = begun()
        if there and there.rank != 0:  # programs are root's
            self.make, self.operands = None, ()

    def current(self):
        """What is computed with: itself, but for parameters."""
        return self


def cross(value, gradients):
    """They go through it."""
    value.crossed = value.crossed or weakref.WeakSet()
    value.crossed.add(gradients)


def stay(value, number):
    """Root: the ranks hold it under that number, as long as this expression is there."""
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


_RELEASED = deque()  # numbers of held values that nobody has any more; the library is told before the next program


def release(s):
    """Tells the library of them."""
    while _RELEASED:
        library.mmul_context_release(s.context, c.c_int64(_RELEASED.popleft()))


def stack(shape):
    """numpy's shape as the four sizes of a stack."""
    return (1,) * (4 - len(shape)) + tuple(shape)


def as_shape(sizes):
    """The same as the library has it."""
    return lib.Shape(*stack(sizes))


@functools.lru_cache(_REMEMBERED)
def _call(name, operand_count, parameters):
    """What the library is told of an operation, but for its operands. parameters: pairs of a name and what it is."""
    call = lib.sized(lib.Call, operation=name.encode(), operand_count=operand_count)
    for field, given in parameters:
        if field in ("begin", "end", "step", "axes"):
            getattr(call.with_, field)[:] = given
        else:
            setattr(call.with_, field, as_shape(given) if field == "shape" else given)
    return call


class Building:
    """A program of the library under construction."""

    def __init__(self):
        self.handle = c.c_void_p()
        check(library.mmul_program_create, c.byref(self.handle))
        if OPTIONS["float32"]:
            library.mmul_program_use_float32(self.handle)

    def dtype(self, value):
        """F64 or F32; what fits both is F32."""
        return library.mmul_program_value_dtype(self.handle, value)

    def is_bool(self, value):
        """True and False alone?"""
        return library.mmul_program_is_bool(self.handle, value)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        library.mmul_program_destroy(self.handle)

    def generate(self, shape, kind=0, seed=1, name=None):
        """A value whose elements are known by their positions."""
        value = c.c_int()
        check(library.mmul_program_generate, self.handle, lib.Generated(kind, seed, as_shape(shape)),
              os.fsencode(name) if name is not None else None, c.byref(value))
        return value.value

    def apply(self, name, operands, parameters, shown=None, place=None):
        """The value of an operation. parameters: pairs of a name and what it is; `shown`: what the script calls the
        result; `place`: its line that made it."""
        call, value = _call(name, len(operands), parameters), c.c_int()
        call.origin = place.encode() if place else None
        for i, operand in enumerate(operands):
            is_given = type(operand) is float
            call.operands[i] = lib.NUMBER if is_given else operand
            call.with_.numbers[i] = operand if is_given else 0.0
        check(library.mmul_program_apply, self.handle, c.byref(call), (shown or name).encode(), c.byref(value))
        return value.value


# Operations whose results hold elements of these kinds, in the sizes of their operands.
_OF_KIND = {"bools": lambda program, x, name: program.apply("equal", [x, x], (), name),
            "integers": lambda program, x, name: program.apply("argsort", [x], (), name)}


def try_operation(name, operands, kinds, parameters, names):
    """Sizes of a stack, and whether it is whole numbers, and True and False alone, of a result. operands: their sizes,
    or numbers; kinds: "bools", "integers" or None, of each; names: those of the operands, where there are any, for
    errors."""
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
    """The same, remembered; None: it fails."""
    try:
        return try_operation(name, operands, kinds, parameters, None)
    except Error:
        return None


def program_options(keep=False):
    """As `init` was told."""
    weights = OPTIONS["weights"]
    return lib.sized(lib.ProgramOptions, weights=weights.encode() if weights else None, keep_values=keep,
                     record=OPTIONS["record"])


class Program(Building):
    """A whole program, with root's files and arrays."""

    def __init__(self):
        super().__init__()
        self.matrices, self.outputs, self.made, self.loaded = [], [], {}, []
        self.plan, self.values = c.c_void_p(), c.c_void_p()
        self.read = []  # expressions that it is made of, which the library reads
        self.fetched = []  # arrays that it writes, and whose they are
        self.shared = {}  # what several expressions are made by
        self.holds = []  # expressions that stay on the ranks, and their numbers
        self.gradients = set()  # that are made
        self.names, self.under_way = None, None
        self.is_left = False  # the library is still at it
        self.is_recorded = False  # it is run again, by a replay

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
        """The number of an expression, which is made with what it is made of, each once."""
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
        """Adds several: through what gradients among them go is made of what it is made of, also where the ranks hold
        it, and is so from the beginning."""
        self._make(self._settled(values))

    def _settled(self, values):
        """What is still to be made of them, in order, and all gradients that are."""
        known, order, has_crossed = -1, [], True
        while known < len(self.gradients) and has_crossed:  # they may go through what was taken for a leaf
            known = len(self.gradients)
            order, has_crossed = self._order(values)
        return order

    def _order(self, values):
        """What is still to be made, operands first, and whether a leaf among it is one that gradients may go through;
        gradients among it are known then. Without recursion: programs may be long."""
        order, seen, waiting, has_crossed = [], set(), [*reversed(values)], False
        while waiting:
            v = waiting.pop()
            if v is None:  # operands of the next one are in order
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
        """What the ranks hold is one, unless a gradient has to go through it."""
        if value.held is None:
            return False
        if not value.crossed and not value.leaves:
            value.operands = ()  # for nobody any more
        return self.gradients.isdisjoint(value.crossed)

    def operands_of(self, value):
        return () if self.is_leaf(value) else value.operands

    def word(self, kind):
        """What the script calls the value that is being made."""
        if self.under_way is None:
            return kind
        name, place = self.words()
        return name or f"{kind} of {place}"

    def words(self):
        """That, or None, and the line that made it."""
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
        """Of a matrix that somebody else closes, after the program."""
        check(library.mmul_program_load, self.handle, matrix, c.byref(value))
        self.loaded.append((value.value, name))
        return value.value

    def tell_of_types(self):
        for value, name in self.loaded:
            if library.mmul_program_is_rounded(self.handle, value):
                warnings.warn(f"'{name}' is float64 and is read as float32", stacklevel=_caller.depth())

    def fetch(self, value, array, dtype):
        """Root: its elements go to an array."""
        output = c.c_void_p()
        check(library.mmul_output_borrow, array.ctypes.data_as(c.c_void_p), as_shape(value.shape), dtype,
              c.byref(output))
        self.save(value, output)
        self.fetched.append((value, array))

    def save(self, value, output):
        self.outputs.append(output)  # ours until the program runs
        check(library.mmul_program_save, self.handle, self.add(value), output)

    def keep(self, value, name):
        check(library.mmul_program_keep, self.handle, self.add(value), name, c.c_bool(False))

    def load_leaf(self, leaf):
        """What the ranks hold."""
        if leaf.is_apart:
            raise Error(65, f"every node has a value of its own of '{self.word('value')}'",
                        "an outer step of DiLoCo makes one of them")
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
        """Root: it stays where it is when the program has run, unless it does already or is made of nothing."""
        if value.operands and value.held is None:
            self.hold_leaf(value)

    def hold_leaf(self, value):
        """Root: the same of what is made of nothing, or of a file."""
        number = c.c_int64()
        check(library.mmul_program_hold, self.handle, self.add(value), c.byref(number))
        self.holds.append((value, number.value))

    def hold_again(self, values):
        """Root: so does what is computed a second time, of `values` and of what new ones are made of."""
        again = {id(v): v for v in values if v.is_computed}
        for v in self.read:
            if not v.is_computed:
                again.update((id(o), o) for o in self.operands_of(v) if type(o) is not float and o.is_computed)
        for value in again.values():
            self.hold(value)

    def hold_losses(self):
        """Root: so does that of which gradients are made: scripts show it."""
        made = [v.gradients.y for v in self.read if v.gradients is not None and v.gradients in self.gradients]
        for value in {id(v): v for v in made}.values():
            self.hold(value)

    def run(self, keep=False):
        """Collective."""
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
