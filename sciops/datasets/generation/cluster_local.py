"""A dask cluster on this machine that other users of the machine can neither use nor read.

Dask takes code from whoever connects, and a port on 127.0.0.1 is open to every user of the machine. Every connection
here is encrypted, and both ends show a certificate that exists only for this run, in a folder that this user alone can
read. (Given in memory, dask would write it to the system's temporary folder again and again, and a kill leave it
there.)
"""

from __future__ import annotations

import contextlib
import datetime
import logging
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import dask
from distributed import Nanny, Scheduler, Security, SpecCluster, Worker

from sciops.datasets.generation.cluster_scratch import scratch_path
from sciops.files.whole_files import hidden

_HOST = "127.0.0.1"
# seconds after the loss of a worker until dask looks whether one is there, and ends its nanny for good if another
# happens to be on its way: nannies here replace what they lose
_NEVER = 1e8
_ROLES = ("client", "scheduler", "worker")


class _SchedulerWithoutPages(Scheduler):
    def start_http_server(self, *arguments: Any, **options: Any) -> None:
        """Opens no port: the web pages ask nobody for a certificate, and dask has no option that closes them."""


class _WorkerWithoutPages(Worker):
    def start_http_server(self, *arguments: Any, **options: Any) -> None:
        """Opens no port, as for the scheduler."""


@contextlib.contextmanager
def local_cluster(workers: int) -> Iterator[SpecCluster]:
    """A scheduler and `workers` processes of one thread each on this machine, for the time of the context.

    All their ports take TLS connections with the certificate of this cluster alone (``cluster.security``), and there
    are no web pages. Their files are in a temporary folder that only this user can read, and are removed at the end;
    where this process was killed, `remove_abandoned(scratch_path())` removes them.

    Raises ImportError without cryptography, which makes the certificate.
    """
    pems, folder = _new_certificate(), hidden(scratch_path(), "scratch")
    folder.mkdir(0o700)  # fails where anything has that name
    options = {
        "worker_class": _WorkerWithoutPages,
        "nthreads": 1,
        "memory_limit": None,
        "silence_logs": logging.CRITICAL,  # errors of a part are reported once, by this process
    }
    try:
        security = _security_of(pems, folder)
        shared = {"host": _HOST, "protocol": "tls://", "security": security, "dashboard": False}
        worker = {"cls": Nanny, "options": shared | options}
        with (
            dask.config.set({"temporary-directory": str(folder), "distributed.deploy.lost-worker-timeout": _NEVER}),
            SpecCluster(
                scheduler={"cls": _SchedulerWithoutPages, "options": shared | {"port": 0}},
                workers={number: worker for number in range(workers)},
                worker=worker,
                security=security,
                silence_logs=logging.CRITICAL,
            ) as cluster,
        ):
            yield cluster
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def client_certificates(security: Security) -> dict[str, str]:
    """The settings of dask (`dask.config.set`) by which a client of this process joins a cluster of that security."""
    return {
        "distributed.comm.tls.ca-file": security.tls_ca_file,
        "distributed.comm.tls.client.cert": security.tls_client_cert,
        "distributed.comm.tls.client.key": security.tls_client_key,
    }


def _new_certificate() -> dict[str, bytes]:
    """A private key and its certificate, "key" and "cert" → PEM.

    As `Security.temporary` makes them, but valid whatever the clock says: where it is set back during the run, a worker
    that is started again could not join otherwise.
    """
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError:
        raise ImportError(
            "--workers needs cryptography, without which other users of this machine could run code as you: "
            "pip install 'sciops[cluster]'"
        ) from None
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "sciops")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(datetime.datetime(1970, 1, 2))
        .not_valid_after(datetime.datetime(9999, 12, 31))
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return {"key": secret, "cert": certificate.public_bytes(pem)}


def _security_of(pems: Mapping[str, bytes], folder: Path) -> Security:
    """One certificate for all roles, in files of a folder that this user alone can read."""
    files = {kind: str(folder / f"{kind}.pem") for kind in pems}
    for kind, file in files.items():
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
            opened.write(pems[kind])
    roles = {f"tls_{role}_{kind}": file for role in _ROLES for kind, file in files.items()}
    return Security(require_encryption=True, tls_ca_file=files["cert"], **roles)
