"""Parts of `bench/operator_alone.py`.

``programs`` makes the peers, ``process`` starts operators and measures them, ``kubernetes`` is the API server with its
audit log, ``workloads`` plays what a node and the workloads' controllers do. ``toys`` and ``clouds`` are the two
scenarios, ``table`` writes what they found.
"""
