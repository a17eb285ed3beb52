"""Generation of native files in parts, resumable, on one machine or on a cluster."""
