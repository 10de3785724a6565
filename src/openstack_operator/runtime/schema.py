"""Types of custom resources, and their conversion into structural OpenAPI v3 schemas.

Every `types.py` builds on `Model`, the `K8s` marker and the constrained aliases of this module; `kinds.crd` calls
`structural` and `check_rules`. What a kube-apiserver would refuse or silently ignore is an error here, at generation
time, with the path of the field. What surrounds a schema in a CustomResourceDefinition (names, columns, subresources)
is in `kinds`; reading and writing objects is elsewhere in the package.
"""

from __future__ import annotations

import copy
import re
import types
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeAlias, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, GetJsonSchemaHandler
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, to_jsonable_python

from openstack_operator.runtime import docstrings

Schema: TypeAlias = dict[str, Any]

RULES = "x-kubernetes-validations"
INT_OR_STRING = "x-kubernetes-int-or-string"
PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
LIST_TYPE = "x-kubernetes-list-type"
LIST_MAP_KEYS = "x-kubernetes-list-map-keys"
MAP_TYPE = "x-kubernetes-map-type"

# Says that a field has no docstring of its own.
_UNDOCUMENTED = "x-undocumented"


class SchemaError(Exception):
    """A type without a structural schema; the message starts with the path of the field."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


class Rule(NamedTuple):
    """One CEL validation rule (x-kubernetes-validations)."""

    rule: str
    message: str
    field_path: str = ""
    reason: Literal["", "FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"] = ""

    def schema(self) -> Schema:
        out = {"rule": self.rule, "message": self.message}
        if self.field_path:
            out["fieldPath"] = self.field_path
        if self.reason:
            out["reason"] = self.reason
        return out


IMMUTABLE = Rule("self == oldSelf", "the value cannot be changed after creation")
"""Refuses a change of the field that carries it. Setting or removing an optional field passes: a rule on the parent,
such as `has(self.x) == has(oldSelf.x)`, refuses that too."""


@dataclass(frozen=True)
class K8s:
    """Marker for `Annotated`: the schema keywords that only Kubernetes has."""

    cel: tuple[Rule, ...] = ()
    list_type: Literal["atomic", "set", "map"] | None = None
    map_keys: tuple[str, ...] = ()
    """Names of the key fields as written in YAML (camelCase) of a list of type `map`."""
    map_type: Literal["atomic", "granular"] | None = None
    int_or_string: bool = False
    preserve_unknown: bool = False
    embedded: bool = False
    """The value is a whole Kubernetes object: apiVersion, kind and metadata are checked, the rest is kept."""
    nullable: bool = False
    """An explicit `null` means something other than an absent field. Plain `T | None = None` does not need this."""
    format: str | None = None

    def __get_pydantic_json_schema__(self, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> Schema:
        schema = dict(handler(core_schema))
        if self.cel:
            schema[RULES] = [*schema.get(RULES, []), *(rule.schema() for rule in self.cel)]
        if self.list_type:
            schema[LIST_TYPE] = self.list_type
        if self.map_keys:
            schema[LIST_MAP_KEYS] = list(self.map_keys)
        if self.map_type:
            schema[MAP_TYPE] = self.map_type
        if self.int_or_string:
            # Bounds move from the branches to the value: the apiserver allows nothing but types in this anyOf, and
            # applies numeric bounds to numbers and patterns to text.
            for branch in schema.pop("anyOf", []):
                schema = {**branch, **schema}
            schema.pop("type", None)
            schema["anyOf"] = [{"type": "integer"}, {"type": "string"}]
            schema[INT_OR_STRING] = True
        if self.preserve_unknown or self.embedded:
            schema.pop("additionalProperties", None)
            schema[PRESERVE] = True
        if self.embedded:
            schema["type"] = "object"
            schema[EMBEDDED] = True
        if self.nullable:
            schema["nullable"] = True
        if self.format:
            schema["format"] = self.format
        return schema


class Model(BaseModel):
    """Base of every type in a custom resource: snake_case in Python, camelCase in YAML, immutable.

    Each field needs a docstring, which becomes its description. Lists are `tuple[T, ...]`, so that values stay
    hashable and nobody changes a cached object.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        extra="forbid",
        frozen=True,
        # Most types are parts of others, which hold what validates them: what is their own would be made for nothing.
        defer_build=True,
    )

    cel_rules: ClassVar[tuple[Rule, ...]] = ()
    """Rules over several fields of the type; those of base classes hold as well."""

    @classmethod
    def described(cls, name: str) -> str:
        """What is said about a field; empty when nothing is."""
        return cls.model_fields[name].description or docstrings.fields(cls).get(name, "")

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler, /) -> Schema:
        reference = handler(core_schema)
        schema = handler.resolve_ref_schema(reference)
        bases = [base for base in reversed(cls.__mro__) if issubclass(base, Model)]
        rules = [rule.schema() for base in bases for rule in base.__dict__.get("cel_rules", ())]
        if rules:
            schema[RULES] = rules
        for name, field in cls.model_fields.items():
            own = schema["properties"][field.alias or name]
            # Without one it would pass with that of its type.
            text = cls.described(name)
            own["description" if text else _UNDOCUMENTED] = text
            default = field.get_default(call_default_factory=True, validated_data={})
            if field.is_required() or default is None:
                continue
            # Only what differs from the type's own defaults, which the apiserver fills in.
            schema["properties"][field.alias or name]["default"] = (
                default.model_dump(mode="json", by_alias=True, exclude_defaults=True)
                if isinstance(default, BaseModel)
                else to_jsonable_python(default, by_alias=True)
            )
        return reference


