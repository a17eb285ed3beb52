"""Sequence tasks for recurrent networks, and how near a gradient through time is to the true one."""
