"""The controller runtime: everything that knows Kubernetes and nothing of OpenStack.

``client`` talks to the API server, ``informer`` keeps caches, ``queue`` hands keys to workers. ``controller`` is what
services declare and what their steps can do; ``runner`` makes the passes, with ``apply`` for children and ``status`` as
the only writer of status. ``manager`` owns the life of all of it. Services import ``controller``, ``errors``, ``kinds``
and ``schema``; the other modules are used by the runtime itself. Why this is our own: docs/adr/0001-own-runtime.md.
"""
