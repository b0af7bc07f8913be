# SPDX-License-Identifier: MIT
"""Replays a step of a script. The first calls of a structure run normally and are traced. A trace
records the leaves of the step's job and their sources, the numbers, and the destinations of the
results. After two equal jobs in a row, later calls only change leaves and numbers of that program
(mmul_program_change). They run it again without the step's Python code.

A replay repeats the job and nothing else, so other effects of a step must be found. _step_inputs.py finds
what the step reads, the trace finds what it changes. Either all ranks replay a call or none does.

The library changes a program in api/program_change.c. tests/python_compile.py compares a compiled
step with the same step without compile.
"""
import ctypes as c
import functools
import warnings
import weakref

import numpy

from . import _caller, _library as lib, _program
from ._begin import OPTIONS, session
from ._learning import _Gradients
from ._library import Error, check, library
from ._program import program_options, release
from ._step_inputs import Reach, is_plain
from ._values import Value, arrays, persist

_STRUCTURES = 64  # limit per step
_TRACES = 6  # limit of differing traces in a row, per structure
_RECORDS = 8  # limit per structure, for variants of the surrounding state
_SAYS = {"evaluate": "reads or prints a value", "item": "reads a value", "array": "makes an array",
         "load": "loads a file", "save": "saves",
         "keep": "keeps rows", "local": "reads a value"}


class _Token:
    """Keeps a value held by the ranks. The value is released together with this object."""
    __slots__ = ("number",)

    def __init__(self, number):
        self.number = number

    def __del__(self):
        _program._RELEASED.append(self.number)  # pylint: disable=protected-access


def _structure_of(template):
    """Returns the variables of values with the structure of the template, without data."""
    return {**template.__dict__, "operands": (), "held": None, "crossed": (), "gradients": None, "corner": None,
            "_memory": None, "is_computed": True}


def _late_structure_of(template):
    """Returns the variables of late values with the structure of the template."""
    own = {name: value for name, value in template.__dict__.items() if name not in _NOT_OWN}
    return {**own, "held": None, "crossed": (), "corner": None, "is_computed": False, "_draws": None, "_given": (),
            "_template": template}


class Late(Value):
    """An intermediate value of a replayed step that its job does not hold. The operands are built
    on first use."""

    def __init__(self, structure, replayed):  # pylint: disable=super-init-not-called # a copy
        self.__dict__.update(structure)
        self._replayed = replayed

    def _find_attribute(self, name):
        template, new = self._template, self._replayed.new
        value = getattr(template, name)
        if name == "operands":
            return tuple(number if type(number) is float else new(number)
                         for number in self._replayed.numbers_in(template))
        if name == "leaves":
            return {id(v): v for v in map(new, value.values())}
        if value is None or template.gradients is None:
            return value
        gradients = self._replayed.gradients(template.gradients)
        index = template._parameters[0]
        return gradients if name == "gradients" else lambda program, ids: gradients.made(program, ids)[index]


def _lazy_property(name):
    key = f"late {name}"

    def find(self):
        if key not in self.__dict__:
            self.__dict__[key] = self._find_attribute(name)
        return self.__dict__[key]
    return property(find, lambda self, value: self.__dict__.__setitem__(key, value))


_LAZY = ("operands", "leaves", "gradients", "make")
_NOT_OWN = (*_LAZY, *(f"late {name}" for name in _LAZY), "token")
for _name in _LAZY:
    setattr(Late, _name, _lazy_property(_name))


