# SPDX-License-Identifier: MIT
"""mpimatmul: matrices on a cluster of mixed machines, one MPI rank per GPU or CPU.

    import mpimatmul as mm                    # python3 script.py, or mpirun ... python3 script.py
    x, w = mm.load("x.npy"), mm.load("w.npy")
    y = mm.relu(x @ w) @ w.T                  # nothing is computed yet
    mm.save("y.npy", y)                       # one job: relu(x @ w) stays on the ranks

All ranks run the same script. Names are those of programs (`mpimatmul run`); a program file is also
a script, `python3 -m mpimatmul FILE`.

A function marked collective must be called by all ranks. A rank that waits in one for longer than
MPIMATMUL_WAIT_SECONDS (10) prints a message; a rank that has ended ends the job. MPIMATMUL_LIBRARY
is the path of the library, MPIMATMUL_SHARD_DIR the folder of persistent values.
"""
from . import _names, _report, debug, nn, optim
from ._begin import init, rank, size
from ._compile import compile
from ._functions import (all, any, diag, einsum, eye, flip, linspace, normal, outer, prod, repeat, split, stack, tile,
                         tril, triu, uniform)
from ._library import Error
from ._learning import add_at, binary_cross_entropy, cross_entropy, dropout, grad, loop, mse, one_hot, stop_gradient
from ._operations import (ELEMENTS as _elementwise, amax, amin, arange, argmax, argmin, argsort, assert_close,
                          attention, clip, concat, cumsum, flatten, gelu, layer_norm, linear, logsumexp, max, maximum,
                          mean, min, minimum, norm, normalize, ones, permute, place, print, reshape, rms_norm, rope,
                          softmax, sort, std, sum, take, topk, transpose, var, where, zeros)
from ._placements import signal
from ._states import keep, load_file, save_file
from ._texts import decode, encode, tokens
from ._values import Value, array, evaluate, generate, load, no_grad, persist, program, rand, save

globals().update(_elementwise)  # exp, log, tanh, ...

__version__ = "0.1.0"
__all__ = [name for name in dir() if not name.startswith("_")]
__getattr__ = _names.missing_from(__name__, __all__)
_report.begin()
