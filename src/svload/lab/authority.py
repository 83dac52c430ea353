"""A throw-away certificate authority, one per lab. Its key exists only in memory and is gone with the lab.
Clients verify against it."""

from __future__ import annotations

import datetime
import ipaddress
import os
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from svload.lab.kit import Credentials

MARGIN = datetime.timedelta(hours=1)


class Authority:
    """Signs service certificates (ECDSA P-256). Nothing it signs outlives `life` by more than an hour, itself included.

    (trustme's authority is valid for years and takes no end, hence `cryptography` directly.)
    """

    def __init__(self, life: datetime.timedelta) -> None:
        now = datetime.datetime.now(datetime.UTC)
        self._begin, self._end = now - MARGIN, now + life + MARGIN
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "svload lab, throw-away")])
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        self._cert = (
            self._builder(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def ca_pem(self) -> str:
        """Return the authority's certificate, which clients verify against."""
        return self._cert.public_bytes(serialization.Encoding.PEM).decode()

    def issue(self, service: str, folder: Path) -> Credentials:
        """Write a certificate for `service` and this machine's loopback into `folder`; only the owner can read
        the keys."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, service[:64])])
        names = x509.SubjectAlternativeName(
            [_general_name(one) for one in dict.fromkeys((service, "localhost", "127.0.0.1"))]
        )
        cert = (
            self._builder(name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(names, critical=False)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        cert_pem = cert.public_bytes(serialization.Encoding.PEM).decode()
        key_pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return Credentials(
            cert_file=_write(folder / "cert.pem", cert_pem),
            key_file=_write(folder / "key.pem", key_pem),
            both_file=_write(folder / "both.pem", key_pem + cert_pem),
            ca_pem=self.ca_pem,
        )

    def _builder(self, subject: x509.Name, public_key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        key_id = x509.SubjectKeyIdentifier.from_public_key(public_key)
        authority_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._begin)
            .not_valid_after(self._end)
            .add_extension(key_id, critical=False)
            .add_extension(authority_id, critical=False)
        )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _write(path: Path, text: str) -> Path:
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(text)
    return path
