"""What the studies share: resumable cells, timing, verdicts, and the tasks that several of them train on."""