class _Replayed:
    """Maps values of the trace to values of one replay."""

    def __init__(self, record, known, turned):
        # Numbers of optimizers; offsets between the dropout iterations of replay and trace.
        self.said, self.turned = record.said, turned
        self.structures = record.late_structures
        self.known = known  # by id() of the traced value: leaves and held values
        # Weak references to intermediate values, by id() as well. They avoid a cycle that would
        # keep held values.
        self.late = {}

    def new(self, template):
        found = self.known.get(id(template))
        if found is None:
            found = self._find_late(template)
        if found is None and not template.operands and template.gradients is None:
            return template  # a leaf that does not change between calls
        return found if found is not None else self.make_late(template)

    def _find_late(self, thing):
        reference = self.late.get(id(thing))
        return reference() if reference is not None else None

    def make_late(self, template):
        structure = self.structures.get(id(template))
        if structure is None:
            structure = self.structures[id(template)] = _late_structure_of(template)
        made = Late(structure, self)
        self.late[id(template)] = weakref.ref(made)
        return made

    def numbers_in(self, template):
        """Returns the operands of the template, with the numbers of this replay."""
        operands = list(template.operands)
        for i, of in template._given:
            operands[i] = self.said[of]
        if template._draws is not None:
            operands[3] = float(operands[3] + self.turned[template._draws[0]])
        return operands

    def gradients(self, template):
        found = self._find_late(template)
        if found is None:
            found = _Gradients(self.new(template.y), list(map(self.new, template.operands[1:])))
            self.late[id(template)] = weakref.ref(found)
        return found


class Recorder:
    """Observes a step while it runs normally."""

    def __init__(self):
        self.reason, self.program = None, None
        # Leaves of the job with their numbers in the program.
        self.arrays, self.held = [], []

    def watch(self, kind, name):
        """Called for every collective operation."""
        if kind != "persist":
            self.reason = self.reason or _SAYS.get(kind, f"calls {name}()")

    def take(self, program):
        """Called before a job runs."""
        if self.program is not None:
            self.reason = self.reason or "computes in more than one job"
            return
        self.program = program
        program.is_recorded = True


class _Source:
    """The source of a leaf, which is also the destination of its next value: an argument, a
    parameter, or the state of an optimizer."""
    __slots__ = ("kind", "of", "name", "before")

    def __init__(self, kind, of, name=None, before=None):
        self.kind, self.of, self.name, self.before = kind, of, name, before

    def now(self, given):
        """Returns the current value. given: the values among the arguments."""
        if self.kind == "parameter":
            return self.of._leaf
        if self.kind == "argument":
            return given[self.of]
        if self.kind == "state":
            return self.of[0].state[self.of[1]].get(self.name)
        return self.before

    def put(self, value):
        if self.kind == "parameter":
            self.of._leaf = value
        else:
            self.of[0].state[self.of[1]][self.name] = value


def _sources(reach, given):
    found = [_Source("argument", i, before=v) for i, v in enumerate(given)]
    found += [_Source("parameter", p, before=p._leaf) for p in reach.parameters]
    return found + [_Source("constant", None, before=v) for v in reach.values]


def _states(reach):
    """Returns the state of the optimizers, by optimizer number, parameter number and name."""
    return {(k, i, name): value for k, o in enumerate(reach.optimizers) for i, state in enumerate(o.state)
            for name, value in state.items()}


