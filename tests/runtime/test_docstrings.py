"""Docstrings of fields as the CRDs have them, whatever surrounds the classes."""

from __future__ import annotations

from typing import ClassVar

from openstack_operator.runtime import docstrings
from openstack_operator.runtime.schema import Model


class Base(Model):
    """Not of a field."""

    kept: int = 1
    """Said of kept."""
    replaced: int = 1
    """Said by the base."""
    silenced: int = 1
    """Said by the base."""

    class Inner(Model):
        """A class in a class."""

        kept: str = ""
        """Another thing of the same name."""


class Derived(Base):
    replaced: int = 2
    """Said
        in two lines,

    and a paragraph."""
    silenced: int = 2
    added: int = 3

    def plain(self) -> None:
        """Not of a field."""

    """Below a method."""

    shared: ClassVar[int] = 4
    """Of a class variable."""


if True:

    class Guarded(Model):
        field: int = 0
        """Behind a condition."""


def test_the_newest_class_that_has_a_field_says_what_it_is() -> None:
    assert docstrings.fields(Base) == {
        "kept": "Said of kept.", "replaced": "Said by the base.", "silenced": "Said by the base.",
    } | dict(docstrings.fields(Model))  # fmt: skip
    found = docstrings.fields(Derived)
    assert found["kept"] == "Said of kept."
    assert found["replaced"] == "Said\n    in two lines,\n\nand a paragraph."
    assert (found["silenced"], found["added"], found["shared"]) == ("", "", "Of a class variable.")
    assert "plain" not in found


def test_classes_are_found_where_they_stand() -> None:
    class Local(Model):
        field: int = 0
        """In a function."""

    assert docstrings.fields(Base.Inner)["kept"] == "Another thing of the same name."
    assert docstrings.fields(Guarded)["field"] == "Behind a condition."
    assert docstrings.fields(Local)["field"] == "In a function."
