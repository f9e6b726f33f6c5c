"""One throw-away certificate authority for a whole test control plane.

Kueue sets the rules here. Its certificate rotator accepts an existing authority only when the key
is RSA in PKCS#1 form and the certificate carries the DNS name `kueue-ca`; otherwise it makes its
own, and the API server no longer trusts the webhooks. One authority that meets these rules serves
every other component as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = timedelta(days=365)  # The rotator replaces what expires within 90 days.


@dataclass(frozen=True, slots=True)
class Pair:
    """A private key and its certificate, both as PEM text."""

    key: str
    certificate: str


class Authority:
    """A certificate authority that signs servers and users."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self._key = serialization.load_pem_private_key(pair.key.encode(), password=None)
        self._certificate = x509.load_pem_x509_certificate(pair.certificate.encode())

    @classmethod
    def create(cls) -> Authority:
        """Make a new authority."""
        key = new_key()
        name = _name("kueue-ca", ["gpuyield-test"])
        certificate = (
            _builder(name, name, key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName("kueue-ca")]), critical=False)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .sign(key, hashes.SHA256())
        )
        return cls(Pair(key_pem(key), _pem(certificate)))

    @classmethod
    def read(cls, folder: Path) -> Authority:
        """The authority that `write_pair` left in the folder as `ca`."""
        return cls(Pair((folder / "ca.key").read_text(), (folder / "ca.crt").read_text()))

    def server(self, dns_names: Sequence[str]) -> Pair:
        """A certificate for a server on 127.0.0.1 that also answers to these names."""
        names = x509.SubjectAlternativeName(
            [
                x509.IPAddress(IPv4Address("127.0.0.1")),
                x509.DNSName("localhost"),
                *map(x509.DNSName, dns_names),
            ]
        )
        return self._issue(_name(dns_names[0], []), ExtendedKeyUsageOID.SERVER_AUTH, names)

    def user(self, name: str, groups: Sequence[str] = ()) -> Pair:
        """A client certificate; Kubernetes reads the user from CN and the groups from O."""
        return self._issue(_name(name, groups), ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def _issue(
        self,
        subject: x509.Name,
        purpose: x509.ObjectIdentifier,
        names: x509.SubjectAlternativeName | None,
    ) -> Pair:
        key = new_key()
        builder = (
            _builder(subject, self._certificate.subject, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        )
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        assert isinstance(self._key, rsa.RSAPrivateKey)
        return Pair(key_pem(key), _pem(builder.sign(self._key, hashes.SHA256())))


def new_key() -> rsa.RSAPrivateKey:
    """A new RSA key of 2048 bits."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def key_pem(key: rsa.RSAPrivateKey) -> str:
    """The key in PKCS#1 form (`BEGIN RSA PRIVATE KEY`)."""
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    return pem.decode()


def public_pem(key: rsa.RSAPrivateKey) -> str:
    """The public half of the key."""
    pem = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return pem.decode()


def write_pair(pair: Pair, folder: Path, name: str) -> None:
    """Write `name.crt` and `name.key`, the key readable by its owner only."""
    (folder / f"{name}.crt").write_text(pair.certificate)
    write_private(folder / f"{name}.key", pair.key)


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read."""
    path.touch(mode=0o600)
    path.write_text(text)


def write_kubeconfig(path: Path, server: str, user: str) -> None:
    """Write a kubeconfig that names `ca.crt`, `user.crt` and `user.key` beside it."""
    folder = path.parent.resolve()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "clusters": [
            {
                "name": "test",
                "cluster": {"server": server, "certificate-authority": f"{folder}/ca.crt"},
            }
        ],
        "users": [
            {
                "name": "test",
                "user": {
                    "client-certificate": f"{folder}/{user}.crt",
                    "client-key": f"{folder}/{user}.key",
                },
            }
        ],
    }
    path.write_text(yaml.safe_dump(config, sort_keys=False))


def _name(common: str, organizations: Sequence[str]) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(subject: x509.Name, issuer: x509.Name, key: rsa.RSAPrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + LIFETIME)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_encipherment=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
