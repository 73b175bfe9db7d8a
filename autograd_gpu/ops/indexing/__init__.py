"""Elements read, written and summed by index, slice and mask."""
