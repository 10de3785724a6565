"""NovaConductor: works for a cell's computes, or, as super-conductor, for the API."""
