#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes torch.pt and old.pt in the current folder, with the package torch (1.13 made those that are here). What is in
torch.pt is what `expected_torch` in tests/cli/tensors.py says."""
import pathlib
import sys
from collections import OrderedDict

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from tensors import expected_torch

e = expected_torch()
plain = OrderedDict((name[len("model."):], torch.from_numpy(value.copy()))
                    for name, value in e.items() if name.startswith("model."))
plain["layer.weight"] = torch.nn.Parameter(plain["layer.weight"])
base = torch.from_numpy(e["views.0"].copy())
views = [base, base.t(), base[2:5, 1:7], base[::2, ::3], base[3], base[:1].expand(4, 10), base.reshape(2, 3, 4, 5)[:, 1:]]
torch.save({"model": plain, "views": views, 7: (torch.from_numpy(e["7.0"].copy()).to(torch.bfloat16), None),
            "lr": 0.5, "step": 2 ** 40, "less": -3, "name": "x", "on": True}, "torch.pt")
torch.save(base, "old.pt", _use_new_zipfile_serialization=False)
