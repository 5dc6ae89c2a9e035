"""What a process that the gateway starts for somebody else gets of the gateway's own environment.

The gateway's environment holds what others trusted it with: the tokens of its clients, the keys of all servers. So a
process gets a short list that nearly every program needs and that gives nothing away, and what it is given by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

USUAL_VARIABLES = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM"),
    *("LANG", "LANGUAGE", "LC_*", "TZ"),
    *("TMPDIR", "TEMP", "TMP", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
    *("SYSTEMROOT", "SYSTEMDRIVE", "COMSPEC", "PATHEXT", "WINDIR", "USERPROFILE", "APPDATA", "LOCALAPPDATA"),
    *("PROGRAMDATA", "PROGRAMFILES"),
)
"""Names that every process gets, if they are set; a ``*`` stands for the rest of a name."""
_OWN_PREFIX = "PML_"
"""How the gateway's own settings begin; a pattern never passes them on."""


def is_usual(name: str) -> bool:
    """Whether every process gets the variable."""
    return _is_among(name, USUAL_VARIABLES)


def passed_on(environment: Mapping[str, str], names: Iterable[str] = ()) -> dict[str, str]:
    """The part of ``environment`` that a process gets: the usual variables and those named.

    Args:
        environment: The gateway's own.
        names: Further ones, as ``NAME`` or ``PREFIX_*``; what is not set is left out.
    """
    wanted = (*USUAL_VARIABLES, *names)
    exactly = frozenset(wanted)
    return {
        name: value
        for name, value in environment.items()
        if name in exactly or (not name.startswith(_OWN_PREFIX) and _is_among(name, wanted))
    }


def _is_among(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) if "*" in pattern else name == pattern for pattern in patterns)
