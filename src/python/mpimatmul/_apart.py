# SPDX-License-Identifier: MIT
"""What nodes compute apart, each on its own ranks, with no traffic between them. A value that they have so is one here,
which stands for all: whoever reads it on a node has that node's."""
import ctypes as c

from . import _library as lib
from ._begin import session
from ._library import Error, check, library
from ._operations import place
from ._program import Program, program_options, release, stay
from ._values import Value, arrays

_REPLICATE, _EXACT = 4, 0  # enum mmul_placement_kind, mmul_split_rule


class Nodes:
    """Who there is, and what each can do of all. Collective."""

    def __init__(self):
        s = session()
        self.count = library.mmul_context_nodes(s.context)
        found = (lib.ApartNode * self.count)()
        check(library.mmul_apart_begin, s.context, c.byref(program_options()), found)
        s.broadcast(found)
        self.shares, self.ranks = [node.share for node in found], [node.ranks for node in found]

    def cut(self, batch):
        """Root's arrays, of equally many rows: of each node its own of them, as values, and how many, on root."""
        if not batch or any(isinstance(x, Value) for x in batch):
            raise Error(64, "a batch is of arrays, one at least: every node gets rows of its own of them")
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
        """Of values that nodes have apart their mean, weighted, as values that all have. Collective."""
        every = max(sum(seen), 1)
        summands = compute([[v * (part / every / ranks) for v in values] for part, ranks in zip(seen, self.ranks)])
        return [Value(v.shape, lambda program, _, v=v: program.load_held(v.held, session().context), stored=v.stored)
                for v in summands]


def everywhere(value):
    """The value, whole on every node once it is computed: what nodes have apart is."""
    if value.is_apart or value.is_everywhere:
        return value
    made = place(value, "replicate")
    made.is_everywhere = True
    return made


class _NodeProgram(Program):
    """That of one node."""

    def load_leaf(self, leaf):
        try:
            return self.load_held(leaf.held, c.c_void_p(library.mmul_context_of_node(session().context)))
        except Error as error:
            raise Error(65, f"'{self.word('value')}' is in parts on several nodes, and each of them reads all of it",
                        'x = mm.persist(mm.place(x, "replicate")), before the first step') from error

    def hold_whole(self, value, number):
        """It stays on all ranks, under a number that the nodes before have for it; 0: they have none."""
        placed, held = c.c_int(), c.c_int64(number)
        check(library.mmul_program_place, self.handle, self.add(value), _REPLICATE, self.word("value").encode(),
              c.byref(placed))
        check(library.mmul_program_hold, self.handle, placed, c.byref(held))
        return held.value


def compute(values):
    """Computes values, of each node as many, and leaves them there: those of the first one, which stand for all.
    Collective."""
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
