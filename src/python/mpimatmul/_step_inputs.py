# SPDX-License-Identifier: MIT
"""Finds everything that a function of the script reads besides its arguments: module names,
variables of enclosing functions, attributes of objects. `compile` replays a step as long as none of
it changes.

The search follows names in the code: a module name, a variable of the enclosing function, or an
attribute whose name occurs in the code. All attributes of this package's own layers count."""
import builtins
import random
import types

import numpy

from ._values import Value
from .nn import Dropout, Module, Parameter
from .optim import DiLoCo, _Optimizer

_MOST = 20000  # limit of entries; the search stops there
_MISSING = object()
_PLAIN = (type(None), bool, int, float, complex, str, bytes, range, slice, numpy.generic, numpy.dtype)
_SPEAKS = {builtins.print: "prints", builtins.input: "reads from the terminal", builtins.open: "opens a file"}
_OURS = __package__


def is_plain(thing):
    """Returns true for a constant, for which equality means identity."""
    return isinstance(thing, _PLAIN)


def _same(now, then):
    return now is then or (type(now) is type(then) and is_plain(then) and bool(now == then))


def _is_ours(function):
    return (getattr(function, "__module__", None) or "").split(".")[0] == _OURS


def _names_of(code):
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names_of(constant)
    return found


class Reach:
    """The surrounding state of a function and of objects among its arguments. reason: why a step
    with them cannot be replayed, or None."""

    def __init__(self, function, objects):
        self.reason, self.parameters, self.optimizers, self.values = None, [], [], []
        self._entries, self._lists, self._cells, self._forms = [], [], [], []
        self._draws, self._names, self._seen = [], {"training", "forward"}, {}
        self._attributes, self._methods = [], []
        self._global_draws = [random.getstate, numpy.random.get_state]
        self._search(function)
        for thing in objects:
            self._search(thing)
        self._follow_attributes()
        self._before = self._drawn()

    def holds(self):
        """Returns true if nothing has changed."""
        for variables, name, then in self._entries:
            now = variables.get(name, _MISSING)
            if now is not then and not _same(now, then):
                return False
        for things, then in self._lists:
            if len(things) != len(then) or not all(map(_same, things, then)):
                return False
        for cell, then in self._cells:
            if not _same(cell.cell_contents, then):
                return False
        return all(optimizer._form() == form for optimizer, form in self._forms)

    def changed(self):
        """Returns a description of a change by the step that a replay would not repeat, or None."""
        for variables, name, then in self._entries:
            if not _same(variables.get(name, _MISSING), then):
                return f"changes '{name}'"
        if not self.holds():
            return "changes what it reads"
        return "draws random numbers" if self._drawn() != self._before else None

    def layers(self):
        """Returns the layers that draw random numbers: dropout."""
        return [thing for thing in self._seen.values() if isinstance(thing, Dropout)]

    def _drawn(self):
        return [repr(state()) for state in (*self._global_draws, *self._draws)]

    # ------------------------------------------------------------------------------------ search

    def _search(self, first):
        waiting = [first]
        while waiting and self.reason is None:
            thing = waiting.pop()
            if is_plain(thing) or id(thing) in self._seen:
                continue
            # Keeps the object alive, so that its id() stays unique.
            self._seen[id(thing)] = thing
            if len(self._seen) > _MOST:
                self.reason = "reaches too many objects"
            waiting += self._record(thing)

    def _record(self, thing):
        """Records an object and returns the objects it leads to."""
        if isinstance(thing, Parameter):
            self.parameters.append(thing)
        elif isinstance(thing, Value):
            self.values.append(thing)
        elif isinstance(thing, types.FunctionType):
            return self._record_function(thing)
        elif isinstance(thing, types.MethodType):
            return [thing.__self__, thing.__func__]
        elif isinstance(thing, (tuple, list)):
            self._lists.append((thing, list(thing)))
            return list(thing)
        elif isinstance(thing, dict):
            self._lists.append((thing.keys(), list(thing)))
            self._entries += [(thing, key, value) for key, value in thing.items()]
            return list(thing.values())
        elif isinstance(thing, _Optimizer):
            self.optimizers.append(thing)
            self._forms.append((thing, thing._form()))
            self._attributes.append((thing, False))
            self._lists.append((thing.params, list(thing.params)))
            return list(thing.params)
        elif isinstance(thing, random.Random):
            self._draws.append(thing.getstate)
        elif isinstance(thing, numpy.random.Generator):
            self._draws.append(lambda: thing.bit_generator.state)
        elif isinstance(thing, numpy.random.RandomState):
            self._draws.append(thing.get_state)
        elif hasattr(thing, "__next__"):
            self.reason = "takes the next of an iterator"
        elif thing in _SPEAKS if isinstance(thing, types.BuiltinFunctionType) else False:
            self.reason = _SPEAKS[thing]
        elif not isinstance(thing, (type, types.ModuleType, DiLoCo)) and hasattr(thing, "__dict__"):
            self._attributes.append((thing, isinstance(thing, Module) and _is_ours(type(thing))))
            self._note_methods(type(thing))
        return []

    def _note_methods(self, kind):
        """Collects the methods that the step may call by name, except constructors and
        destructors."""
        self._methods += [(name, f) for base in kind.__mro__ if not _is_ours(base) and base is not object
                          for name, f in vars(base).items()
                          if isinstance(f, types.FunctionType) and name not in ("__init__", "__new__", "__del__")]

    def _record_function(self, function):
        if _is_ours(function):
            return []
        names, found = _names_of(function.__code__), []
        self._names |= names
        for name in names:
            if name in function.__globals__ or not hasattr(builtins, name):
                value = function.__globals__.get(name, _MISSING)
                self._entries.append((function.__globals__, name, value))
            else:
                value = getattr(builtins, name)
            found.append(value)
        for cell in function.__closure__ or ():
            try:
                self._cells.append((cell, cell.cell_contents))
                found.append(cell.cell_contents)
            except ValueError:  # not set yet
                self.reason = "reads a variable that has no value yet"
        found += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        return [thing for thing in found if thing is not _MISSING]

    def _follow_attributes(self):
        """Follows attributes whose names occur in the code, until no new names appear."""
        done = set()
        is_more = True
        while is_more and self.reason is None:
            is_more = False
            for name, method in list(self._methods):
                if id(method) not in self._seen and (name in self._names or name.startswith("__")):
                    is_more = True
                    self._search(method)
            for thing, all_count in list(self._attributes):
                variables = vars(thing)
                computed = getattr(type(thing), "_COMPUTED", ())
                for name, value in list(variables.items()):
                    is_read = name in self._names if not all_count else name not in computed
                    is_read = is_read and not (isinstance(thing, _Optimizer) and name in ("params", "state"))
                    leads = isinstance(value, (Module, Parameter))
                    if (id(thing), name) in done or not (is_read or leads):
                        continue
                    done.add((id(thing), name))
                    is_more = True
                    self._entries.append((variables, name, value))
                    self._search(value)
