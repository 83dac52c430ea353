//! The HTTPS listener's side of rustls.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, ServerSessionMemoryCache};
use rustls::ServerConfig;

use crate::config::Tls;

/// Sessions kept for TLS 1.2 clients that resume by id.
const SESSIONS: usize = 16_384;

/// The server's TLS settings: TLS 1.2 and 1.3, ALPN http/1.1, resumption by ticket and by id unless turned off.
///
/// # Errors
/// `tls.cert_pem: …` or `tls.key_pem: …`.
pub fn server_config(tls: &Tls) -> Result<Arc<ServerConfig>, String> {
    let certificates: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(tls.cert_pem.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(|error| format!("tls.cert_pem: {error}"))?;
    if certificates.is_empty() {
        return Err(
            "tls.cert_pem: holds no certificate (PEM text expected, not a file name)".to_owned(),
        );
    }
    let key = PrivateKeyDer::from_pem_slice(tls.key_pem.as_bytes())
        .map_err(|error| format!("tls.key_pem: {error}"))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("tls: {error}"))?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .map_err(|error| format!("tls.key_pem: {error}"))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    if tls.resumption {
        config.session_storage = ServerSessionMemoryCache::new(SESSIONS);
        config.ticketer = ring::Ticketer::new().map_err(|error| format!("tls: {error}"))?;
    } else {
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_field() {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let tls = |cert: &str, key: &str| Tls {
            cert_pem: cert.to_owned(),
            key_pem: key.to_owned(),
            resumption: true,
        };
        let (cert, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        assert!(server_config(&tls(&cert, &key)).is_ok());
        let error = |cert: &str, key: &str| server_config(&tls(cert, key)).unwrap_err();
        assert!(error("/etc/cert.pem", &key).starts_with("tls.cert_pem"));
        assert!(error(&cert, "rubbish").starts_with("tls.key_pem"));
        let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        assert!(error(&cert, &other.signing_key.serialize_pem()).starts_with("tls.key_pem"));
    }
}
