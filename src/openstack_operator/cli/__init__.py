"""The command ``openstack-operator``: the operator process itself, and tools for people.

``main`` has the commands; what they do stands beside it (``run``, ``status``) or in ``embedded``.
"""
