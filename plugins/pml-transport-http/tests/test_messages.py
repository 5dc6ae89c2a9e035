from pml_hookspecs import EMPTY, RawObject
from pml_transport_http.server.messages import notification


def test_a_notification_without_params_has_none():
    assert notification("m", EMPTY) == b'{"jsonrpc":"2.0","method":"m"}'
    assert notification("m", RawObject(b'{"a":1}')) == b'{"jsonrpc":"2.0","method":"m","params":{"a":1}}'
