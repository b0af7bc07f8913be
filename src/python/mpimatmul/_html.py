# SPDX-License-Identifier: MIT
"""The HTML of a value in notebooks: the facts known on this rank, without communication or
computing."""
import math

from ._begin import begun

_ESCAPED = {ord(sign): f"&{name};" for sign, name in (("&", "amp"), ("<", "lt"), (">", "gt"), ('"', "quot"))}


def shown(value):
    """Returns HTML with shape, type and location. On root also the first rows and columns, if
    computed."""
    v = value.current()
    facts = [" &times; ".join(map(str, v.shape)), str(v.dtype),
             *(fact.translate(_ESCAPED) for fact in _describe_location(v))]
    head = f"<div><b>{type(value).__name__}</b> {', '.join(facts)}</div>"
    return head + (_format_corner(v) if v.corner is not None else "")


def _describe_location(v):
    there = begun()
    rank, size = (there.rank, there.size) if there else (0, 1)
    taken = "computed" if v.operands else "read" if v.name is not None else "used"
    if v.name is not None:
        yield f"'{v.name}'"
    if rank != 0:
        yield "rank 0 knows the state of the computation"
    elif v.held is not None:
        yield f"stays on {'rank 0' if v.placement == 'rank 0' else 'the rank' if size == 1 else 'the ranks'}"
    elif v.is_computed and (v.corner is not None or not v.operands):
        yield taken
    elif v.is_computed:
        yield "computed as an intermediate value, and not kept"
    else:
        yield f"not {taken} yet"
    if v.placement not in (None, "file", "rank 0") and (v.held is not None or v.corner is not None):
        yield f"{v.placement}{'' if size == 1 else f' of {size} ranks'}"


def _format_corner(v):
    """Returns a table of the first matrix."""
    rows, cols = v.corner.shape
    has_more = rows < v.shape[-2] or math.prod(v.shape[:-2]) > 1
    lines = [[f"{x:d}" if v.integers else f"{x:.6g}" for x in row.tolist()] for row in v.corner]
    if cols < v.shape[-1]:
        lines = [line + ["&hellip;"] for line in lines]
    if has_more:
        lines.append(["&hellip;"] * len(lines[0]))
    return "<table>" + "".join(f"<tr>{''.join(f'<td>{x}</td>' for x in line)}</tr>" for line in lines) + "</table>"
