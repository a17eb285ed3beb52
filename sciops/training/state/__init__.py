"""What a training run keeps: the last good and the best parameters, their average, and the check for finite losses."""