class Record:
    """A traced step and its replay."""

    def __init__(self, reach, given):
        self.reach, self.sources = reach, _sources(reach, given)
        self.states, self.turns = _states(reach), [o.turn for o in reach.optimizers]
        self.slots = [(s.of._leaf.slot, s.of._leaf.slot.grad) for s in self.sources if s.kind == "parameter"]
        self.layers = {}  # dropout layers with their iteration before the trace
        self.result, self.program, self.reason, self.signature = None, None, None, None
        self.doubt = "is different at every call"  # reason if the step differs at every call
        self.said = {}
        # Variables of the values of replays, by id() of the traced value.
        self.structures, self.late_structures = {}, {}
        for module in reach.layers():
            self.layers[module] = module._turn

    # ------------------------------------------------------------------------------ after the trace

    def end(self, recorder, result):
        """Collects the data for a replay after the step has run. `reason` says why no replay is
        possible."""
        self.result, self.program = result, recorder.program
        self.reason = recorder.reason or self.reach.reason or self.reach.changed()
        if self.program is None or self.reason is not None:
            self.reason = self.reason or "computes nothing: it must end with optimizer.step() or persist()"
            return
        after = _states(self.reach)
        for (k, i, name), value in after.items():
            owner = self.reach.optimizers[k], i
            self.sources.append(_Source("state", owner, name, self.states.get((k, i, name))))
        self.passed = [o.turn - turn for o, turn in zip(self.reach.optimizers, self.turns)]
        self.drawn = {module: module._turn - turn for module, turn in self.layers.items()}
        # Destinations of results as (source, value of the trace), and gradients that remain.
        self.targets = [(s, s.now(())) for s in self.sources if s.kind in ("parameter", "state")
                        and s.now(()) is not s.before]
        self.grads = [(slot, slot.grad) for slot, before in self.slots if slot.grad is not before]
        if session().rank == 0:
            self._bind_sources(recorder)

    def _bind_sources(self, recorder):
        """Root: maps leaves, numbers and results of the program to their sources and
        destinations."""
        program, places = self.program, {}
        for n, s in enumerate(self.sources):
            if s.before is not None:
                places.setdefault(id(s.before), n)
        self.held, self.matrices = [], []
        for bound, leaves in ((self.held, recorder.held), (self.matrices, recorder.arrays)):
            for leaf, number in leaves:
                n = places.get(id(leaf))
                if n is None:  # a loaded parameter is made of such a value once
                    self.doubt = "uses a value that is neither an argument nor a parameter"
                    return
                if self.sources[n].kind != "constant":
                    bound.append((n, number))
        self.files = [v for v in program.read if v.name is not None and not v.operands and v._memory is None
                      and v.held is None]
        self.numbers = [(program.made[id(v)], i, of) for v in program.read for i, of in v._given]
        self.draws = [(program.made[id(v)], v._draws) for v in program.read if v._draws is not None]
        self.holds = [value for value, _ in program.holds]
        self._make_changes()
        order = {id(v): n for n, v in enumerate(program.read)}
        bound = {id(leaf): places[id(leaf)] for leaf, _ in (*recorder.held, *recorder.arrays)}
        self.signature = (
            tuple(self._describe_value(v, order, bound) for v in program.read),
            tuple(order.get(id(v)) for v in self.holds),
            tuple((self.sources.index(s), order.get(id(v))) for s, v in self.targets), tuple(self.passed),
            tuple(self.drawn.values()), len(self.grads), repr(self._describe_result(self.result, order)))

    @staticmethod
    def _describe_value(v, order, bound):
        given = {i: of[1] for i, of in v._given}
        if id(v) in bound:
            return bound[id(v)], v.shape
        draws = (2, 3) if v._draws is not None else ()
        operands = tuple(("given", given[i]) if i in given else "drawn" if i in draws else
                         repr(o) if type(o) is float else order.get(id(o)) for i, o in enumerate(v.operands))
        return v.operation, v.shape, v.integers, v._parameters, v.signal, operands

    def _describe_result(self, thing, order):
        if isinstance(thing, Value):
            return order.get(id(thing.current()), thing.shape)
        if isinstance(thing, (tuple, list)):
            return [self._describe_result(part, order) for part in thing]
        if isinstance(thing, dict):
            return {key: self._describe_result(part, order) for key, part in thing.items()}
        return thing

    def _make_changes(self):
        """Allocates the structs that pass changes to the library. Root only."""
        self.c_numbers = (lib.NumberChange * len(self.numbers))(*((v, i, 0) for v, i, _ in self.numbers))
        self.c_draws = (lib.DrawChange * len(self.draws))(*((v, d[0]._seed, 0) for v, d in self.draws))
        self.c_matrices = (lib.MatrixChange * len(self.matrices))(*((v, None) for _, v in self.matrices))
        self.c_held = (lib.HeldChange * len(self.held))(*((v, 0) for _, v in self.held))
        self.c_holds = (c.c_int64 * len(self.holds))()
        # The structs of these arrays: an array makes a new object of one at each access.
        self.each_number, self.each_held = list(self.c_numbers), list(self.c_held)
        self.each_draw, self.each_matrix = list(self.c_draws), list(self.c_matrices)
        self.changes = lib.sized(
            lib.ProgramChanges, numbers=self.c_numbers, draws=self.c_draws, matrices=self.c_matrices, held=self.c_held,
            number_count=len(self.numbers), draw_count=len(self.draws), matrix_count=len(self.matrices),
            held_count=len(self.held), hold_count=len(self.holds), holds=self.c_holds)
        self.turns_of = {id(o): n for n, o in enumerate(self.reach.optimizers)}
        # Indices of numbers, by optimizer and step relative to the previous one.
        self.asked = {}
        for at, (_, _, (owner, index, turn)) in enumerate(self.numbers):
            n = self.turns_of[id(owner)]
            self.asked.setdefault((n, turn - self.turns[n]), []).append((at, index))

    # --------------------------------------------------------------------------------------- replay

    def fits(self, given):
        """Returns true if everything that the step reads is unchanged. On root, also changes the
        program to the current values. Local."""
        if not self.reach.holds():
            return False
        self.now = [s.now(given) for s in self.sources]
        return session().rank != 0 or self._change_program()

    def _change_program(self):
        now, is_done = self.now, c.c_bool()
        for (n, _), each in zip(self.held, self.each_held):
            if now[n] is None or now[n].held is None or now[n].is_apart:
                return False
            each.held = now[n].held
        memories = [now[n]._memory if now[n] is not None else None for n, _ in self.matrices]
        if any(memory is None for memory in memories):
            return False
        for value in self.files:
            value.make(_FileCheck(), ())
        self.said = {}
        for (n, ahead), places in self.asked.items():
            optimizer = self.reach.optimizers[n]
            numbers = optimizer._numbers(optimizer.turn + ahead)
            for at, index in places:
                self.each_number[at].number = numbers[index]
                self.said[self.numbers[at][2]] = float(numbers[index])
        for (_, (layer, turn)), each in zip(self.draws, self.each_draw):
            each.turn = layer._turn + turn - self.layers[layer]
        self.close()
        for memory, each in zip(memories, self.each_matrix):
            matrix = c.c_void_p()
            check(library.mmul_matrix_borrow, c.c_void_p(memory.ctypes.data), _program.as_shape(memory.shape),
                  _TYPES[memory.dtype.char], b"array", c.byref(matrix))
            each.matrix = matrix
        check(library.mmul_program_change, self.program.handle, session().context, c.byref(self.changes),
              c.byref(is_done))
        return is_done.value

    def discard(self):
        """Ends the use of this record for replays."""
        if session().rank == 0:
            self.close()
        self.program.clean()

    def close(self):
        """Closes the matrices of the previous replay. Root only."""
        for each in self.each_matrix:
            if each.matrix:
                library.mmul_matrix_close(c.c_void_p(each.matrix))
                each.matrix = None

    def run(self):
        """Runs the job, applies the effects of the step and returns its result. Collective."""
        s, options = session(), program_options()
        plan, values = c.c_void_p(), c.c_void_p()

        def clean():
            library.mmul_values_destroy(values)
            library.mmul_program_plan_destroy(plan)

        def work():
            release(s)
            check(library.mmul_program_plan_create, s.context, self.program.handle if s.rank == 0 else None,
                  c.byref(options), c.byref(plan))
            check(library.mmul_program_run, s.context, plan, c.byref(values))
        try:
            s.compute(work, clean, id(self))
            if s.rank == 0 and OPTIONS["record"]:
                s.report = lib.text_of(library.mmul_report_json, c.c_void_p(library.mmul_values_report(values)))
        finally:
            if not s.is_left(clean):
                clean()
            else:
                self.reason = "left"  # the library still uses the record
        return self._apply_effects(s)

    def _apply_effects(self, s):
        known = {id(source.before): value for source, value in zip(self.sources, self.now)
                 if source.before is not None and value is not None}
        turned = {layer: layer._turn - turn for layer, turn in self.layers.items()}
        # `stays` holds values until the results exist.
        replayed, stays = _Replayed(self, known, turned), []
        if s.rank == 0:
            for template, number in zip(self.holds, self.c_holds):
                if template.leaves:
                    made = replayed.make_late(template)
                    stays.append(made)
                else:
                    made = known[id(template)] = self._new_value(template)
                made.held, made.token, made.is_computed = number, _Token(number), True
        else:
            for _, template in self.targets:
                known[id(template)] = self._new_value(template)
        for source, template in self.targets:
            source.put(replayed.new(template))
        for slot, gradient in self.grads:
            slot.grad = replayed.new(gradient) if gradient is not None else None
        for optimizer, turns in zip(self.reach.optimizers, self.passed):
            optimizer.turn += turns
        for layer, turns in self.drawn.items():
            layer._turn += turns
        self.now = None
        return self._replay_result(self.result, replayed, s.rank == 0)

    def _new_value(self, template):
        """Returns a new value with the structure of the template."""
        structure = self.structures.get(id(template))
        if structure is None:
            structure = self.structures[id(template)] = _structure_of(template)
        made = Value.__new__(Value)
        made.__dict__.update(structure)
        return made

    def _replay_result(self, thing, replayed, is_root):
        if isinstance(thing, Value):
            if thing.current() is not thing:
                return thing  # a parameter
            known = replayed.known.get(id(thing))
            return known if known is not None else replayed.new(thing) if is_root else self._new_value(thing)
        if isinstance(thing, (tuple, list)):
            return type(thing)(self._replay_result(part, replayed, is_root) for part in thing)
        if isinstance(thing, dict):
            return {key: self._replay_result(part, replayed, is_root) for key, part in thing.items()}
        return thing


