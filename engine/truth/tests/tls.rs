//! The HTTPS listener, with rustls as its client.

mod common;

use std::sync::Arc;

use common::{connect, start, Client, Running};
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};
use serde_json::json;

fn serve(more: serde_json::Value) -> (Running, RootCertStore) {
    let made = rcgen::generate_simple_self_signed(["cache".to_owned()]).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let mut tls = json!({"cert_pem": made.cert.pem(), "key_pem": made.signing_key.serialize_pem()});
    tls.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let server = start("store", json!({"https_port": 0, "tls": tls, "log": true}));
    server.fill(&["o"], &vec![b'x'; 300_000]);
    (server, roots)
}

fn client_config(
    roots: RootCertStore,
    version: &'static SupportedProtocolVersion,
) -> Arc<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_protocol_versions(&[version]).unwrap();
    Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
}

fn fetch(server: &Running, config: &Arc<ClientConfig>) {
    let name = ServerName::try_from("cache").unwrap();
    let session = ClientConnection::new(Arc::clone(config), name).unwrap();
    let mut client = Client::new(StreamOwned::new(session, connect(server.https)));
    for _ in 0..2 {
        let reply = client.get("/v1/a/c/o");
        assert_eq!((reply.status, reply.body.len()), (200, 300_000));
    }
}

#[test]
fn handshakes_and_resumptions_are_counted_in_both_versions() {
    let (server, roots) = serve(json!({}));
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        server.reset("counters,log");
        let config = client_config(roots.clone(), version);
        for _ in 0..3 {
            fetch(&server, &config);
        }
        let counters = server.counters();
        let seen = [
            "connections_accepted",
            "tls_handshakes",
            "tls_resumed",
            "requests",
            "requests_tls",
            "answers",
        ];
        let seen: Vec<u64> = seen
            .iter()
            .map(|name| counters[name].as_u64().unwrap())
            .collect();
        assert_eq!(seen, [3, 3, 2, 6, 6, 6], "{version:?}");
        assert_eq!(counters["body_bytes_out"], 6 * 300_000);
        assert!(server.log().iter().all(|row| row[7] == true));
    }
}

#[test]
fn without_resumption_every_handshake_is_full() {
    let (server, roots) = serve(json!({"resumption": false}));
    let config = client_config(roots, &rustls::version::TLS13);
    fetch(&server, &config);
    fetch(&server, &config);
    let counters = server.counters();
    assert_eq!(
        (&counters["tls_handshakes"], &counters["tls_resumed"]),
        (&json!(2), &json!(0))
    );
}

#[test]
fn a_peer_without_tls_is_a_failed_handshake() {
    let (server, _) = serve(json!({}));
    let mut client = Client::new(connect(server.https));
    client.send(b"GET /v1/a/c/o HTTP/1.1\r\nHost: h\r\n\r\n");
    server.wait_for("tls_failed", 1);
    server.wait_for("connections_open", 0);
    assert_eq!(
        (server.count("requests"), server.count("tls_handshakes")),
        (0, 0)
    );
}
