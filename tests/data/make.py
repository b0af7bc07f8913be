#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the files of other programs in this folder: with the packages numpy and safetensors (0.8.0 made those that
are here), in the current folder. Their elements are what `expected` in tests/cli/tensors.py says."""
import sys
import pathlib

import numpy as np
from safetensors.numpy import save_file

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from tensors import expected

tensors = expected()
save_file(tensors, "model.safetensors", metadata={"format": "np"})
fortran = {name: np.asfortranarray(value) if name == "layer.0.weight" else value for name, value in tensors.items()}
np.savez("stored.npz", **fortran)
np.savez_compressed("deflated.npz", **fortran)
