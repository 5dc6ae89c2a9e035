"""The hooks, and the two pluggy markers of this project."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from .access import AccessWatcher, Identities
    from .executor import Suggester, Wrapper
    from .exposure_mode import Embedder, SearchIndex, ToolFilter
    from .gateway import Check, Guide, MetaTool, NamedTools
    from .services import Services

PROJECT = "pml"
"""pluggy's project name; hook functions start with ``pml_``."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
"""Put on a function of a hook plugin: ``@hookimpl``. Plain functions only; the objects they return may be async."""


class AccessHooks:
    """Hooks around who may do what."""

    @hookspec
    def pml_identities(self, services: Services) -> Iterable[Identities]:
        """Contribute those who know keys, asked by ``Services.identify`` and ``Services.scope``.

        Of several plugins, ``[gateway.providers] identities`` may name the one that is asked; else all are.

        Called once, at start-up. Raising keeps the gateway from starting: without keys everybody would be let in.
        """
        return ()

    @hookspec
    def pml_access_watchers(self, services: Services) -> Iterable[AccessWatcher]:
        """Contribute those who hear of access and changes that no wrapper sees.

        Of callers that were not let in, of requests about tasks (MCP extension ``tasks``), of a changed configuration;
        transports and commands tell of theirs by ``Services.report_access``. Called once, at start-up, also where only
        a command runs. Raising quarantines the plugin.
        """
        return ()


class GatewayHooks:
    """Hooks around the gateway's life, its own tools and its command line."""

    @hookspec
    def pml_lifespan(self, services: Services) -> Iterable[AbstractAsyncContextManager[None]]:
        """Bracket the life of the gateway: entered after every driver is up, left before any goes down.

        Entered in plugin-name order, left in reverse. Failing to enter quarantines this plugin only, unless
        ``[gateway] strict`` is set.
        """
        return ()

    @hookspec
    def pml_meta_tools(self, services: Services) -> Iterable[MetaTool]:
        """Contribute tools the gateway serves itself. Called once, at start-up, in plugin-name order.

        A name claimed twice is a start-up error that names both plugins. Raising quarantines the plugin.
        """
        return ()

    @hookspec
    def pml_guides(self, services: Services) -> Iterable[Guide]:
        """Contribute guides. Called once, at start-up; a name claimed twice is a start-up error."""
        return ()

    @hookspec
    def pml_commands(self, subcommands: Any) -> None:
        """Add ``pml <verb>`` commands to an :mod:`argparse` sub-parser collection.

        Each parser sets one or more of three functions by ``parser.set_defaults``. ``run`` is called with the parsed
        arguments and returns the exit status. ``run_with`` is a coroutine function called with the parsed arguments and
        the plugin's :class:`Services`, for commands that look at the user's catalog, store or settings: the catalog is
        as it was last time, or with ``--connect``, which such parsers are given together with ``--config``, ``--mode``
        and ``--set``, as the servers list it now. With both, ``run`` is called first and may return None to say that
        it takes the services. ``run_on_trial`` is a coroutine function called with the arguments, the services and a
        :class:`~pml_hookspecs.gateway.Trial`, whose gateway they are of. A parser that also sets ``needs_gateway=True``
        starts a gateway, or servers, without being told ``--connect``: it is refused with a message where those do not
        run.

        An :class:`InvalidArguments` that either raises becomes a message and exit status 2; what to do may stand on a
        line of its own. Called while the command line is parsed: import nothing heavy here.
        """

    @hookspec
    def pml_named_tools(self, services: Services) -> Iterable[NamedTools | Awaitable[Sequence[NamedTools]]]:
        """Say which tools are named by what this plugin keeps: a name that fits nothing is told to the operator.

        Asked when the gateway has started, by ``pml config check`` and by ``pml plugins doctor``; the latter two start
        no servers and no lifespans. Names of servers whose tools are not known are not judged. Raising is noted, and
        the names of this plugin are not judged.
        """
        return ()

    @hookspec
    def pml_checks(self, services: Services) -> Iterable[Check | Awaitable[Check]]:
        """Contribute lines to ``pml plugins doctor``. May block for up to 10 s in all. The gateway is not running.

        A line that can only be written after a look into the store is an awaitable, such as what a coroutine function
        returns: only while it is awaited, ``services.store`` is open.
        """
        return ()


class ExposureHooks:
    """Hooks around listing and finding tools."""

    @hookspec
    def pml_search_index(self, services: Services) -> Iterable[SearchIndex]:
        """Provide the search index. Of several, ``[gateway.providers] search`` names the plugin whose is used.

        Without any, or where several are there and none is named, the core's BM25 is.

        Called once, at start-up. Raising quarantines the plugin.
        """
        return ()

    @hookspec
    def pml_embedders(self, services: Services) -> Iterable[Embedder]:
        """Provide a model that embeds texts, as ``Services.embedder``.

        Of several, ``[gateway.providers] embedder`` names the plugin whose is used; where it names none, none is.

        Called once, at start-up: load the model when it is first used. Raising quarantines the plugin.
        """
        return ()

    @hookspec
    def pml_filter_tools(self, services: Services) -> Iterable[ToolFilter]:
        """Contribute filters applied to every selection and every call, whichever mode made the selection.

        A tool is shown, and can be called, only if every filter keeps it. A filter that raises, or that gives
        neither True nor False, counts as "drop".
        Called once, at start-up, in plugin-name order. Raising keeps the gateway from starting: what the filter forbids
        would be allowed.
        """
        return ()


class ExecutorHooks:
    """Hooks around running tasks."""

    @hookspec
    def pml_wrap_executor(self, services: Services) -> Iterable[Wrapper]:
        """Contribute wrappers. Called once, at start-up; the chain is then fixed.

        Order is by phase, and within one as wrappers say (:class:`~pml_hookspecs.executor.Wrapper`): see ``pml plugins
        chain``. Where nobody says anything it is the same on every start, and no promise. Raising quarantines.
        """
        return ()

    @hookspec
    def pml_suggesters(self, services: Services) -> Iterable[Suggester]:
        """Contribute makers of plans, asked by ``Services.suggest``. Called once, at start-up. Raising quarantines.

        Of several plugins, ``[gateway.providers] suggester`` may name the one that is asked; all are where it does not.
        """
        return ()


class TransportHooks:
    """Hooks around listeners."""

    @hookspec
    def pml_routes(self, services: Services) -> Iterable[Any]:
        """Contribute Starlette routes, mounted under ``/<plugin name>/`` on HTTP listeners. Called once, at start-up.

        Requests have passed the listener's authentication: ``request.state.identity`` is the caller's
        :class:`Identity`, from which ``Services.session`` makes a session. Raising quarantines the plugin.
        """
        return ()

    @hookspec
    def pml_api_routes(self, services: Services) -> Iterable[Any]:
        """As :meth:`pml_routes`, for routes that all plugins share, mounted under ``/api/``. Called once, at start-up.

        In plugin-name order; of two routes for one path the first answers.
        """
        return ()
