//! TLS as a share asks for it: ring, 1.2 and 1.3, verification against the given CA, resumption per user.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_name, Resumption, WebPkiServerVerifier};
use rustls::crypto::{ring, verify_tls12_signature, verify_tls13_signature, CryptoProvider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

use crate::share::{Fault, TlsSpec, TlsVersion};

/// The TLS side of one endpoint.
#[derive(Clone, Debug)]
pub struct Tls {
    config: Arc<ClientConfig>,
    pub name: ServerName<'static>,
}

impl Tls {
    /// `field`: where the share says so, for the fault.
    pub fn new(spec: &TlsSpec, field: &str) -> Result<Self, Fault> {
        let name = ServerName::try_from(spec.server_name.trim_matches(['[', ']']).to_owned())
            .map_err(|_| {
                Fault::new(
                    format!("{field}.server_name"),
                    "is neither a host name nor an address",
                )
            })?;
        let provider = Arc::new(ring::default_provider());
        let versions: &[_] = match spec.min {
            TlsVersion::V12 => &[&rustls::version::TLS13, &rustls::version::TLS12],
            TlsVersion::V13 => &[&rustls::version::TLS13],
        };
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)
            .map_err(|error| Fault::new(format!("{field}.min"), error.to_string()))?;
        let verifier: Arc<dyn ServerCertVerifier> = if spec.verify {
            let roots = Arc::new(roots(spec, field)?);
            let inner = WebPkiServerVerifier::builder_with_provider(roots, provider)
                .build()
                .map_err(|error| Fault::new(format!("{field}.ca_pem"), error.to_string()))?;
            Arc::new(NamingUnfit(inner))
        } else {
            Arc::new(AnyCertificate(provider))
        };
        let mut config = builder
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.resumption = Resumption::disabled();
        Ok(Tls {
            config: Arc::new(config),
            name,
        })
    }

    /// The same for another server. `None`: the host is neither a name nor an address.
    pub fn for_host(&self, host: &str) -> Option<Self> {
        let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned()).ok()?;
        Some(Tls {
            config: self.config.clone(),
            name,
        })
    }

    /// The configuration of one user: sessions are kept per user, as separate clients would. `resumes`: it keeps any.
    pub fn for_user(&self, resumes: bool) -> Arc<ClientConfig> {
        if !resumes {
            return self.config.clone();
        }
        let mut own = ClientConfig::clone(&self.config);
        own.resumption = Resumption::in_memory_sessions(8);
        Arc::new(own)
    }

    /// The same for HTTP/2 (RFC 9113 §3.2). `fallback`: the server may choose HTTP/1.1.
    pub fn for_http2(&self, resumes: bool, fallback: bool) -> Arc<ClientConfig> {
        let mut own = ClientConfig::clone(&self.for_user(resumes));
        own.alpn_protocols = vec![b"h2".to_vec()];
        if fallback {
            own.alpn_protocols.push(b"http/1.1".to_vec());
        }
        Arc::new(own)
    }
}

fn roots(spec: &TlsSpec, field: &str) -> Result<RootCertStore, Fault> {
    let fault = |problem: &str| Fault::new(format!("{field}.ca_pem"), problem);
    let pem = spec
        .ca_pem
        .as_deref()
        .ok_or_else(|| fault("is missing, and verify is true"))?;
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|_| fault("is not PEM"))?;
        // A bundle may hold certificates that can't be roots; those are passed over.
        let _ = store.add(certificate);
    }
    if store.is_empty() {
        return Err(fault("holds no usable CA certificate"));
    }
    Ok(store)
}

/// Verifies as usual. A certificate that no trusted authority could help is told apart (`ApplicationVerificationFailure`): it has no
/// names, is of X.509 version 1, or is an authority's own. Else users add an authority, in vain.
#[derive(Debug)]
struct NamingUnfit(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for NamingUnfit {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified =
            self.0
                .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            Err(Error::InvalidCertificate(flaw)) if is_unfit(&flaw, end_entity, server_name) => {
                Err(Error::InvalidCertificate(
                    CertificateError::ApplicationVerificationFailure,
                ))
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Whether a certificate that is refused for `flaw` could be a server's under no authority.
fn is_unfit(
    flaw: &CertificateError,
    certificate: &CertificateDer<'_>,
    name: &ServerName<'_>,
) -> bool {
    match flaw {
        // rustls has no names of its own for these.
        CertificateError::Other(other) => {
            ["UnsupportedCertVersion", "CaUsedAsEndEntity"].contains(&other.to_string().as_str())
        }
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            ParsedCertificate::try_from(certificate)
                .and_then(|parsed| verify_server_name(&parsed, name))
                .is_err_and(|error| has_no_names(&error))
        }
        _ => false,
    }
}

fn has_no_names(error: &Error) -> bool {
    matches!(
        error,
        Error::InvalidCertificate(CertificateError::NotValidForNameContext { presented, .. })
            if presented.is_empty()
    )
}

/// `verify: false`: any certificate will do, but signatures are still checked.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
