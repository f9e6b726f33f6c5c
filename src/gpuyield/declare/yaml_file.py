"""Read `gpuyield.yaml`: every mistake at once, each with file:line:col and a fix."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Any, get_args, get_origin  # error details of pydantic are untyped

from pydantic import BaseModel, ValidationError

from gpuyield.declare.build import build_declaration
from gpuyield.declare.crosschecks import cross_check
from gpuyield.declare.form import ClusterForm
from gpuyield.declare.tree import Plain, Tree, in_order, plain_mapping, shown
from gpuyield.declare.values import did_you_mean, parse_zone_name
from gpuyield.declare.yaml_tree import read_tree
from gpuyield.errors import DeclarationError, Mistake
from gpuyield.model.declaration import Declaration
from gpuyield.units import parse_zone

_SECRETS = ("token", "password", "secret", "headers", "authorization", "api_key", "apikey", "bearer", "username")
_MISSING = {
    "sources": 'Add sources: {prometheus: {url: "http://127.0.0.1:9090"}}.',
    "prometheus": 'Add prometheus: {url: "http://127.0.0.1:9090"}.',
    "selector": "Add selector: {namespace: NAME}.",
}


def load_declaration(path: Path, *, known_flavors: Collection[str] | None = None) -> Declaration:
    """The declaration in this file.

    With `known_flavors` (what nodes report) a flavor that is neither known nor in `inventory` is a mistake.

    Raises:
        DeclarationError: The file cannot be read, or anything in it is wrong; all mistakes at once.
    """
    return parse_declaration(read_file(path, absent=_DRAFT), file=str(path), known_flavors=known_flavors)


def parse_declaration(data: bytes, *, file: str, known_flavors: Collection[str] | None = None) -> Declaration:
    """The declaration in these bytes; `file` is the name that messages show.

    Raises:
        DeclarationError: Anything in it is wrong; all mistakes at once, in the order of their places.
    """
    tree = read_tree(data, file=file)
    root = tree.root.plain()
    if not isinstance(root, dict):
        raise DeclarationError(
            "the file is no mapping of keys.", where=tree.where([]), fix=f"Start with {_MISSING['sources'][4:]}"
        )
    zone = _zone(root)
    mistakes = cross_check(tree, root, zone=zone, known_flavors=known_flavors)
    try:
        filled = ClusterForm.model_validate(root, context={"zone": zone})
    except ValidationError as err:
        mistakes += [_translate(tree, one) for one in err.errors(include_url=False)]
    if mistakes:
        raise DeclarationError.of(in_order(mistakes))
    return build_declaration(filled, path=file, sha256=hashlib.sha256(data).hexdigest())


_DRAFT = "gpuyield init drafts a gpuyield.yaml; -f names another."


def read_file(path: Path, *, absent: str = "Check the path.") -> bytes:
    """The bytes of a file that a person named; `absent` is what to do where there is none.

    Raises:
        DeclarationError: It cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError as err:
        raise DeclarationError("no such file.", where=str(path), fix=absent) from err
    except (OSError, ValueError) as err:
        reason = err.strerror if isinstance(err, OSError) and err.strerror else str(err)
        raise DeclarationError(f"the file cannot be read: {reason}.", where=str(path), fix="Check the path.") from err


def _zone(root: Plain) -> tzinfo:
    name = plain_mapping(root).get("reporting_zone")
    try:
        return parse_zone(parse_zone_name(name)) if isinstance(name, str) else UTC
    except DeclarationError:
        return UTC


def _translate(tree: Tree, error: Any) -> Mistake:
    """An error of pydantic in our words, at its place."""
    path: tuple[str | int, ...] = error["loc"]
    name = str(next((step for step in reversed(path) if isinstance(step, str)), "the file"))
    where = tree.where(path)
    match error["type"]:
        case "gpuyield_mistake":
            context = error["ctx"]
            what, label = context["what"], context["label"]
            if label and what.startswith(f"{label} "):
                what = shown(name) + what[len(label) :]
            return Mistake(what=what, where=where, fix=context["fix"])
        case "extra_forbidden":
            return Mistake(what=f'unknown key "{shown(name)}".', where=tree.where_key(path), fix=_unknown_key_fix(path))
        case "missing":
            return Mistake(what=f"{name} is missing.", where=where, fix=_MISSING.get(name, f"Add {name}: ..."))
        case "list_type":
            return Mistake(what=f"{name} must be a list.", where=where, fix="Start each entry with a dash.")
        case "dict_type" | "model_type" | "model_attributes_type":
            key = next(iter(known_keys(path)), "key")
            return Mistake(what=f"{name} must be a mapping of keys.", where=where, fix=f"Write {{{key}: ...}}.")
        case _:
            return Mistake(what=f"{name}: {error['msg']}.", where=where, fix="See docs/reference/gpuyield-yaml.md.")


def _unknown_key_fix(path: Sequence[str | int]) -> str:
    known = known_keys(path[:-1])
    name = str(path[-1])
    if "token_file" in known and name.lower() in _SECRETS:
        wanted = "headers_file" if name.lower() in ("headers", "username", "password") else "token_file"
        return f"A secret does not belong here: write {wanted}: PATH."
    return did_you_mean(name, known)


def known_keys(path: Sequence[str | int]) -> list[str]:
    """The keys of the form at this path, as they are written."""
    here: Any = ClusterForm
    for step in path:
        here = _inner(here, step)
    model = next((one for one in _alternatives(here) if isinstance(one, type) and issubclass(one, BaseModel)), None)
    return [field.alias or name for name, field in model.model_fields.items()] if model else []


def _inner(kind: Any, step: str | int) -> Any:
    for one in _alternatives(kind):
        if isinstance(one, type) and issubclass(one, BaseModel):
            for name, field in one.model_fields.items():
                if step in (field.alias, name):
                    return field.annotation
        elif get_origin(one) is list and isinstance(step, int):
            return get_args(one)[0]
        elif get_origin(one) is dict and isinstance(step, str):
            return get_args(one)[1]
    return None


def _alternatives(kind: Any) -> list[Any]:
    inner = get_args(kind)
    return [kind] if get_origin(kind) in (list, dict) or not inner else list(inner)
