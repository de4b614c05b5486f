"""Training as people distribute it already: scripts for torchrun and mp.spawn, and cells with what libraries have for it."""
