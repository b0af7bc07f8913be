# SPDX-License-Identifier: MIT
"""Steps that are replayed. The first calls of a structure run the ordinary way and are traced: which leaves the job of
the step has, where they come from, which numbers it is told, and where its results go. When two calls in a row made the
same job, the next ones change leaves and numbers of that program (mmul_program_change) and run it again, without any
Python of the step.

A replay repeats the job and nothing else, so what else a step does is looked for: _reach.py knows what it reads, and
the trace what it has changed. All ranks replay a call, or none does.
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
from ._reach import Reach, is_plain
from ._values import Value, arrays, persist

_STRUCTURES = 64  # of one step
_TRACES = 6  # of one structure that differ, one after the other
_RECORDS = 8  # of one structure, for what a step reads around it
_SAYS = {"evaluate": "reads or prints a value", "item": "reads a value", "array": "makes an array",
         "load": "loads a file", "save": "saves",
         "keep": "keeps rows", "local": "reads a value"}


class _Token:
    """The ranks hold a value as long as this is there."""
    __slots__ = ("number",)

    def __init__(self, number):
        self.number = number

    def __del__(self):
        _program._RELEASED.append(self.number)  # pylint: disable=protected-access


def _like(template):
    """Another value of the same structure, of which nothing is known yet."""
    made = Value.__new__(Value)
    variables = made.__dict__
    variables.update(template.__dict__)
    variables.update(operands=(), held=None, crossed=(), gradients=None, corner=None, _memory=None, is_computed=True)
    return made


class Late(Value):
    """A value of a replayed step that its job has not held: what it is made of is made when somebody asks for it."""

    def __init__(self, template, replayed):  # pylint: disable=super-init-not-called # it is what the template is
        own = self.__dict__
        own.update(template.__dict__)
        for name in _NOT_OWN:
            own.pop(name, None)
        own.update(held=None, crossed=(), corner=None, is_computed=False, _draws=None, _given=(), _template=template,
                   _replayed=replayed)

    def _found(self, name):
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


def _lazy(name):
    key = f"late {name}"

    def find(self):
        if key not in self.__dict__:
            self.__dict__[key] = self._found(name)
        return self.__dict__[key]
    return property(find, lambda self, value: self.__dict__.__setitem__(key, value))


_LAZY = ("operands", "leaves", "gradients", "make")
_NOT_OWN = (*_LAZY, *(f"late {name}" for name in _LAZY), "token")
for _name in _LAZY:
    setattr(Late, _name, _lazy(_name))


class _Replayed:
    """Values of one replay by those of the trace."""

    def __init__(self, known, said, turned):
        self.said, self.turned = said, turned  # numbers of optimizers; by how much turns of dropout are other ones
        self.known = known  # by id() of those of the trace: leaves, and what is held
        self.late = weakref.WeakValueDictionary()  # the same of those that lead here: no circle keeps what is held

    def new(self, template):
        found = self.known.get(id(template))
        if found is None:
            found = self.late.get(id(template))
        if found is None and not template.operands and template.gradients is None:
            return template  # a leaf of no call
        if found is None:
            found = self.late[id(template)] = Late(template, self)
        return found

    def numbers_in(self, template):
        """Its operands, of which the numbers are those of the replay."""
        operands = list(template.operands)
        for i, of in template._given:
            operands[i] = self.said[of]
        if template._draws is not None:
            operands[3] = float(operands[3] + self.turned[template._draws[0]])
        return operands

    def gradients(self, template):
        found = self.late.get(id(template))
        if found is None:
            found = _Gradients(self.new(template.y), list(map(self.new, template.operands[1:])))
            self.late[id(template)] = found
        return found


class Recorder:
    """What is seen of a step while it runs the ordinary way."""

    def __init__(self):
        self.reason, self.program = None, None
        self.arrays, self.held = [], []  # leaves of jobs, and their numbers there

    def watch(self, kind, name):
        """What ranks do together."""
        if kind != "persist":
            self.reason = self.reason or _SAYS.get(kind, f"calls {name}()")

    def take(self, program):
        """A job is about to run."""
        if self.program is not None:
            self.reason = self.reason or "computes in more than one job"
            return
        self.program = program
        program.is_recorded = True


class _Source:
    """Where a leaf of the step comes from, and where its next value goes: an argument, a parameter, or what an
    optimizer remembers."""
    __slots__ = ("kind", "of", "name", "before")

    def __init__(self, kind, of, name=None, before=None):
        self.kind, self.of, self.name, self.before = kind, of, name, before

    def now(self, given):
        """The value that it is; given: values among the arguments."""
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
    """What optimizers remember, by the optimizer's number, the parameter's and its name."""
    return {(k, i, name): value for k, o in enumerate(reach.optimizers) for i, state in enumerate(o.state)
            for name, value in state.items()}


class Record:
    """A traced step, and its replay."""

    def __init__(self, reach, given):
        self.reach, self.sources = reach, _sources(reach, given)
        self.states, self.turns = _states(reach), [o.turn for o in reach.optimizers]
        self.slots = [(s.of._leaf.slot, s.of._leaf.slot.grad) for s in self.sources if s.kind == "parameter"]
        self.layers = {}  # dropout: its turn before
        self.result, self.program, self.reason, self.signature = None, None, None, None
        self.doubt = "is another one at every call"  # where that stays so
        self.said = {}
        for module in reach.layers():
            self.layers[module] = module._turn

    # ------------------------------------------------------------------------------- after the trace

    def end(self, recorder, result):
        """The step has run: what its replay needs. reason says why it can have none."""
        self.result, self.program = result, recorder.program
        self.reason = recorder.reason or self.reach.reason or self.reach.changed()
        if self.program is None or self.reason is not None:
            self.reason = self.reason or "computes nothing: a step ends with optimizer.step() or persist()"
            return
        after = _states(self.reach)
        for (k, i, name), value in after.items():
            owner = self.reach.optimizers[k], i
            self.sources.append(_Source("state", owner, name, self.states.get((k, i, name))))
        self.passed = [o.turn - turn for o, turn in zip(self.reach.optimizers, self.turns)]
        self.drawn = {module: module._turn - turn for module, turn in self.layers.items()}
        # Where results go: (source, value of the trace); and gradients that stay.
        self.targets = [(s, s.now(())) for s in self.sources if s.kind in ("parameter", "state")
                        and s.now(()) is not s.before]
        self.grads = [(slot, slot.grad) for slot, before in self.slots if slot.grad is not before]
        if session().rank == 0:
            self._bind(recorder)

    def _bind(self, recorder):
        """Root: the program's leaves, numbers and results by what they come from and go to."""
        program, places = self.program, {}
        for n, s in enumerate(self.sources):
            if s.before is not None:
                places.setdefault(id(s.before), n)
        self.held, self.matrices = [], []
        for bound, leaves in ((self.held, recorder.held), (self.matrices, recorder.arrays)):
            for leaf, number in leaves:
                n = places.get(id(leaf))
                if n is None:  # a parameter that was loaded is made of such a one, once
                    self.doubt = "reads a value that is neither an argument nor a parameter"
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
            tuple(self._line(v, order, bound) for v in program.read), tuple(order.get(id(v)) for v in self.holds),
            tuple((self.sources.index(s), order.get(id(v))) for s, v in self.targets), tuple(self.passed),
            tuple(self.drawn.values()), len(self.grads), repr(self._shown(self.result, order)))

    @staticmethod
    def _line(v, order, bound):
        given = {i: of[1] for i, of in v._given}
        if id(v) in bound:
            return bound[id(v)], v.shape
        draws = (2, 3) if v._draws is not None else ()
        operands = tuple(("given", given[i]) if i in given else "drawn" if i in draws else
                         repr(o) if type(o) is float else order.get(id(o)) for i, o in enumerate(v.operands))
        return v.operation, v.shape, v.integers, v._parameters, v.signal, operands

    def _shown(self, thing, order):
        if isinstance(thing, Value):
            return order.get(id(thing.current()), thing.shape)
        if isinstance(thing, (tuple, list)):
            return [self._shown(part, order) for part in thing]
        if isinstance(thing, dict):
            return {key: self._shown(part, order) for key, part in thing.items()}
        return thing

    def _make_changes(self):
        """The memory in which root tells the library."""
        self.c_numbers = (lib.NumberChange * len(self.numbers))(*((v, i, 0) for v, i, _ in self.numbers))
        self.c_draws = (lib.DrawChange * len(self.draws))(*((v, d[0]._seed, 0) for v, d in self.draws))
        self.c_matrices = (lib.MatrixChange * len(self.matrices))(*((v, None) for _, v in self.matrices))
        self.c_held = (lib.HeldChange * len(self.held))(*((v, 0) for _, v in self.held))
        self.c_holds = (c.c_int64 * len(self.holds))()
        self.changes = lib.sized(
            lib.ProgramChanges, numbers=self.c_numbers, draws=self.c_draws, matrices=self.c_matrices, held=self.c_held,
            number_count=len(self.numbers), draw_count=len(self.draws), matrix_count=len(self.matrices),
            held_count=len(self.held), hold_count=len(self.holds), holds=self.c_holds)
        self.turns_of = {id(o): n for n, o in enumerate(self.reach.optimizers)}
        # By optimizer and the turn of the step that it makes, counted from the one before: which numbers.
        self.asked = {}
        for at, (_, _, (owner, index, turn)) in enumerate(self.numbers):
            n = self.turns_of[id(owner)]
            self.asked.setdefault((n, turn - self.turns[n]), []).append((at, index))

    # ------------------------------------------------------------------------------------- a replay

    def fits(self, given):
        """Local. Is all that the step reads what it was? Root: and the program is changed to compute with what there is
        now."""
        if not self.reach.holds():
            return False
        self.now = [s.now(given) for s in self.sources]
        return session().rank != 0 or self._change()

    def _change(self):
        now, is_done = self.now, c.c_bool()
        for (n, _), each in zip(self.held, self.c_held):
            if now[n] is None or now[n].held is None or now[n].is_apart:
                return False
            each.held = now[n].held
        memories = [now[n]._memory if now[n] is not None else None for n, _ in self.matrices]
        if any(memory is None for memory in memories):
            return False
        for value in self.files:
            value.make(_Looking(), ())
        self.said = {}
        for (n, ahead), places in self.asked.items():
            optimizer = self.reach.optimizers[n]
            numbers = optimizer._numbers(optimizer.turn + ahead)
            for at, index in places:
                self.c_numbers[at].number = numbers[index]
                self.said[self.numbers[at][2]] = float(numbers[index])
        for (_, (layer, turn)), each in zip(self.draws, self.c_draws):
            each.turn = layer._turn + turn - self.layers[layer]
        self.close()
        for memory, each in zip(memories, self.c_matrices):
            matrix = c.c_void_p()
            check(library.mmul_matrix_borrow, memory.ctypes.data_as(c.c_void_p), _program.as_shape(memory.shape),
                  _TYPES[memory.dtype.char], b"array", c.byref(matrix))
            each.matrix = matrix
        check(library.mmul_program_change, self.program.handle, session().context, c.byref(self.changes),
              c.byref(is_done))
        return is_done.value

    def end_of_it(self):
        """It is replayed no more."""
        if session().rank == 0:
            self.close()
        self.program.clean()

    def close(self):
        """Root: matrices of the replay before."""
        for each in self.c_matrices:
            if each.matrix:
                library.mmul_matrix_close(c.c_void_p(each.matrix))
                each.matrix = None

    def run(self):
        """Collective: the job, and what the step has left by then. What the step returns."""
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
                self.reason = "left"  # the library is still at it
        return self._leave(s)

    def _leave(self, s):
        known = {id(source.before): value for source, value in zip(self.sources, self.now)
                 if source.before is not None and value is not None}
        turned = {layer: layer._turn - turn for layer, turn in self.layers.items()}
        replayed, stays = _Replayed(known, self.said, turned), []  # stays: until results are made
        if s.rank == 0:
            for template, number in zip(self.holds, self.c_holds):
                if template.leaves:
                    made = replayed.late[id(template)] = Late(template, replayed)
                    stays.append(made)
                else:
                    made = known[id(template)] = _like(template)
                made.held, made.token, made.is_computed = number, _Token(number), True
        else:
            for _, template in self.targets:
                known[id(template)] = _like(template)
        for source, template in self.targets:
            source.put(replayed.new(template))
        for slot, gradient in self.grads:
            slot.grad = replayed.new(gradient) if gradient is not None else None
        for optimizer, turns in zip(self.reach.optimizers, self.passed):
            optimizer.turn += turns
        for layer, turns in self.drawn.items():
            layer._turn += turns
        self.now = None
        return self._result(self.result, replayed, s.rank == 0)

    def _result(self, thing, replayed, is_root):
        if isinstance(thing, Value):
            if thing.current() is not thing:
                return thing  # a parameter
            known = replayed.known.get(id(thing))
            return known if known is not None else replayed.new(thing) if is_root else _like(thing)
        if isinstance(thing, (tuple, list)):
            return type(thing)(self._result(part, replayed, is_root) for part in thing)
        if isinstance(thing, dict):
            return {key: self._result(part, replayed, is_root) for key, part in thing.items()}
        return thing


