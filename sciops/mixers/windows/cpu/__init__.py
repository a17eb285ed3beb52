"""Window and multipole attention on CPUs, written so that the work stays in the cache."""
