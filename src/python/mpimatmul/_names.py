# SPDX-License-Identifier: MIT
"""Errors for unknown names in a module, with suggestions."""
import difflib


def missing_from(module, names):
    """Returns a module's __getattr__, which raises AttributeError with the nearest names, or with
    all names."""
    def missing(name):
        said = f"module '{module}' has no attribute '{name}'"
        if name.startswith("_"):
            raise AttributeError(said)
        lower = {known.lower(): known for known in names}
        near = [lower[n] for n in difflib.get_close_matches(name.lower(), lower, n=3, cutoff=0.6)]
        if near:
            raise AttributeError(f"{said}: did you mean {' or '.join(map(repr, near))}?")
        raise AttributeError(f"{said}: available are {', '.join(names)}")
    return missing