_TYPES = {"?": lib.BOOL, "q": lib.I64, "l": lib.I64, "d": lib.F64, "f": lib.F32}


class _FileCheck:
    """Stands in for a program while a file checks that it was not modified."""

    @staticmethod
    def load_shared(*_):
        return 0


class _Structure:
    """Records for one structure of a step's arguments."""

    def __init__(self):
        self.records, self.seen, self.unlike, self.reason, self.objects = [], set(), 0, None, ()

    def find(self, given):
        """Returns the record that fits now, or None."""
        if self.reason is None:
            for record in self.records:
                if record.reason is None and record.fits(given):
                    return record
        return None

    def note(self, record):
        """Adds a traced step. Returns true if the step is replayed from now on."""
        if record.reason is not None:
            self.reason = record.reason
            return False
        if session().rank == 0 and (record.signature is None or record.signature not in self.seen):
            self.seen.add(record.signature)
            self.unlike += 1
            if self.unlike >= _TRACES:
                self.reason = record.doubt
            return False
        self.unlike = 0
        replaced = [old for old in self.records if old.reach.holds()] + self.records[:-_RECORDS]
        self.records = [old for old in self.records if old not in replaced] + [record]
        for old in replaced:
            old.discard()
        return True


class Compiled:
    """A step that is replayed if possible."""

    def __init__(self, function):
        functools.update_wrapper(self, function)
        self._function, self._structures, self._has_warned = function, {}, False

    def __get__(self, owner, kind=None):
        if owner is None:
            return self
        name = f"compiled {id(self)}"
        if name not in owner.__dict__:
            owner.__dict__[name] = Compiled(self._function.__get__(owner, kind))
        return owner.__dict__[name]

    def __call__(self, *arguments, **named):
        s = session()
        if _program.recorder is not None or s.depth > 0:
            return self._function(*arguments, **named)
        taken = _Arguments()
        arguments, named = taken.take(arguments), taken.take(named)
        arguments, named, given, key = taken.end(arguments, named)
        structure = self._structures.get(key)
        if structure is None:
            structure = self._structures[key] = _Structure()
            # Keeps the objects alive, so that their id() stays unique.
            structure.objects = taken.objects
            if len(self._structures) > _STRUCTURES:
                structure.reason = "is called with too many different shapes or constants"
        record = structure.find(given)
        is_ready = record is not None
        if s.size == 1:
            if is_ready:
                with s.together("compile", "compile"):
                    return record.run()
        else:
            with s.together("compile", "compile", "replay" if is_ready else "") as notes:
                if all(note.mark == b"replay" for note in notes):
                    return record.run()
        if structure.reason is not None:
            self._warn(structure.reason)
            return self._function(*arguments, **named)
        return self._trace(s, structure, given, taken.objects, arguments, named)

    def _trace(self, s, structure, given, objects, arguments, named):
        record, recorder = Record(Reach(self._function, objects), given), Recorder()
        record.reason = record.reach.reason
        s.watch, _program.recorder = recorder.watch, recorder
        try:
            result = self._function(*arguments, **named)
        except BaseException:
            if recorder.program is not None and not recorder.program.is_left:
                recorder.program.clean()
            raise
        finally:
            s.watch = _program.recorder = None
        record.end(recorder, result)
        if not structure.note(record) and recorder.program is not None:
            recorder.program.clean()
        if structure.reason is not None:
            self._warn(structure.reason)
        return result

    def _warn(self, reason):
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(f"{getattr(self._function, '__name__', 'the step')} is not replayed: it {reason}",
                          stacklevel=_caller.depth())


