"""Studies: a frozen config and `run(config)` each; what they measure is printed, drawn and stored."""
