#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes torch.pt, old.pt, objects.pt and old_objects.pt in the current folder, with the package torch (1.13 made those
that are here). What is in torch.pt is what `expected_torch` in tests/cli/tensors.py says, in the last two
`expected_objects`."""
import argparse
import datetime
import pathlib
import sys
from collections import OrderedDict, defaultdict

import numpy as np

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from tensors import expected_objects, expected_torch

e = expected_torch()
plain = OrderedDict((name[len("model."):], torch.from_numpy(value.copy()))
                    for name, value in e.items() if name.startswith("model."))
plain["layer.weight"] = torch.nn.Parameter(plain["layer.weight"])
base = torch.from_numpy(e["views.0"].copy())
views = [base, base.t(), base[2:5, 1:7], base[::2, ::3], base[3], base[:1].expand(4, 10), base.reshape(2, 3, 4, 5)[:, 1:]]
torch.save({"model": plain, "views": views, 7: (torch.from_numpy(e["7.0"].copy()).to(torch.bfloat16), None),
            "lr": 0.5, "step": 2 ** 40, "less": -3, "name": "x", "on": True}, "torch.pt")
torch.save(base, "old.pt", _use_new_zipfile_serialization=False)

e = {name: torch.from_numpy(value.astype(value.dtype.newbyteorder("="))) for name, value in expected_objects().items()}
model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
model[0].weight.data, model[0].bias.data = e["model.0.weight"], e["model.0.bias"]
array = expected_objects()["array"]
checkpoint = {
    "model": model, "args": argparse.Namespace(lr=0.5, t=e["args.t"]), "array": array,
    "fortran": np.asfortranarray(array), "big": expected_objects()["big"], "best": np.float64(3), "size": array.shape,
    "shape": model[0].weight.shape, "dtype": torch.float32, "device": torch.device("cpu"),
    "default": defaultdict(list, {"a": [e["default.a.0"]]}), "set": {1, 2}, "date": datetime.datetime(2020, 1, 1),
    "path": pathlib.PosixPath("/a"), "pair": torch.return_types.max((e["pair.0.0"], torch.tensor([2]))),
    "quantised": torch.quantize_per_tensor(torch.ones(2, 2), 0.1, 0, torch.qint8), "sparse": torch.eye(3).to_sparse(),
    "csr": torch.eye(3).to_sparse_csr(), "complex": torch.ones(2, dtype=torch.complex64)}
torch.save(checkpoint, "objects.pt")
# Without what only the other form needs to be tried with.
small = {key: checkpoint[key] for key in ("args", "array", "fortran", "big", "default", "pair", "path")}
torch.save({"model": model, **small}, "old_objects.pt", _use_new_zipfile_serialization=False)