class _Arguments:
    """The arguments of a call: the values among them, and a key that describes all of them."""

    def __init__(self):
        self.arrays, self.given, self.key, self.objects = [], [], [], []

    def take(self, thing):
        """Records an argument. Returns its placeholder until all arrays have become values."""
        if isinstance(thing, Value) and thing.current() is thing:
            self.given.append(thing)
            return thing
        if isinstance(thing, numpy.ndarray):
            self.given.append(None)
            self.arrays.append((len(self.given) - 1, thing))
            return _Placeholder(len(self.given) - 1)
        if is_plain(thing):
            self.key.append((type(thing), thing if thing == thing else repr(thing)))
            return thing
        if type(thing) in (tuple, list):
            self.key.append((type(thing), len(thing)))
            return type(thing)([self.take(part) for part in thing])
        if type(thing) is dict:
            self.key.append(tuple(thing))
            return {name: self.take(part) for name, part in thing.items()}
        self.key.append(id(thing))
        self.objects.append(thing)
        return thing

    def end(self, arguments, named):
        """Turns arrays into values and computes pending values. Collective if there are any."""
        if self.arrays:
            s = session()
            with s.together("array", "array"):
                made = arrays(len(self.arrays), lambda: [a for _, a in self.arrays])
            for (i, _), value in zip(self.arrays, made):
                self.given[i] = value
            arguments, named = _fill_placeholders(arguments, self.given), _fill_placeholders(named, self.given)
        made = [v for v in self.given if v.operation is not None or v.gradients is not None]
        if made and (session().size > 1 or any(v.held is None for v in made)):
            persist(*made)
        for v in self.given:
            self.key.append((v.shape, v.integers, v.stored, v.is_row, v.is_bool, bool(v.leaves) or v.slot is not None,
                             v._memory is not None, v.signal))
        return arguments, named, self.given, tuple(self.key)