# --- constrained aliases -------------------------------------------------------------------------------------------


def _integer_as_text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


_QUANTITY = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]+))?$"
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"

Quantity = Annotated[
    str, Field(pattern=r"^\+?" + _QUANTITY), BeforeValidator(_integer_as_text), K8s(int_or_string=True)
]
"""Amount of a resource, not negative (`500m`, `2Gi`, `4`); always text in Python."""

IntOrString = Annotated[int | str, K8s(int_or_string=True)]

IntOrPercent = Annotated[
    Annotated[int, Field(ge=0)] | Annotated[str, Field(pattern=r"^(100|[0-9]{1,2})%$")], K8s(int_or_string=True)
]
"""A count or a share of the whole (`1`, `25%`)."""

Name = Annotated[str, Field(pattern=f"^{_LABEL}$", min_length=1, max_length=63)]
"""DNS label (RFC 1123)."""

ObjectName = Annotated[str, Field(pattern=rf"^{_LABEL}(\.{_LABEL})*$", min_length=1, max_length=253)]
"""Name of a Kubernetes object whose kind allows dots (ConfigMap, Secret, Node, StorageClass, ...)."""

DataKey = Annotated[str, Field(pattern=r"^[-._a-zA-Z0-9]+$", min_length=1, max_length=253)]
"""Key of a ConfigMap or Secret."""

Port = Annotated[int, Field(ge=1, le=65535)]

Replicas = Annotated[int, Field(ge=0, le=1000)]
"""Number of pods; 0 is honoured."""

Seconds = Annotated[int, Field(ge=0, le=10 * 365 * 86400)]

Time = Annotated[str, K8s(format="date-time")]
"""RFC 3339 time in UTC with seconds, as Kubernetes writes it."""

WHOLE = K8s(map_type="atomic")
"""Marker of a map that is applied as a whole. Of one that is applied by its keys server-side apply makes null when we
take out the last one, and refuses the object then: `{}` and an absent field alike."""

Labels = Annotated[dict[str, str], Field(max_length=64), WHOLE]

Opaque = Annotated[dict[str, Any], K8s(preserve_unknown=True)]
"""A piece of a Kubernetes object that the apiserver checks where we use it (tolerations, affinity, overrides)."""


