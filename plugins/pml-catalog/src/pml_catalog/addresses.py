"""URIs of resources as clients are given them, where two servers have one of the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    from pml_hookspecs import CatalogEntry

OURS, PAGES = "pml://", "ui://pml/"
"""Begin URIs of the gateway's own; the second those of pages (MCP Apps), which clients know by their scheme.

Behind them, ``resource/<server>/<quoted URI>`` is a resource whose own URI another server has, too, and
``template/<server>/<template>`` what a template gives that another server has, too: it stands as it is, since clients
put into it what they have quoted already.
"""
FLAT = ("ui/resourceUri", "openai/outputTemplate")
"""Keys of ``_meta`` that have the URI of a tool's page; MCP Apps has it in ``ui``."""
WEB = ("http:", "https:")
"""Schemes that many servers' URIs have, which tell nothing without the host."""


def is_own(uri: str) -> bool:
    """Whether a URI looks like one of the gateway's own: from a server it is another gateway's."""
    return uri.startswith((OURS, PAGES))


def alias(server: str, uri: str) -> str:
    """The URI by which the gateway reads ``uri`` from this very server."""
    return (
        f"{PAGES if uri.startswith('ui://') else OURS}resource/{server}/{quote(uri, safe='', errors='surrogatepass')}"
    )


def template_alias(server: str, template: str) -> str:
    """The template of whose URIs the gateway reads those of ``template`` from this very server."""
    return f"{PAGES if template.startswith('ui://') else OURS}template/{server}/{template}"


def unaliased(uri: str) -> tuple[str, str] | None:
    """The server and its own URI, of what the two above make; None for all other URIs."""
    for begin in (OURS, PAGES):
        kind, _, rest = uri.removeprefix(begin).partition("/") if uri.startswith(begin) else ("", "", "")
        server, slash, own = rest.partition("/")
        if kind in ("resource", "template") and slash and own:
            return server, unquote(own, errors="surrogatepass") if kind == "resource" else own
    return None


def ui_uris(meta: Any) -> list[str]:
    """The URIs of pages (MCP Apps) that ``_meta`` has."""
    if not isinstance(meta, Mapping):
        return []
    ui = meta.get("ui")
    found = [meta.get(key) for key in FLAT] + [ui.get("resourceUri") if isinstance(ui, Mapping) else None]
    return [uri for uri in found if isinstance(uri, str)]


def with_ui(meta: Mapping[str, Any], shown: Callable[[str], str]) -> dict[str, Any]:
    """``meta`` with those URIs as clients are given them."""
    changed: dict[str, Any] = {key: shown(meta[key]) for key in FLAT if isinstance(meta.get(key), str)}
    ui = meta.get("ui")
    if isinstance(ui, Mapping) and isinstance(uri := ui.get("resourceUri"), str):
        changed["ui"] = {**ui, "resourceUri": shown(uri)}
    return {**meta, **changed}


def ui_owners(entries: Iterable[CatalogEntry], keeps: Callable[[CatalogEntry], bool]) -> dict[str, str]:
    """The pages that tools name which are kept, each with the first server whose tools do; in the order given."""
    owners: dict[str, str] = {}
    for entry in entries:
        uris = ui_uris(entry.definition.get("_meta"))
        if uris and keeps(entry):
            for uri in uris:
                owners.setdefault(uri, entry.server)
    return owners


def definition_for(entry: CatalogEntry, owners: Mapping[str, str]) -> Mapping[str, Any]:
    """The definition of a tool with its page as the gateway reads it from its own server."""

    def shown(uri: str) -> str:
        return alias(entry.server, uri) if is_own(uri) or owners.get(uri, entry.server) != entry.server else uri

    meta = entry.definition.get("_meta")
    if all(shown(uri) == uri for uri in ui_uris(meta)):
        return entry.definition
    return {**entry.definition, "_meta": with_ui(meta or {}, shown)}


def kind_of(uri: str) -> str:
    """The scheme of a URI with its colon, and the host for those of the web; ``""`` for what has none."""
    scheme, colon, rest = uri.partition(":")
    scheme = f"{scheme}{colon}".lower() if colon else ""
    return scheme + rest.removeprefix("//").partition("/")[0].lower() if scheme in WEB else scheme
