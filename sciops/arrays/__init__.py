"""Arrays: numpy or torch in and the same out (`kinds`), order of named axes, units, and transforms of torch."""
