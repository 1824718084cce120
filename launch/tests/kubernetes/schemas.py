"""Checks manifests offline, against the schemas that Kubernetes and the authors of each extension publish."""

import json


class Schemas:
    """`folder` holds Kubernetes' swagger.json, and the CustomResourceDefinitions in definitions.json."""

    def __init__(self, folder):
        self.definitions = json.loads((folder / "swagger.json").read_text())["definitions"]
        self.kinds = {}
        for schema in self.definitions.values():
            for kind in schema.get("x-kubernetes-group-version-kind", ()):
                group = f"{kind['group']}/" if kind["group"] else ""
                self.kinds[group + kind["version"], kind["kind"]] = schema
        for item in json.loads((folder / "definitions.json").read_text()):
            spec = item["spec"]
            for version in spec["versions"]:
                self.kinds[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = version["schema"]["openAPIV3Schema"]

    def problems(self, document):
        """Fields that do not exist or do not have the right type, as PATH: WHAT."""
        kind = document.get("apiVersion"), document.get("kind")
        if kind not in self.kinds:
            return [f"{kind[0]} {kind[1]}: no such kind"]
        return list(self.check(document, self.kinds[kind], kind[1]))

    def check(self, value, schema, path):
        while "$ref" in schema:
            schema = self.definitions[schema["$ref"].rpartition("/")[2]]
        if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
            return
        kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool, "number": (int, float)}
        wanted = schema.get("type")
        quantity = wanted == "string" and "Quantity" in schema.get("description", "")
        if wanted in kinds and (not isinstance(value, kinds[wanted]) or (wanted == "integer" and isinstance(value, bool))):
            if not (quantity and isinstance(value, (int, float))):
                yield f"{path}: {value!r} is no {wanted}"
            return
        if "enum" in schema and value not in schema["enum"]:
            yield f"{path}: {value!r} is none of {schema['enum']}"
        for name in schema.get("required", ()):
            if name not in value:
                yield f"{path}.{name}: is missing"
        if isinstance(value, dict):
            yield from self.check_fields(value, schema, path)
        elif isinstance(value, list):
            for number, item in enumerate(value):
                yield from self.check(item, schema.get("items", {}), f"{path}[{number}]")

    def check_fields(self, value, schema, path):
        fields, more = schema.get("properties"), schema.get("additionalProperties")
        for name, inner in value.items():
            if fields and name in fields:
                yield from self.check(inner, fields[name], f"{path}.{name}")
            elif isinstance(more, dict):
                yield from self.check(inner, more, f"{path}.{name}")
            elif fields and not schema.get("x-kubernetes-preserve-unknown-fields"):
                yield f"{path}.{name}: no such field"


def leaves(document, path=()):
    """(path, container, key) of every field."""
    items = document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    for key, value in list(items):
        yield (*path, key), document, key
        yield from leaves(value, (*path, key))
