"""The hooks, and the two pluggy markers of this project."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from .executor import Wrapper
    from .exposure_mode import ToolFilter
    from .gateway import Check, MetaTool
    from .offers import Offer
    from .services import Services

PROJECT = "pml"
"""pluggy's project name; hook functions start with ``pml_``."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
"""Put on a function of a hook plugin: ``@hookimpl``. Plain functions only; the objects they return may be async."""


class Hooks:
    """All of them."""

    @hookspec
    def pml_offers(self, services: Services) -> Iterable[Offer[Any]]:
        """Offer something to other plugins, or to the gateway; whoever has the key finds it by ``Services.find``.

        Called once, at start-up, also where only a command runs, before every other hook that contributes something:
        make what is heavy when it is first used. Of several plugins, ``[gateway.providers]`` names the one that counts.
        Raising quarantines the plugin; that of a guard keeps the gateway from starting.
        """
        return ()

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
    def pml_commands(self, subcommands: Any) -> None:
        """Add ``pml <verb>`` commands to an :mod:`argparse` sub-parser collection.

        Each parser sets one or more of five functions by ``parser.set_defaults``. ``run`` is called with the parsed
        arguments and returns the exit status. ``run_with`` is a coroutine function called with the parsed arguments and
        the plugin's :class:`Services`, for commands that look at the user's catalog, store or settings: the catalog is
        as it was last time, or with ``--connect``, which such parsers are given together with ``--config``, ``--mode``
        and ``--set``, as the servers list it now. ``run_on_trial`` is a coroutine function called with the arguments,
        the services and a ``pml_kit.command_line.trial.Trial``, whose gateway they are of. ``run_on_files`` is called
        with the arguments and a ``pml_clients.configuration.view.ConfigurationFiles``, for commands that change what is
        configured: no gateway is made. ``run_on_installation`` is called with the arguments and a
        ``pml_settings.installation.Installation``, for commands that look after what is installed and
        configured. These two need the options of ``pml_kit.command_line.commands.add_sources``. Of several functions
        ``run`` is called first, then those for files, for the installation, with services and on trial, until one does
        not return None, which says that it leaves the command to the next. A parser that also sets
        ``needs_gateway=True`` starts a gateway, or servers, without being told ``--connect``: it is refused with a
        message where those do not run.

        ``subcommands.choices`` has the commands that are there already: a parser of theirs may be given options, verbs
        and functions that it does not have. ``pml_kit.command_line.commands`` makes those that several add to.

        An :class:`InvalidArguments` that either raises becomes a message and exit status 2; what to do may stand on a
        line of its own. Called while the command line is parsed: import nothing heavy here.
        """

    @hookspec
    def pml_checks(self, services: Services) -> Iterable[Check | Awaitable[Check]]:
        """Contribute lines to ``pml plugins doctor``. May block for up to 10 s in all. The gateway is not running.

        A line that can only be written after a look into the store is an awaitable, such as what a coroutine function
        returns: only while it is awaited, ``services.store`` is open.
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

    @hookspec
    def pml_wrap_executor(self, services: Services) -> Iterable[Wrapper]:
        """Contribute wrappers. Called once, at start-up; the chain is then fixed.

        Order is by phase, and within one as wrappers say (:class:`~pml_hookspecs.executor.Wrapper`): see ``pml plugins
        chain``. Where nobody says anything it is the same on every start, and no promise. Raising quarantines.
        """
        return ()

    @hookspec
    def pml_routes(self, services: Services) -> Iterable[Any]:
        """Contribute Starlette routes, mounted under ``/<plugin name>/`` on HTTP listeners. Called once, at start-up.

        A :class:`~pml_hookspecs.SharedRoute` is mounted under ``/api/``, with those of all plugins, in the order of
        their names: of two for one path the first answers.

        Requests have passed the listener's authentication: ``request.state.identity`` is the caller's
        :class:`Identity`, from which ``Services.session`` makes a session. A ``pml_kit.offers.OpenRoute`` is served
        without. Raising quarantines the plugin.
        """
        return ()