class _Placeholder:
    """Placeholder for an array among the arguments."""
    __slots__ = ("index",)

    def __init__(self, index):
        self.index = index


def _fill_placeholders(thing, given):
    if type(thing) is _Placeholder:
        return given[thing.index]
    if type(thing) in (tuple, list):
        return type(thing)([_fill_placeholders(part, given) for part in thing])
    if type(thing) is dict:
        return {name: _fill_placeholders(part, given) for name, part in thing.items()}
    return thing


def compile(step):  # pylint: disable=redefined-builtin
    """Compiles a step: traced once per structure, then replayed (compare torch.compile, jax.jit).
    Collective. The step is a function of values, arrays, constants and layers that ends with one
    `optimizer.step()` or `persist`.

        @mm.compile
        def step(x, y):
            loss = mm.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        for x, y in batches:                  # arrays, or values
            loss = step(x, y)

    The structure consists of shapes and types of the values, and of all constants: arguments and
    surrounding state that the step reads, such as `model.training`. Each new structure is traced.
    After two calls with the same job, the next call is a replay. Leaves, parameters, optimizer
    state and its numbers (lr, momentum, betas, weight_decay, the step's number) are read at each
    call, and dropout draws anew. A float argument is a constant, so a changing rate belongs in the
    optimizer.

    Arrays among the arguments become values (`array`). Pending values are computed first, in a job
    of their own. A step is not replayed if it reads or prints a value, makes or loads one, changes
    variables, or draws random numbers of Python. A step that cannot be replayed runs normally, with
    one warning that names the reason. Other Python effects, such as a method that appends to a
    file, happen during the trace but not in a replay."""
    return Compiled(step)
