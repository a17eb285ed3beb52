"""Batches for `sciops.training.fit`: from data sets (`Samples`) or by a function of the step (`Stream`)."""
