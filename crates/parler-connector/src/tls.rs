//! Which certificates a client believes: those of the public web authorities, and of those that the
//! user names in a file.
//!
//! Says in words why a certificate is not believed. It never offers to do without.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{CertificateError, ClientConfig, RootCertStore};

use crate::error::ClientError;

/// The largest file of authorities that is read: a system's whole bundle is a quarter of it.
const MAX_BYTES: u64 = 1024 * 1024;

/// Certificate authorities that a user trusts beside the public ones.
#[derive(Clone, Debug)]
pub struct Authorities {
    config: Arc<ClientConfig>,
}

/// Why a file of authorities cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorityError {
    /// It cannot be read.
    #[error("cannot read the certificate authorities in {}: {cause}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        cause: std::io::Error,
    },
    /// It holds something else.
    #[error(
        "{} holds no certificate authorities: {why}. It must be PEM, with -----BEGIN CERTIFICATE-----",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

impl Authorities {
    /// Reads a PEM file with one or more certificates. Each is trusted to vouch for hubs.
    ///
    /// # Errors
    /// See [`AuthorityError`].
    pub fn read(path: &Path) -> Result<Self, AuthorityError> {
        let damaged = |why: String| AuthorityError::Damaged {
            path: path.to_owned(),
            why,
        };
        let mut pem = Vec::new();
        File::open(path)
            .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut pem))
            .map_err(|cause| AuthorityError::Read {
                path: path.to_owned(),
                cause,
            })?;
        if pem.len() as u64 > MAX_BYTES {
            return Err(damaged(format!("it is larger than {MAX_BYTES} bytes")));
        }
        let mut roots = RootCertStore {
            roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
        };
        let mut found = 0_usize;
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            let certificate = certificate.map_err(|e| damaged(e.to_string()))?;
            roots.add(certificate).map_err(|e| damaged(e.to_string()))?;
            found += 1;
        }
        if found == 0 {
            return Err(damaged("no certificate is in it".to_owned()));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| damaged(e.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Authorities {
            config: Arc::new(config),
        })
    }

    /// What a connection is made with.
    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config)
    }
}

/// Why a hub's certificate is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Distrust {
    /// Nobody who is trusted vouches for it: it is self-signed, or by a private authority.
    UnknownAuthority,
    /// Its time is over.
    Expired,
    /// Its time has not come, or this machine's clock is wrong.
    NotYetValid,
    /// It is for another name.
    WrongName,
    /// Its authority took it back.
    Revoked,
    /// Something else.
    Other,
}

impl Distrust {
    /// In words, after "the certificate of … ".
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Distrust::UnknownAuthority => {
                "is self-signed or by an authority that this machine does not know"
            }
            Distrust::Expired => "has expired",
            Distrust::NotYetValid => "is not valid yet",
            Distrust::WrongName => "is for another name",
            Distrust::Revoked => "was revoked",
            Distrust::Other => "cannot be believed",
        }
    }

    /// What a person could do next.
    #[must_use]
    pub fn hint(self) -> &'static str {
        match self {
            Distrust::UnknownAuthority => {
                "if the hub is yours, name the file of its authority: --ca FILE, or PARLER_CA"
            }
            Distrust::Expired => {
                "its owner has to renew it; a hub reads it again when it gets SIGHUP"
            }
            Distrust::NotYetValid => "check the clock of this machine",
            Distrust::WrongName => "use the name that the certificate is for",
            Distrust::Revoked | Distrust::Other => "ask the hub's owner",
        }
    }
}

/// What a failed TLS handshake means.
pub(crate) fn failed(url: String, error: &rustls::Error, shown: String) -> ClientError {
    let rustls::Error::InvalidCertificate(why) = error else {
        return ClientError::NotAHub {
            url,
            reason: format!("TLS failed: {shown}"),
        };
    };
    let distrust = match why {
        // One that goes by the name of a known authority and has not its key.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            Distrust::UnknownAuthority
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => Distrust::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            Distrust::NotYetValid
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            Distrust::WrongName
        }
        CertificateError::Revoked => Distrust::Revoked,
        _ => Distrust::Other,
    };
    ClientError::BadCertificate {
        url,
        distrust,
        detail: shown,
    }
}
