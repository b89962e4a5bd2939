//! TLS by the hub itself: a certificate and a key from files, read again when the hub is told to.
//!
//! Certificates are renewed every few weeks, and a restart would cut every connection. So the
//! files can be read again while the hub runs: sockets accepted from then on get the new
//! certificate. Files that cannot be used leave the present one in place.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use parler_identity::{KeyFileError, keyfile};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::config::ConfigError;

/// What both ends speak inside.
const ALPN: &[u8] = b"http/1.1";

/// Where certificate and key are, both in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by those that lead to a root.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// The present certificate.
pub struct Tls {
    files: TlsFiles,
    current: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// When one of them cannot be used, or they do not belong together; the message names it.
    pub fn load(files: TlsFiles) -> Result<Self, ConfigError> {
        let current = RwLock::new(server_config(&files)?);
        Ok(Tls { files, current })
    }

    /// Reads the files again. On an error the present certificate stays.
    ///
    /// # Errors
    /// As [`Tls::load`].
    pub fn reload(&self) -> Result<(), ConfigError> {
        let fresh = server_config(&self.files)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }

    /// What greets the next socket.
    #[must_use]
    pub fn acceptor(&self) -> TlsAcceptor {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        TlsAcceptor::from(Arc::clone(&current))
    }
}

fn server_config(files: &TlsFiles) -> Result<Arc<ServerConfig>, ConfigError> {
    let certs = certificates(&files.cert)?;
    let key = private_key(&files.key)?;
    // The provider is named, so that nothing depends on a default of the whole process.
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| broken(&files.cert, e.to_string()))?;
    let mut config = builder
        .with_no_client_auth()
        .with_single_cert(certs, key)
        .map_err(|e| {
            let key = files.key.display();
            broken(&files.cert, format!("it does not go with {key}: {e}"))
        })?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Arc::new(config))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let bytes = found(path, keyfile::read(path))?;
    let certs: Vec<_> = CertificateDer::pem_slice_iter(&bytes)
        .collect::<Result<_, _>>()
        .map_err(|e| broken(path, format!("it is not PEM: {e}")))?;
    if certs.is_empty() {
        return Err(broken(path, "there is no certificate in it (PEM expected)"));
    }
    Ok(certs)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, ConfigError> {
    let read = match keyfile::read_secret(path) {
        // Common where a group of services shares certificates: said, not refused.
        Err(KeyFileError::LoosePermissions { mode, .. }) => {
            let mode = format!("{mode:o}");
            tracing::warn!(path = %path.display(), mode, "others can read the TLS key");
            keyfile::read(path)
        }
        read => read,
    };
    let bytes = found(path, read)?;
    PrivateKeyDer::from_pem_slice(&bytes)
        .map_err(|e| broken(path, format!("there is no private key in it (PEM): {e}")))
}

fn found(path: &Path, read: Result<Option<Vec<u8>>, KeyFileError>) -> Result<Vec<u8>, ConfigError> {
    read.map_err(|e| broken(path, e.to_string()))?
        .ok_or_else(|| broken(path, "there is no such file"))
}

fn broken(path: &Path, reason: impl Into<String>) -> ConfigError {
    ConfigError::File {
        path: path.to_owned(),
        reason: reason.into(),
    }
}
