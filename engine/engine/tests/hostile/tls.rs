//! Faults of TLS: certificates that must not be taken, and handshakes and records that are none.

use std::io::{Read, Write};
use std::sync::{Arc, LazyLock};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ServerConfig, ServerConnection};
use serde_json::{json, Value};

use super::common::{ok, MS};
use super::peer::{Peer, Stage};
use super::Fault;

/// The name that the client asks for.
const NAME: &str = "cache.test";

/// What the server shows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Certificate {
    Good,
    Expired,
    NotYetValid,
    WrongName,
    SelfSigned,
    UnknownAuthority,
    /// Trusted, in a chain of 400 that is larger than a client reads.
    LongChain,
    /// Signed by itself: without any name,
    Nameless,
    /// an authority's own, as `openssl req -x509` makes it,
    AuthoritysOwn,
    /// of X.509 version 1, as `openssl x509 -req -signkey` makes it without extensions.
    Version1,
}

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

static TRUSTED: LazyLock<Authority> = LazyLock::new(authority);

const VERSION_1_PEM: &str = "-----BEGIN CERTIFICATE-----\n\
MIIBJTCBzQIUbYkEeV5269RU6N/VtciP5DuUa3cwCgYIKoZIzj0EAwIwFTETMBEG\n\
A1UEAwwKY2FjaGUudGVzdDAgFw0yNjExMjIxODA4NDNaGA8yMTI2MTAyOTE4MDg0\n\
M1owFTETMBEGA1UEAwwKY2FjaGUudGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEH\n\
A0IABEH4b75qIYwQ0SUMNDEvU8hAx/MiBoGz5PG0u5W8hINTBykKj9jvDj9tBA4v\n\
FYQ7hi6UDJvwLg794VjFAj2uu+gwCgYIKoZIzj0EAwIDRwAwRAIgbpBeo+OQwSK0\n\
q6trtfJqFtnvmOYIKjNVj+hY3QH68zMCIHL0LyuEkXfqeNn3yaAwLeP+AdAOp5f6\n\
2P/qO+O44Vjy\n\
-----END CERTIFICATE-----\n";
const VERSION_1_KEY_PEM: &str = "-----BEGIN PRIVATE KEY-----\n\
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg9TQphkenpVnH7N8k\n\
eotNJGA1I+sC/lOVEvxDsg2w5C2hRANCAARB+G++aiGMENElDDQxL1PIQMfzIgaB\n\
s+TxtLuVvISDUwcpCo/Y7w4/bQQOLxWEO4YulAyb8C4O/eFYxQI9rrvo\n\
-----END PRIVATE KEY-----\n";

/// The share's side: the one authority that it trusts.
pub fn trust() -> Value {
    json!({"server_name": NAME, "ca_pem": TRUSTED.pem(), "verify": true, "min": "1.2"})
}

/// The server's side.
pub fn server(certificate: Certificate) -> Arc<ServerConfig> {
    let name = if certificate == Certificate::WrongName {
        "other.test"
    } else {
        NAME
    };
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    match certificate {
        Certificate::Expired => params.not_after = rcgen::date_time_ymd(2001, 1, 1),
        Certificate::NotYetValid => params.not_before = rcgen::date_time_ymd(2999, 1, 1),
        Certificate::Nameless => params.subject_alt_names.clear(),
        Certificate::AuthoritysOwn => params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained),
        _ => {}
    }
    if certificate == Certificate::Version1 {
        let leaf = CertificateDer::from_pem_slice(VERSION_1_PEM.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(VERSION_1_KEY_PEM.as_bytes()).unwrap();
        return showing(vec![leaf], key);
    }
    let key = KeyPair::generate().unwrap();
    let leaf = match certificate {
        Certificate::SelfSigned | Certificate::Nameless | Certificate::AuthoritysOwn => {
            params.self_signed(&key)
        }
        Certificate::UnknownAuthority => params.signed_by(&key, &*authority()),
        _ => params.signed_by(&key, &**TRUSTED),
    };
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let copies = match certificate {
        Certificate::LongChain => 400,
        _ => 1,
    };
    showing(vec![leaf.unwrap().der().clone(); copies], key)
}

fn showing(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Arc<ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    // Without the check that a sound server makes of its own certificate.
    let key = provider.key_provider.load_private_key(key).unwrap();
    let shown = CertifiedKey::new(chain, key);
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(shown)));
    config.send_half_rtt_data = true;
    Arc::new(config)
}

fn patient(share: &mut Value) {
    share["groups"][0]["request"]["timeout_ns"] = (10_000 * MS).into();
}

fn shown(name: &'static str, error: &'static str, certificate: Certificate) -> Fault {
    Fault {
        name,
        error,
        some_ok: false,
        stage: Stage::Tls(certificate),
        share: patient,
        serve: |peer| while peer.answer(ok("secret")) {},
    }
}

