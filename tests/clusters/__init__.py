"""Clusters that need no cluster: a SLURM of two nodes, and two hosts in network namespaces, on this machine."""
