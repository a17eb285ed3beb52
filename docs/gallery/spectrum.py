"""The spectra of a field on two grids and of an interpolated copy, with the Nyquist wavenumber of each grid."""

import sciops
from sciops.plotting import plot_spectrum

fine, coarse = sciops.Grid((128, 128), centering="periodic"), sciops.Grid((32, 32), centering="periodic")
u = sciops.random_fields.gaussian_random_field(fine, 8, tau=3.0, alpha=2.0, seed=0, modes=64)
strided = sciops.restrict(u, fine, coarse)
smooth = sciops.resample(strided, coarse, fine, method="cubic")

figure = plot_spectrum(
    {"128 × 128": u, "strided to 32 × 32": strided, "back to 128 × 128, cubic": smooth},
    {"128 × 128": fine, "strided to 32 × 32": coarse, "back to 128 × 128, cubic": fine},
)