# --- conversion ----------------------------------------------------------------------------------------------------

_DROPPED = frozenset(
    {
        *("title", "discriminator", "examples", "deprecated", "readOnly", "writeOnly"),
        *("contentMediaType", "contentEncoding"),
    }
)
# Also the order in which they are written: what a reader wants to know about a field comes before what is inside it.
_KEPT = (
    *("type", INT_OR_STRING, "anyOf", "format", "description", "nullable", "default", "enum"),
    *("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf"),
    *("minLength", "maxLength", "pattern", "minItems", "maxItems", "minProperties", "maxProperties"),
    *(EMBEDDED, PRESERVE, LIST_TYPE, LIST_MAP_KEYS, MAP_TYPE, RULES),
    *("required", "properties", "additionalProperties", "items"),
)
# What apiextensions validates; any other format is accepted and ignored, which looks like a check and is none.
_FORMATS = frozenset(
    {
        *("int32", "int64", "float", "double", "byte", "password", "date", "date-time", "duration"),
        *("uri", "email", "hostname", "ipv4", "ipv6", "cidr", "mac", "uuid", "uuid3", "uuid4", "uuid5"),
    }
)


def maps(annotation: Any) -> Schema:
    """The part of the schema of a type that leads to maps; empty where there is none. From the type itself: its whole
    schema takes ten milliseconds to make. What a map of anything holds, and what is in lists, is no part of it."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return maps(arguments[0])
    if origin in (Union, types.UnionType):
        return next(filter(None, map(maps, arguments)), {})
    if origin is dict and arguments[1] is not Any:
        return {"additionalProperties": maps(arguments[1])}
    if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        return {}
    below = ((field.alias or name, maps(field.annotation)) for name, field in annotation.model_fields.items())
    found = {name: one for name, one in below if one}
    return {"properties": found} if found else {}


def structural(model: type[Model], path: str = "") -> Schema:
    """Returns the structural schema of a type; `path` starts the paths in errors (default: the type's name).

    Raises SchemaError for what has no structural form: unions (but `T | None = None` and `IntOrString`), recursive
    types, untyped values and lists, constrained map keys, unknown formats, and fields without a docstring.
    """
    raw = model.model_json_schema(by_alias=True, mode="validation")
    converter = _Converter(raw.pop("$defs", {}))
    out = converter.convert(raw, path or model.__name__, ())
    check_rules(out, path or model.__name__)
    complete_defaults(out)
    # A type used twice would otherwise be one object in two places.
    return copy.deepcopy(out)


class _Converter:
    def __init__(self, definitions: dict[str, Schema]) -> None:
        self.definitions = definitions

    def convert(self, source: Schema, path: str, stack: tuple[str, ...]) -> Schema:
        """Returns a new structural schema; `stack` has the names of the types being expanded, against recursion."""
        schema = {key: value for key, value in source.items() if key not in _DROPPED}
        if "$ref" in schema:
            name = schema.pop("$ref").rsplit("/", 1)[1]
            if name in stack:
                raise SchemaError(path, f"recursive type {name}")
            return self._finish(_merge(self.convert(self.definitions[name], path, (*stack, name)), schema), path)
        if len(schema.get("allOf", ())) == 1:
            return self._finish(_merge(self.convert(schema.pop("allOf")[0], path, stack), schema), path)
        for union in ("anyOf", "oneOf"):
            if union in schema and not schema.get(INT_OR_STRING):
                branch = self._only_branch(schema, schema.pop(union), path)
                return self._finish(_merge(self.convert(branch, path, stack), schema), path)
        if "const" in schema:
            schema["enum"] = [schema.pop("const")]
        for exclusive, inclusive in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if exclusive in schema:
                # OpenAPI v3.0 has a flag where JSON schema has a number.
                schema[inclusive], schema[exclusive] = schema[exclusive], True
        if schema.pop("uniqueItems", False):
            schema.setdefault(LIST_TYPE, "set")
        self._convert_children(schema, path, stack)
        return self._finish(schema, path)

    def _only_branch(self, schema: Schema, branches: list[Schema], path: str) -> Schema:
        values = [branch for branch in branches if branch.get("type") != "null"]
        if len(values) != 1:
            shown = " | ".join(_shown(branch) for branch in branches)
            raise SchemaError(path, f"union {shown} is not representable: use a struct with a CEL rule, or IntOrString")
        may_be_null = len(values) != len(branches)
        if may_be_null and not schema.get("nullable") and schema.get("default", ...) is not None:
            raise SchemaError(path, "may be null but has no `= None`: an absent value or K8s(nullable=True)?")
        return values[0]

    def _convert_children(self, schema: Schema, path: str, stack: tuple[str, ...]) -> None:
        properties = schema.get("properties", {})
        for name, child in properties.items():
            if _UNDOCUMENTED in child:
                raise SchemaError(f"{path}.{name}", "no docstring")
        if properties:
            schema["properties"] = {
                name: self.convert(child, f"{path}.{name}", stack) for name, child in properties.items()
            }
        for keyword in ("patternProperties", "propertyNames"):
            if keyword in schema:
                raise SchemaError(path, "keys of a map cannot be constrained by type: use str and a CEL rule")
        values = schema.pop("additionalProperties", False)
        if isinstance(values, dict) and values:
            schema["additionalProperties"] = self.convert(values, f"{path}.*", stack)
        elif values is not False and not schema.get(PRESERVE):
            raise SchemaError(path, "map without a type of its values (use Opaque or K8s(preserve_unknown=True))")
        if schema.get("type") == "array":
            if not schema.get("items"):
                raise SchemaError(path, "array without a type of its items")
            schema["items"] = self.convert(schema["items"], f"{path}[]", stack)

    def _finish(self, schema: Schema, path: str) -> Schema:
        if schema.get("default", ...) is None:
            del schema["default"]
        # An empty list or map means the same as an absent one and would only be noise in every stored object.
        if schema.get("default") in ([], {}) and (schema.get("type") == "array" or "properties" not in schema):
            del schema["default"]
        if "description" in schema:
            schema["description"] = paragraphs(schema["description"])
        unknown = sorted(schema.keys() - set(_KEPT))
        if unknown:
            raise SchemaError(path, f"{', '.join(unknown)}: no such keyword in a structural schema")
        if "type" not in schema and not schema.get(INT_OR_STRING) and not schema.get(PRESERVE):
            raise SchemaError(path, "value without a type")
        if "format" in schema and schema["format"] not in _FORMATS:
            raise SchemaError(path, f"format {schema['format']} is not checked by Kubernetes")
        self._check_list(schema, path)
        return {key: schema[key] for key in _KEPT if key in schema}

    def _check_list(self, schema: Schema, path: str) -> None:
        items = schema.get("items", {})
        kind = schema.get(LIST_TYPE)
        keys = schema.get(LIST_MAP_KEYS, [])
        if (kind or keys) and schema.get("type") != "array":
            raise SchemaError(path, "list type of something that is no list")
        if (kind == "map") != bool(keys):
            raise SchemaError(path, "list type `map` and map keys come together")
        if kind == "set" and items.get("type") in ("object", "array"):
            raise SchemaError(path, "set of values that are not scalars")
        for key in keys:
            entry = items.get("properties", {}).get(key)
            if entry is None:
                raise SchemaError(path, f"map key {key} is no field of the items")
            if key not in items.get("required", ()) and "default" not in entry:
                raise SchemaError(path, f"map key {key} is neither required nor has it a default")


def _merge(base: Schema, outer: Schema) -> Schema:
    """What is written at the field wins over what its type says; rules of both hold."""
    rules = [*base.get(RULES, ()), *outer.get(RULES, ())]
    return {**base, **outer, **({RULES: rules} if rules else {})}


def _shown(branch: Schema) -> str:
    return str(branch.get("$ref", "")).rsplit("/", 1)[-1] or str(branch.get("type", "?"))


def paragraphs(text: str) -> str:
    """Joins the lines of each paragraph: source is wrapped for the editor, descriptions are wrapped by kubectl."""
    return "\n\n".join(" ".join(part.split()) for part in re.split(r"\n\s*\n", text.strip()))


# --- defaults ------------------------------------------------------------------------------------------------------


def complete_defaults(schema: Schema) -> None:
    """Writes out the defaults of structs that have CEL rules.

    The apiserver fills nested defaults into objects, but evaluates the rules on the bare default of a CRD, where
    `{}` fails with "no such key".
    """
    for node, _, _ in _nodes(schema, "", None):
        if isinstance(node.get("default"), dict) and any(RULES in inner for inner, _, _ in _nodes(node, "", None)):
            node["default"] = _defaulted(node["default"], node)


def _defaulted(value: Any, schema: Schema) -> Any:
    """The apiserver's algorithm: adds the defaults of absent fields, then goes into what is there."""
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        absent = {name: child["default"] for name, child in properties.items() if "default" in child}
        inner = schema.get("additionalProperties", {})
        return {key: _defaulted(item, properties.get(key, inner)) for key, item in {**absent, **value}.items()}
    if isinstance(value, list):
        return [_defaulted(item, schema.get("items", {})) for item in value]
    return value


# --- CEL cost ------------------------------------------------------------------------------------------------------

_HAS = re.compile(r"\bhas\([^()]*\)")
_MENTION = re.compile(r"\b(?:self|oldSelf)((?:\.\w+)+)")


def check_rules(schema: Schema, path: str) -> None:
    """Raises SchemaError where a CEL rule reads a list, map or string without an upper bound.

    The apiserver estimates the cost of a rule from maxItems, maxProperties and maxLength, and refuses the whole CRD
    when the product over all nesting levels is too large. Bounds also protect it at run time.
    """
    for node, where, unbounded in _nodes(schema, path, None):
        rules = node.get(RULES, [])
        if rules and unbounded:
            raise SchemaError(where, f"CEL rule inside {unbounded}, which has no upper bound (max_length)")
        if rules and (bound := _missing_bound(node)):
            raise SchemaError(where, f"CEL rule on a value without {bound} (max_length)")
        for rule in rules:
            for mention in _MENTION.findall(_HAS.sub("", rule["rule"])):
                _check_mention(node, mention.strip(".").split("."), where)


def _nodes(schema: Schema, path: str, unbounded: str | None) -> Iterable[tuple[Schema, str, str | None]]:
    yield schema, path, unbounded
    for name, child in schema.get("properties", {}).items():
        yield from _nodes(child, f"{path}.{name}", unbounded)
    inside = unbounded or (path if _missing_bound(schema) else None)
    if "items" in schema:
        yield from _nodes(schema["items"], f"{path}[]", inside)
    if "additionalProperties" in schema:
        yield from _nodes(schema["additionalProperties"], f"{path}.*", inside)


def _missing_bound(schema: Schema) -> str | None:
    match schema.get("type"):
        case "array":
            bound = "maxItems"
        case "object" if "additionalProperties" in schema:
            bound = "maxProperties"
        case "string" if "enum" not in schema and "format" not in schema:
            bound = "maxLength"
        case _:
            return None
    return None if bound in schema else bound


def _check_mention(schema: Schema, names: list[str], path: str) -> None:
    for name in names:
        child = schema.get("properties", {}).get(name)
        if child is None:
            # A method, or the metadata of the root, which has bounds of its own.
            break
        schema, path = child, f"{path}.{name}"
    if bound := _missing_bound(schema):
        raise SchemaError(path, f"read by a CEL rule but without {bound} (max_length)")
