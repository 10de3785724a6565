"""A cell writes no files itself: what it passes down to its parts stands in ``resources``."""