_TYPES = {"?": lib.BOOL, "q": lib.I64, "l": lib.I64, "d": lib.F64, "f": lib.F32}


class _Looking:
    """In place of a program: a file that was written to says so."""

    @staticmethod
    def load_shared(*_):
        return 0


class _Structure:
    """Of the arguments of a step: what is known of it."""

    def __init__(self):
        self.records, self.seen, self.unlike, self.reason, self.objects = [], set(), 0, None, ()

    def find(self, given):
        """The record that fits now, or None."""
        if self.reason is None:
            for record in self.records:
                if record.reason is None and record.fits(given):
                    return record
        return None

    def note(self, record):
        """A step of it was traced. True: it is replayed from now on."""
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
            old.end_of_it()
        return True


class Compiled:
    """A step that is replayed where it can be."""

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
        taken = _Taken()
        arguments, named = taken.take(arguments), taken.take(named)
        arguments, named, given, key = taken.end(arguments, named)
        structure = self._structures.get(key)
        if structure is None:
            structure = self._structures[key] = _Structure()
            structure.objects = taken.objects  # they stay, so that their numbers are theirs
            if len(self._structures) > _STRUCTURES:
                structure.reason = "has ever new shapes or constants among its arguments"
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


class _Taken:
    """Arguments of a call: values among them, and what they are like."""

    def __init__(self):
        self.arrays, self.given, self.key, self.objects = [], [], [], []

    def take(self, thing):
        """Notes it; what stands for it until all arrays are values."""
        if isinstance(thing, Value) and thing.current() is thing:
            self.given.append(thing)
            return thing
        if isinstance(thing, numpy.ndarray):
            self.given.append(None)
            self.arrays.append((len(self.given) - 1, thing))
            return _Place(len(self.given) - 1)
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
        """Collective where there are arrays, or values that are still to be computed: they are values, and computed."""
        if self.arrays:
            s = session()
            with s.together("array", "array"):
                made = arrays(len(self.arrays), lambda: [a for _, a in self.arrays])
            for (i, _), value in zip(self.arrays, made):
                self.given[i] = value
            arguments, named = _placed(arguments, self.given), _placed(named, self.given)
        made = [v for v in self.given if v.operation is not None or v.gradients is not None]
        if made and (session().size > 1 or any(v.held is None for v in made)):
            persist(*made)
        for v in self.given:
            self.key.append((v.shape, v.integers, v.stored, v.is_row, v.is_bool, bool(v.leaves) or v.slot is not None,
                             v._memory is not None, v.signal))
        return arguments, named, self.given, tuple(self.key)


