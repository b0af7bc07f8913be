# SPDX-License-Identifier: MIT
"""Local training for DiLoCo: every node computes on its own ranks, without traffic between nodes.
A per-node value is one Python object; a read on a node returns the node's own copy."""
import ctypes as c

from . import _library as lib
from ._begin import session
from ._library import Error, check, library
from ._operations import place
from ._program import Program, program_options, release, stay
from ._values import Value, arrays

_REPLICATE, _EXACT = 4, 0  # enum mmul_placement_kind, mmul_split_rule


class Nodes:
    """The nodes of the job and their shares of the compute power. Collective."""

    def __init__(self):
        s = session()
        self.count = library.mmul_context_nodes(s.context)
        found = (lib.ApartNode * self.count)()
        check(library.mmul_apart_begin, s.context, c.byref(program_options()), found)
        s.broadcast(found)
        self.shares, self.ranks = [node.share for node in found], [node.ranks for node in found]

    def cut(self, batch):
        """Splits root's arrays of equal length among the nodes. Returns each node's rows as values,
        and on root their numbers."""
        if not batch or any(isinstance(x, Value) for x in batch):
            raise Error(64, "a batch must consist of arrays, at least one: each node gets its own rows")
        offsets = (c.c_int64 * (self.count + 1))()

        def read():
            counts = {len(x) for x in batch}
            if len(counts) > 1:
                raise Error(65, f"arrays of a batch have {' and '.join(map(str, sorted(counts)))} rows: expected as "
                                "many in each")
            check(library.mmul_split_offsets, c.c_int64(len(batch[0])), self.count,
                  (c.c_double * self.count)(*self.shares), _EXACT, offsets)
            for node in range(self.count):
                if offsets[node] == offsets[node + 1]:
                    raise Error(65, f"{len(batch[0])} rows are too few for {self.count} nodes: node {node} has none")
            return [x[offsets[node]:offsets[node + 1]] for node in range(self.count) for x in batch]
        made = arrays(self.count * len(batch), read)
        return ([made[i:i + len(batch)] for i in range(0, len(made), len(batch))],
                [offsets[node + 1] - offsets[node] for node in range(self.count)])

    def average(self, values, seen):
        """Returns the weighted mean of per-node values as values shared by all nodes.
        Collective."""
        every = max(sum(seen), 1)
        summands = compute([[v * (part / every / ranks) for v in values] for part, ranks in zip(seen, self.ranks)])
        return [Value(v.shape, lambda program, _, v=v: program.load_held(v.held, session().context), stored=v.stored)
                for v in summands]


def everywhere(value):
    """Returns the value replicated on every node. A per-node value is returned unchanged."""
    if value.is_apart or value.is_everywhere:
        return value
    made = place(value, "replicate")
    made.is_everywhere = True
    return made


class _NodeProgram(Program):
    """The program of one node."""

    def load_leaf(self, leaf):
        try:
            return self.load_held(leaf.held, c.c_void_p(library.mmul_context_of_node(session().context)))
        except Error as error:
            raise Error(65, f"'{self.word('value')}' is not on every node, but each node needs all of it",
                        'x = mm.persist(mm.place(x, "replicate")), before the first step') from error

    def hold_whole(self, value, number):
        """Holds the value on all ranks of the node. number: the number that earlier nodes got, or 0
        for a new one."""
        placed, held = c.c_int(), c.c_int64(number)
        check(library.mmul_program_place, self.handle, self.add(value), _REPLICATE, self.word("value").encode(),
              c.byref(placed))
        check(library.mmul_program_hold, self.handle, placed, c.byref(held))
        return held.value


def compute(values):
    """Computes per-node values, equally many for each node, and leaves them on the nodes. Returns
    the first node's values, which stand for all. Collective."""
    s, programs, options = session(), [], program_options()

    def build():
        numbers = [0] * len(values[0])
        for own in values:
            programs.append(_NodeProgram())
            numbers = [programs[-1].hold_whole(v, number) for v, number in zip(own, numbers)]
        return numbers

    def work():
        release(s)
        handles = (c.c_void_p * len(values))(*(program.handle for program in programs))
        check(library.mmul_apart_run, s.context, handles, c.byref(options))

    def clean():
        for program in programs:
            program.clean()
    try:
        numbers = s.on_root(build)
        s.compute(work, clean)
    finally:
        if not s.is_left(clean):
            clean()
    for i, value in enumerate(values[0]):
        value.is_apart = True
        if numbers is not None:
            stay(value, numbers[i])
    return values[0]
