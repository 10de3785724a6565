"""What all that was broken, repaired and deleted has left in logs. The same tests as in `test_hygiene`, which look at a
cloud that nobody has touched yet."""

from test_hygiene import (
    secrets,
    test_no_log_holds_a_secret,
    test_no_object_but_a_secret_holds_a_secret,
    test_the_rights_suffice_and_no_star_is_among_them,
)

__all__ = [
    "secrets",
    "test_no_log_holds_a_secret",
    "test_no_object_but_a_secret_holds_a_secret",
    "test_the_rights_suffice_and_no_star_is_among_them",
]
