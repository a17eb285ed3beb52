"""Figures: fields, spectra, layer spectra and animations of numpy, torch and xarray, and the style of all figures.

`plot_field`, `plot_prediction`, `plot_spectrum`, `plot_layer_spectra` and `animate` return a `matplotlib.figure.Figure`
and write it to ``path=`` where one is given. No window is opened and pyplot is not used, so that nothing has to be
closed. `figure` makes a figure of one's own in the same style; `series`, `draw_field`, `draw_spectra` and
`draw_intervals` are its parts, and `scale_of` gives fields that are compared one colour scale. matplotlib is imported
by the first figure.
"""

from sciops.plotting.animation import animate
from sciops.plotting.drawing import draw_field, draw_intervals, draw_spectra
from sciops.plotting.fields import plot_field
from sciops.plotting.prediction import plot_prediction
from sciops.plotting.scales import Scale, scale_of
from sciops.plotting.spectra import plot_layer_spectra, plot_spectrum
from sciops.plotting.style import LINES, MARKERS, PALETTE, STYLE, figure, series

__all__ = [
    "LINES",
    "MARKERS",
    "PALETTE",
    "STYLE",
    "Scale",
    "animate",
    "draw_field",
    "draw_intervals",
    "draw_spectra",
    "figure",
    "plot_field",
    "plot_layer_spectra",
    "plot_prediction",
    "plot_spectrum",
    "scale_of",
    "series",
]
