# SPDX-License-Identifier: MIT
"""mpimatmul: matrices on whatever machines are at hand, one MPI rank per GPU or CPU.

    import mpimatmul as mm                    # python3 script.py, or mpirun ... python3 script.py
    x, w = mm.load("x.npy"), mm.load("w.npy")
    y = mm.relu(x @ w) @ w.T                  # nothing is computed yet
    mm.save("y.npy", y)                       # one job: relu(x @ w) stays on the ranks

All ranks run the same script. Names are those of programs (`mpimatmul run`): a program file is also a script,
`python3 -m mpimatmul FILE`.
"""
from ._library import Error
from ._values import (Value, abs, argmax, array, assert_close, attention, concat, evaluate, exp, gelu, generate, init,
                      layer_norm, linear, load, log, max, maximum, mean, min, minimum, neg, normalize, permute, place,
                      print, program, rank, relu, reshape, rms_norm, rope, rsqrt, save, sigmoid, silu, size, softmax,
                      sqrt, sum, take, tanh, topk, transpose, where)

__version__ = "0.1.0"
__all__ = [name for name in dir() if not name.startswith("_")]
