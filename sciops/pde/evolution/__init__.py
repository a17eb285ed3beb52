"""Evolution equations: fields at the requested times from an initial field, in Fourier space or exactly in time."""
