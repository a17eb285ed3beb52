"""Kernels: functions that numba compiles each on its own, keeps on disk each on its own, and that call each other by
address.

A function that numba compiles into another is optimised, and turned into machine code, once more in each function above
it: four fifths of the time that the solver took to compile. Through an address it is compiled once; the call itself
costs a few nanoseconds, on runs of numbers that take microseconds. Kernels read and write memory by pointers, which are
a single load or store to LLVM where an array is a record of seven fields that counts its owners.

What a kernel takes is written in letters: n a whole number, N the place of whole numbers; d and D of float64; t and T
of the precision in which the levels are stored. What it gives stands behind a ">".
"""

from __future__ import annotations

from collections.abc import Callable

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

LETTERS = {
    # runs of one level's memory: (nine, low, high, width, [omega,] out, f, d, e, s, se, sw, u)
    "relax": "nnnnt" + 8 * "T",
    "residual": "nnnn" + 8 * "T",
    "first_step": "nntTTT",  # low, high, omega, out, f, d
    "put": "Tnt",  # out, count, value
    # between two levels: … mx, my of the coarse one, width of a fine row
    "interpolate_both": "TTTTTTnnn",  # d, e, s, se, sw, P
    "interpolate_rows": "TTTTTTnnn",
    "both_from_five": 11 * "T" + "nnn",  # d, e, s, se, sw, P, D, E, S, SE, SW
    "both_from_nine": 11 * "T" + "nnn",
    "rows_from_five": 11 * "T" + "nnn",
    "rows_from_nine": 11 * "T" + "nnn",
    "restrict_both": "TTTnnn",  # r, P, F
    "restrict_rows": "TTTnnn",
    "prolong_both": "TTTnnn",  # u, P, U
    "prolong_rows": "TTTnnn",
    # one level: … mx, my
    "finest": "TTTDDnn",  # d, e, s, along_y, along_x
    "bottom": "nTTTTTTnn",  # singular, d, e, s, f, u, c
    "factor_lines": "TTTTTTTnn",  # d, e, s, row inverse, row low, column inverse, column low
    "tighten": "TTTTTTtnn",  # tight, d, e, s, se, sw, little
    "relax_row_lines": "nnTTTTTTTnn",  # nine, first, s, se, sw, f, u, inverse, low
    "relax_column_lines": "nnTTTTTTTnn",  # nine, first, e, se, sw, f, u, inverse, low
    # conjugate gradients: … mx, my
    "faces": "DDdDDDnDDnn",  # a_x, a_y, factor, x_over, y_over, exchange, longest, along_y, along_x
    "clear": "Dn",  # out, count
    "copy": "DDnn>d",  # b, r
    "true_residual": "DDDDDnn>d",  # along_y, along_x, b, u, r
    "rounding": "DDDnn>d",  # along_y, along_x, u
    "directions": "DDTdDDnn>d",  # along_y, along_x, z, beta, p, Ap
    "advance": "ddDDDDTnn>d",  # alpha, scale, p, Ap, u, r, f
    "scaled": "DdTnn",  # r, scale, f
    "scaled_up": "TdDnn",  # z, scale, u
    "products": "DDTDnn",  # r, Ap, z, sums
    # what calls kernels: its first is the place of their addresses, its second whether lines are smoothed
    "setup": "NnDDTNNn",  # along_y, along_x, work, shapes, start, levels
    "cycle": "NnTNNnnnn",  # work, shapes, start, levels, singular, first, from_zero
    "nested_start": "NnTNNnn",  # work, shapes, start, levels, singular
    # b, singular, tol, limit, work, shapes, start, levels, along_y, along_x, sums, p, Ap, r, u
    "iterate": "NnDndnTNNn" + 7 * "D",
    # count, a_x, a_y, step, factor, b, step, exchange, step, longest, out, three steps, found, singular, tol, limit,
    # work, size, shapes, start, levels, x_over, y_over, along_y, along_x, sums, p, Ap, r, u
    "samples": "NnnDDnDDnDnnDnnnDndnTnNNn" + 9 * "D",
}
NUMBER = {name: number for number, name in enumerate(LETTERS)}  # of each address in the table that callers are given


def signature_of(name: str, stored: types.Type) -> numba.core.typing.Signature:
    """A kernel's signature where the levels are stored in this type."""
    single = {"n": types.int64, "d": types.float64, "t": stored}
    kinds = single | {letter.upper(): types.CPointer(kind) for letter, kind in single.items()}
    taken, _, given = LETTERS[name].partition(">")
    return kinds.get(given, types.void)(*(kinds[letter] for letter in taken))


@intrinsic
def at(typingctx, place, offset):
    """The place of an element that many further on."""

    def code(context, builder, signature, arguments):
        return builder.gep(arguments[0], [arguments[1]])

    return place(place, types.intp), code


def _fits(given: types.Type, taken: types.Type) -> bool:
    if isinstance(taken, types.CPointer):
        return given == taken
    whole = isinstance(given, (types.Integer, types.Boolean))
    return whole or isinstance(given, types.Float) and isinstance(taken, types.Float)


def calling(name: str) -> Callable:
    """What calls a kernel from another: (place of the addresses, tuple of what the kernel takes)."""

    @intrinsic
    def call(typingctx, addresses, arguments):
        stored = [getattr(kind, "dtype", kind) for kind, letter in zip(arguments, LETTERS[name]) if letter == "T"]
        wanted = signature_of(name, stored[0] if stored else types.float64)
        if len(arguments) != len(wanted.args) or not all(map(_fits, arguments, wanted.args)):
            raise TypingError(f"{name} takes {wanted.args}, got {arguments.types}")

        def code(context, builder, signature, values):
            address, packed = values
            given = cgutils.unpack_tuple(builder, packed)
            cast = [context.cast(builder, *item) for item in zip(given, arguments.types, wanted.args)]
            kinds = [context.get_value_type(kind) for kind in wanted.args]
            function = ir.FunctionType(context.get_value_type(wanted.return_type), kinds).as_pointer()
            number = context.get_constant(types.intp, NUMBER[name])
            target = builder.inttoptr(builder.load(builder.gep(address, [number])), function)
            done = builder.call(target, cast)
            return context.get_dummy_value() if wanted.return_type == types.void else done

        return wanted.return_type(addresses, arguments), code

    return call