class _Place:
    """In place of the value of an array among arguments."""
    __slots__ = ("index",)

    def __init__(self, index):
        self.index = index


def _placed(thing, given):
    if type(thing) is _Place:
        return given[thing.index]
    if type(thing) in (tuple, list):
        return type(thing)([_placed(part, given) for part in thing])
    if type(thing) is dict:
        return {name: _placed(part, given) for name, part in thing.items()}
    return thing


def compile(step):  # pylint: disable=redefined-builtin
    """A step that is traced once per structure and replayed from then on (torch.compile, jax.jit): a function of
    values, arrays, constants and layers that ends with one `optimizer.step()` or `persist`.

        @mm.compile
        def step(x, y):
            loss = mm.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        for x, y in batches:                  # arrays, or values
            loss = step(x, y)

    A structure is shapes and types of the values, and all constants: those among the arguments, and those that the
    step reads around it, such as `model.training`. Another one is traced anew: two calls that make the same job are
    traced, the next one is a replay. Leaves, parameters, what optimizers remember and their numbers (lr, momentum,
    betas, weight_decay, the step's number) are read at each call; dropout draws anew. A float among the arguments is a
    constant: a rate that changes belongs to the optimizer.

    Arrays among the arguments become values (`array`); values that are still to be computed are computed first, in a
    job of their own. A step that reads or prints a value, makes or loads one, changes variables, or draws random
    numbers of Python is not replayed: it runs the ordinary way, with one warning that says why. What Python itself does
    in a step, such as appending to a file by a method, happens when it is traced, and not in a replay. Collective."""
    return Compiled(step)
