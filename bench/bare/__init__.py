"""A control plane without Kubernetes: the yardstick of `bring_up.py`.

`snapshot` reads what a live control plane consists of, `roots` lays out its files, `processes` runs its containers as
plain processes, `plan` says in which order, `network` gives them their addresses.
"""
