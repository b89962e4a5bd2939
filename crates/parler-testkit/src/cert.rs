//! A certificate for this machine, and the authority that made it.

use std::sync::Arc;

use parler_hub::tls::TlsFiles;
use parler_identity::keyfile;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

/// Certificate, key and authority, all in PEM.
#[derive(Clone)]
pub struct TestCert {
    /// The authority's own certificate: what a client has to trust.
    pub ca: String,
    /// The hub's certificate.
    pub cert: String,
    /// Its private key.
    pub key: String,
}

impl TestCert {
    /// A certificate for `localhost` and 127.0.0.1, by an authority that nobody knows yet.
    ///
    /// # Panics
    /// When it cannot be made.
    #[must_use]
    pub fn new() -> TestCert {
        TestCert::for_names(&["localhost", "127.0.0.1"])
    }

    /// The same for other names or addresses.
    ///
    /// # Panics
    /// When it cannot be made.
    #[must_use]
    pub fn for_names(names: &[&str]) -> TestCert {
        TestCert::by_authority(names, |_| {})
    }

    /// The same as [`TestCert::new`], and its time is over.
    ///
    /// # Panics
    /// When it cannot be made.
    #[must_use]
    pub fn expired() -> TestCert {
        TestCert::by_authority(&["localhost", "127.0.0.1"], |leaf| {
            leaf.not_before = rcgen::date_time_ymd(2001, 1, 1);
            leaf.not_after = rcgen::date_time_ymd(2002, 1, 1);
        })
    }

    /// A certificate that nobody vouches for but itself.
    ///
    /// # Panics
    /// When it cannot be made.
    #[must_use]
    pub fn self_signed() -> TestCert {
        let key = KeyPair::generate().expect("a key");
        let names = ["localhost", "127.0.0.1"].map(str::to_owned);
        let params = CertificateParams::new(names).expect("names");
        let cert = params.self_signed(&key).expect("a certificate");
        TestCert {
            ca: cert.pem(),
            cert: cert.pem(),
            key: key.serialize_pem(),
        }
    }

    fn by_authority(names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> TestCert {
        let ca_key = KeyPair::generate().expect("a key");
        let mut ca = CertificateParams::default();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.distinguished_name
            .push(DnType::CommonName, "Parler test authority");
        let ca_cert = ca.self_signed(&ca_key).expect("an authority");
        let issuer = Issuer::new(ca, ca_key);
        let key = KeyPair::generate().expect("a key");
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut leaf = CertificateParams::new(names).expect("names");
        change(&mut leaf);
        let cert = leaf.signed_by(&key, &issuer).expect("a certificate");
        TestCert {
            ca: ca_cert.pem(),
            cert: cert.pem(),
            key: key.serialize_pem(),
        }
    }

    /// Writes certificate and key where a hub is told to find them.
    ///
    /// # Panics
    /// When they cannot be written.
    pub fn write(&self, files: &TlsFiles) {
        keyfile::replace(&files.cert, self.cert.as_bytes()).expect("the certificate's file");
        keyfile::replace(&files.key, self.key.as_bytes()).expect("the key's file");
    }

    /// A client's configuration that trusts this authority and no other.
    ///
    /// # Panics
    /// When it cannot be made.
    #[must_use]
    pub fn client(&self) -> Arc<ClientConfig> {
        let ca = CertificateDer::from_pem_slice(self.ca.as_bytes()).expect("PEM");
        let mut roots = RootCertStore::empty();
        roots.add(ca).expect("an authority");
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Arc::new(config)
    }
}

impl Default for TestCert {
    fn default() -> Self {
        TestCert::new()
    }
}
