//! A hub in this process, on a port that the kernel chooses, stopped on drop.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use parler_hub::state::HubState;
use parler_hub::tls::TlsFiles;
use parler_hub::{Config, Hub, Limits, listen};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::TestCert;

/// A running hub. Drop stops it; [`TestHub::stop`] waits for the end.
pub struct TestHub {
    addr: SocketAddr,
    state: Arc<HubState>,
    stop: Option<oneshot::Sender<()>>,
    serving: Option<JoinHandle<()>>,
    folder: Arc<tempfile::TempDir>,
}

impl TestHub {
    /// A hub without rate limits, with a database of its own.
    ///
    /// # Panics
    /// When it cannot start.
    pub async fn start() -> TestHub {
        TestHub::with(|_| {}).await
    }

    /// The same, configured: rates are off and the database is set before `change` sees it.
    ///
    /// # Panics
    /// When it cannot start.
    pub async fn with(change: impl FnOnce(&mut Config)) -> TestHub {
        let folder = Arc::new(tempfile::tempdir().expect("a temporary folder"));
        let mut config = Config {
            db: Some(folder.path().join("hub.sqlite")),
            limits: Limits::unlimited(),
            ..Config::default()
        };
        change(&mut config);
        TestHub::open(config, (Ipv4Addr::LOCALHOST, 0).into(), folder)
    }

    /// A hub that speaks TLS by itself, with this certificate; [`TestHub::url`] begins with
    /// `wss://`.
    ///
    /// # Panics
    /// When it cannot start.
    pub async fn start_tls(cert: &TestCert) -> TestHub {
        let folder = Arc::new(tempfile::tempdir().expect("a temporary folder"));
        let files = TlsFiles {
            cert: folder.path().join("cert.pem"),
            key: folder.path().join("key.pem"),
        };
        cert.write(&files);
        let config = Config {
            db: Some(folder.path().join("hub.sqlite")),
            limits: Limits::unlimited(),
            tls: Some(files),
            ..Config::default()
        };
        TestHub::open(config, (Ipv4Addr::LOCALHOST, 0).into(), folder)
    }

    fn open(config: Config, addr: SocketAddr, folder: Arc<tempfile::TempDir>) -> TestHub {
        let listener = listen::bind(addr).expect("a port on loopback");
        let hub = Hub::open(config, listener).expect("a hub");
        let addr = hub.addr().expect("an address");
        let state = Arc::clone(hub.state());
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(async move {
            let shutdown = async {
                let _ = stopped.await;
            };
            hub.serve(shutdown).await.expect("the hub ends well");
        });
        TestHub {
            addr,
            state,
            stop: Some(stop),
            serving: Some(serving),
            folder,
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Its address as people write it.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = match self.state.tls() {
            Some(_) => "wss",
            None => "parler",
        };
        format!("{scheme}://{}", self.addr)
    }

    /// The hub's inside.
    #[must_use]
    pub fn state(&self) -> &Arc<HubState> {
        &self.state
    }

    /// Its folder, with the database.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Stops it as SIGTERM would and waits for the end.
    pub async fn stop(mut self) {
        self.end().await;
    }

    /// Stops it and starts it again: the same database, the same port.
    ///
    /// # Panics
    /// When it does not come back.
    pub async fn restart(mut self) -> TestHub {
        let config = self.state.config().clone();
        let folder = Arc::clone(&self.folder);
        let addr = self.addr;
        self.end().await;
        TestHub::open(config, addr, folder)
    }

    async fn end(&mut self) {
        self.stop.take();
        if let Some(serving) = self.serving.take() {
            serving.await.expect("the hub ends well");
        }
    }
}
