"""Trained models in use: predictions for arrays and files, errors on a file, what a run's folder says of itself."""
