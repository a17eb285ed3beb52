"""How a running scheduler is joined: with certificates, unless the caller accepts a connection without any.

A scheduler sends Python objects that its clients unpack, and runs what they send: whoever can answer or ask without a
certificate can run code as the user of the other end.
"""

from __future__ import annotations

import os
from typing import Any

from distributed import Security
from distributed.comm import get_address_host_port, parse_address

_SETTINGS = {
    "tls_ca_file": "DASK_DISTRIBUTED__COMM__TLS__CA_FILE",
    "tls_client_cert": "DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT",
}


def check_address(address: str) -> None:
    """Raises ValueError or TypeError for what is not the address of a scheduler."""
    if parse_address(address)[0] != "inproc":
        get_address_host_port(address)


def security_for(address: str, *, insecure: bool = False) -> Security:
    """The certificates of this client, as dask's configuration or environment names them, for a scheduler.

    insecure : whether an address of another protocol than tls will do

    Raises ValueError for such an address otherwise, and where certificates are missing or cannot be read.
    """
    scheme = parse_address(address)[0]
    if scheme == "inproc":  # a scheduler of this process
        return Security(require_encryption=False)
    if scheme != "tls":
        if insecure:
            return Security(require_encryption=False)
        raise ValueError(
            f"--scheduler {address} asks for no certificate: whoever reaches its port can run code as you; start it "
            "with `dask scheduler` and certificates, or accept that with --insecure-scheduler"
        )
    security: Any = Security(require_encryption=True)
    missing = [name for field, name in _SETTINGS.items() if not getattr(security, field)]
    if missing:
        raise ValueError(
            f"--scheduler {address} needs certificates: set {' and '.join(missing)} to files in PEM format"
        )
    try:
        security.get_connection_args("client")
    except OSError as error:  # of which ssl.SSLError is one
        files = [security.tls_ca_file, security.tls_client_cert, security.tls_client_key]
        named = ", ".join(os.fspath(file) for file in files if file and "\n" not in file)
        raise ValueError(
            f"--scheduler {address}: the certificates {named} cannot be used "
            f"({' '.join(str(error).split())[:120]}): expected files in PEM format, the key that of the certificate"
        ) from None
    return security
