"""What the variables of the known equations are, and which of their constants have a direction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_VELOCITY = {f"v{axis}": f"velocity:{axis}" for axis in "xyz"}


@dataclass(frozen=True)
class EquationSymmetry:
    """What an equation says of its variables when axes are exchanged or mirrored.

    Parameters
    ----------
    kinds : variable or constant → kind of its channel, see `sciops.symmetry.channels.check_kind`
    causes : fields that the solution depends on: each is a channel of the input, or must not be changed
    directions : constant → the axis it points along; with the default of those that a file does not state
    ndim : the number of axes that `kinds` hold for; None: any
    zero_walls : whether a file that states no walls means u = 0 on all of them
    forced : whether a file has to state the forcing, or hold it as an input
    layouts : formats in which the equation of this name is another one
    """

    kinds: Mapping[str, str]
    causes: tuple[str, ...] = ()
    directions: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    ndim: int | None = None
    zero_walls: bool = False
    forced: bool = False
    layouts: tuple[str, ...] = ()


def _scalars(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "scalar")


# u of Burgers and Kuramoto–Sivashinsky is a velocity along x: (x, u) → (−x, −u) leaves u u_x as it is
_SPEED = {"u": "u:x", "a": "a:x"}

EQUATION_SYMMETRIES: dict[str, EquationSymmetry] = {
    "darcy": EquationSymmetry(
        {**_scalars("a", "f", "u"), "a_x": "a:xx", "a_y": "a:yy"}, causes=("a", "a_x", "a_y", "f"), zero_walls=True
    ),
    "poisson": EquationSymmetry(_scalars("f", "u"), causes=("f",), zero_walls=True),
    "helmholtz": EquationSymmetry(_scalars("f", "a", "u", "wavenumber", "screening"), causes=("f", "a")),
    "wave": EquationSymmetry(_scalars("u", "v", "c", "a", "speed", "damping"), causes=("c",)),
    "heat": EquationSymmetry(_scalars("u", "diffusivity")),
    "fisher_kpp": EquationSymmetry(_scalars("u", "diffusivity", "rate")),
    "allen_cahn": EquationSymmetry(_scalars("a", "u")),
    "gray_scott": EquationSymmetry(_scalars("A", "B", "u", "v", "feed", "kill")),
    "diffusion_reaction": EquationSymmetry(_scalars("u", "v", "Du", "Dv", "k")),
    "burgers": EquationSymmetry({**_SPEED, "viscosity": "scalar"}, ndim=1),
    # APEBench's equation of this name has ½|∇u|² for u u_x
    "kuramoto_sivashinsky": EquationSymmetry({**_SPEED, "viscosity": "scalar"}, ndim=1, layouts=("apebench",)),
    # u_xxx changes its sign with x and keeps that of u: a constant with a direction
    "kdv": EquationSymmetry(
        {**_SPEED, "convection": "scalar", "dispersion": "dispersion:x"}, directions={"dispersion": ("x", 1.0)}, ndim=1
    ),
    "advection": EquationSymmetry(
        {"u": "scalar", "velocity": "velocity:x"}, directions={"velocity": ("x", 1.0)}, ndim=1
    ),
    "navier_stokes": EquationSymmetry(
        {"w": "pseudoscalar", "f": "pseudoscalar", "viscosity": "scalar", "drag": "scalar"},
        causes=("f",),
        ndim=2,
        forced=True,
    ),
    "navier_stokes_velocity": EquationSymmetry(
        {**_VELOCITY, "fx": "force:x", "fy": "force:y", "buoyancy_y": "buoyancy:y"}
        | _scalars("particles", "viscosity"),
        causes=("fx", "fy"),
        directions={"buoyancy_y": ("y", 0.0)},
    ),
    "compressible_navier_stokes": EquationSymmetry({**_VELOCITY, **_scalars("density", "pressure", "eta", "zeta")}),
    "shallow_water": EquationSymmetry(_scalars("h", "gravity", "dam_radius", "inner_height")),
}