/// What answers the client's hello.
fn raw(name: &'static str, error: &'static str, serve: fn(&mut Peer<'_>)) -> Fault {
    Fault {
        name,
        error,
        some_ok: false,
        stage: Stage::NoTls,
        share: patient,
        serve,
    }
}

/// What comes in a session that stands.
fn within(name: &'static str, error: &'static str, serve: fn(&mut Peer<'_>)) -> Fault {
    Fault {
        stage: Stage::Tls(Certificate::Good),
        ..raw(name, error, serve)
    }
}

/// Answers the hello with these bytes and ends the stream.
macro_rules! says {
    ($name:literal, $error:literal, $bytes:expr) => {
        raw($name, $error, |peer| {
            if peer.hello() && peer.say($bytes) {
                peer.end();
            }
        })
    };
}

/// A ServerHello of TLS 1.1 that chooses TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA.
fn hello_of_tls_1_1() -> Vec<u8> {
    let hello = [&[3, 2][..], &[7; 32], &[0, 0xc0, 0x13, 0]].concat();
    let message = [&[2, 0, 0, hello.len() as u8][..], &hello].concat();
    [&[0x16, 3, 2, 0, message.len() as u8][..], &message].concat()
}

/// An answer sent right behind the server's own part of the handshake, before the client could ask.
fn speak_first(peer: &mut Peer<'_>) {
    let mut session = ServerConnection::new(server(Certificate::Good)).unwrap();
    let mut tcp = peer.tcp;
    session.read_tls(&mut tcp).unwrap();
    session.process_new_packets().unwrap();
    session.writer().write_all(&ok("unasked")).unwrap();
    let mut flight = Vec::new();
    while session.wants_write() {
        session.write_tls(&mut flight).unwrap();
    }
    if peer.say_raw(&flight) {
        let _ = tcp.read_to_end(&mut Vec::new());
    }
}

/// All of them.
pub fn faults() -> Vec<Fault> {
    vec![
        shown("expired", "tls_expired", Certificate::Expired),
        shown(
            "not yet valid",
            "tls_not_yet_valid",
            Certificate::NotYetValid,
        ),
        shown("wrong name", "tls_wrong_name", Certificate::WrongName),
        shown("self-signed", "tls_untrusted", Certificate::SelfSigned),
        shown(
            "unknown authority",
            "tls_untrusted",
            Certificate::UnknownAuthority,
        ),
        shown("chain of 400", "tls_certificate", Certificate::LongChain),
        Fault {
            share: |share| {
                patient(share);
                share["endpoints"]["https://cache.test"]["tls"]["verify"] = false.into();
            },
            ..shown(
                "chain of 400, unverified",
                "tls_certificate",
                Certificate::LongChain,
            )
        },
        says!(
            "certificate of 16 MiB in TLS 1.2",
            "tls_certificate",
            b"\x16\x03\x03\0\x04\x0b\xff\xff\xff"
        ),
        shown("without a name", "tls_unfit", Certificate::Nameless),
        shown(
            "an authority's own",
            "tls_unfit",
            Certificate::AuthoritysOwn,
        ),
        shown("of version 1", "tls_unfit", Certificate::Version1),
        Fault {
            share: |share| {
                patient(share);
                let tls = &mut share["endpoints"]["https://cache.test"]["tls"];
                tls["ca_pem"] = VERSION_1_PEM.into();
            },
            ..shown("of version 1, trusted", "tls_unfit", Certificate::Version1)
        },
        says!(
            "plain HTTP",
            "tls_malformed",
            "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
        ),
        says!("garbage", "tls_malformed", b"\xde\xad\xbe\xef\0\0\0\0"),
        says!(
            "record of 64 KiB",
            "tls_malformed",
            b"\x16\x03\x03\xff\xff\x02"
        ),
        says!("end after the hello", "tls_closed", b""),
        says!(
            "end in a record",
            "tls_closed",
            b"\x16\x03\x03\0\x50\x02\0\0"
        ),
        raw("reset after the hello", "tls_closed", |peer| {
            if peer.hello() {
                peer.reset();
            }
        }),
        says!("alert", "tls_alert", b"\x15\x03\x03\0\x02\x02\x28"),
        says!(
            "alert for the version",
            "tls_incompatible",
            b"\x15\x03\x02\0\x02\x02\x46"
        ),
        says!("TLS 1.1 alone", "tls_incompatible", hello_of_tls_1_1()),
        Fault {
            share: |_| {},
            ..raw("silence after the hello", "tls_timeout", |peer| {
                if peer.hello() {
                    peer.stall();
                }
            })
        },
        Fault {
            share: |_| {},
            ..raw("handshake of a byte a second", "tls_timeout", |peer| {
                if peer.hello() {
                    peer.drip(&hello_of_tls_1_1());
                }
            })
        },
        raw("answer before the request", "unexpected_data", speak_first),
        within("record that was altered", "tls_malformed", |peer| {
            if peer.asked() && peer.say_raw(b"\x17\x03\x03\0\x20") {
                peer.say_raw(&[0; 32]);
                peer.end();
            }
        }),
        within("end without goodbye", "short_body", |peer| {
            if peer.answer("HTTP/1.1 200 OK\r\n\r\nabc") {
                peer.end();
            }
        }),
        within("end without goodbye after all bytes", "", |peer| {
            if peer.answer("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc") {
                peer.end();
            }
        }),
    ]
}
