//! Who this server is on the hub, and the connection by which it is there.
//!
//! The hub is looked for at the first use, never at the start: a host that starts its servers must
//! not wait for a hub. A hub that went away is looked for again, once a call. A new name or role
//! is a new login, so it replaces the client; whoever waits on the old one is told.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use parler_connector::{Client, ClientError, ClientOptions, Endpoint};
use tokio::sync::{Mutex as Turnstile, watch};
use tokio::time::Instant;

use crate::error::ToolError;

/// How long looking for a hub, which may mean starting one, may take.
const LOCATE_TIMEOUT: Duration = Duration::from_secs(12);

/// A call that failed within this time found nobody at the address, and is worth another look; one
/// that took longer would take too long twice.
const QUICKLY: Duration = Duration::from_secs(5);

/// Finds the hub, and starts it where it is to be started on demand. The error is a sentence for a
/// person.
pub type Locate =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<Endpoint, String>> + Send>> + Send + Sync>;

/// Keeps a name and a role that the model chose, so that the next start has them too.
pub type Remember = Arc<dyn Fn(&str, Option<&str>) -> Result<(), String> + Send + Sync>;

/// The agent and its connection.
pub(crate) struct Agent {
    options: Mutex<ClientOptions>,
    client: Mutex<Option<Client>>,
    /// Counts clients, so that others notice a new one.
    generation: watch::Sender<u64>,
    locate: Option<Locate>,
    /// One search at a time.
    searching: Turnstile<()>,
    remember: Option<Remember>,
}

impl Agent {
    pub(crate) fn new(
        options: ClientOptions,
        locate: Option<Locate>,
        remember: Option<Remember>,
    ) -> Self {
        Agent {
            options: Mutex::new(options),
            client: Mutex::new(None),
            generation: watch::Sender::new(0),
            locate,
            searching: Turnstile::new(()),
            remember,
        }
    }

    /// This agent's id.
    pub(crate) fn id(&self) -> String {
        self.options().keys.id().as_str().to_owned()
    }

    /// The display name in use.
    pub(crate) fn name(&self) -> String {
        self.options().name
    }

    /// The role in use.
    pub(crate) fn role(&self) -> Option<String> {
        self.options().role
    }

    /// The hub's address, as it was named or found.
    pub(crate) fn hub_url(&self) -> String {
        self.options().endpoint.url
    }

    /// Changes whenever the client does.
    pub(crate) fn generations(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    /// The client. The first time this may look for the hub; it never logs in.
    ///
    /// # Errors
    /// The hub cannot be found.
    pub(crate) async fn client(&self) -> Result<Client, ToolError> {
        if let Some(client) = self.present() {
            return Ok(client);
        }
        let _one = self.searching.lock().await;
        if let Some(client) = self.present() {
            return Ok(client);
        }
        if let Some(endpoint) = self.search().await? {
            self.lock_options().endpoint = endpoint;
        }
        Ok(self.replace())
    }

    /// Runs a call; when nothing answers at the hub's address, looks for the hub and runs it once
    /// more.
    ///
    /// # Errors
    /// What the call answers, or that there is no hub.
    pub(crate) async fn call<T, F, Fut>(&self, run: F) -> Result<T, ToolError>
    where
        F: Fn(Client) -> Fut,
        Fut: Future<Output = Result<T, ClientError>>,
    {
        let client = self.client().await?;
        let begun = Instant::now();
        match run(client).await {
            Err(error @ ClientError::Unreachable { .. })
                if self.locate.is_some() && begun.elapsed() < QUICKLY =>
            {
                self.look_again(error).await?;
                Ok(run(self.client().await?).await?)
            }
            done => Ok(done?),
        }
    }

    /// Takes another name or role: remembers them and logs in anew at the next use.
    ///
    /// # Errors
    /// They cannot be kept. Nothing has changed then.
    pub(crate) fn rename(&self, name: Option<&str>, role: Option<&str>) -> Result<bool, ToolError> {
        let mut options = self.options();
        let before = (options.name.clone(), options.role.clone());
        if let Some(name) = name {
            options.name = name.to_owned();
        }
        if let Some(role) = role {
            options.role = Some(role.to_owned());
        }
        if (&options.name, &options.role) == (&before.0, &before.1) {
            return Ok(false);
        }
        if let Some(remember) = &self.remember {
            remember(&options.name, options.role.as_deref()).map_err(ToolError::Refused)?;
        }
        *self.lock_options() = options;
        if self.present().is_some() {
            self.replace();
        }
        Ok(true)
    }

    /// Ends the connection in good order.
    pub(crate) async fn close(&self) {
        let client = self
            .client
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(client) = client {
            client.close().await;
        }
    }

    async fn look_again(&self, why: ClientError) -> Result<(), ToolError> {
        let _one = self.searching.lock().await;
        let Some(endpoint) = self.search().await? else {
            return Err(why.into());
        };
        let moved = {
            let mut options = self.lock_options();
            let moved = options.endpoint.url != endpoint.url
                || options.endpoint.hub_key != endpoint.hub_key;
            options.endpoint = endpoint;
            moved
        };
        if moved {
            self.replace();
        }
        Ok(())
    }

    async fn search(&self) -> Result<Option<Endpoint>, ToolError> {
        let Some(locate) = &self.locate else {
            return Ok(None);
        };
        match tokio::time::timeout(LOCATE_TIMEOUT, locate()).await {
            Ok(Ok(endpoint)) => Ok(Some(endpoint)),
            Ok(Err(why)) => Err(ToolError::NoHub(why)),
            Err(_) => Err(ToolError::NoHub(format!(
                "looking for it took longer than {} s; ask your user to run: parler hub status",
                LOCATE_TIMEOUT.as_secs()
            ))),
        }
    }

    fn present(&self) -> Option<Client> {
        self.client
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn replace(&self) -> Client {
        let client = Client::new(self.options());
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = Some(client.clone());
        self.generation.send_modify(|n| *n += 1);
        client
    }

    fn options(&self) -> ClientOptions {
        self.lock_options().clone()
    }

    fn lock_options(&self) -> std::sync::MutexGuard<'_, ClientOptions> {
        self.options.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn options(url: &str) -> ClientOptions {
        ClientOptions::new(Endpoint::new(url), parler_testkit::keys(3), "webdev")
    }

    #[tokio::test]
    async fn the_hub_is_looked_for_at_the_first_use_and_once() {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let locate: Locate = Arc::new(move || {
            count.fetch_add(1, Ordering::SeqCst);
            Box::pin(async { Ok(Endpoint::new("ws://127.0.0.1:9")) })
        });
        let agent = Agent::new(options("unknown"), Some(locate), None);
        assert_eq!(asked.load(Ordering::SeqCst), 0);
        let (a, b) = tokio::join!(agent.client(), agent.client());
        assert_eq!(a.unwrap().hub_url(), "ws://127.0.0.1:9");
        assert_eq!(b.unwrap().hub_url(), "ws://127.0.0.1:9");
        assert_eq!(asked.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn a_hub_that_went_away_is_looked_for_again_within_the_call() {
        let hub = parler_testkit::TestHub::start().await;
        let urls = Mutex::new(vec![hub.url(), "ws://127.0.0.1:1".to_owned()]);
        let locate: Locate = Arc::new(move || {
            let url = urls.lock().unwrap().pop();
            Box::pin(async move { url.map(Endpoint::new).ok_or("no more".to_owned()) })
        });
        let agent = Agent::new(options("unknown"), Some(locate), None);
        let rooms = agent
            .call(|client| async move { client.rooms().await })
            .await;
        assert_eq!(rooms.unwrap(), []);
        assert_eq!(agent.hub_url(), hub.url());
    }

    #[tokio::test]
    async fn a_hub_that_cannot_be_found_is_an_error_in_words() {
        let locate: Locate = Arc::new(|| Box::pin(async { Err("the port is taken".to_owned()) }));
        let agent = Agent::new(options("unknown"), Some(locate), None);
        let error = agent.client().await.err().unwrap().to_string();
        assert_eq!(error, "no hub: the port is taken");
    }

    #[tokio::test]
    async fn a_new_name_is_kept_and_makes_a_new_client() {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let keep = Arc::clone(&kept);
        let remember: Remember = Arc::new(move |name, role| {
            keep.lock()
                .unwrap()
                .push((name.to_owned(), role.map(str::to_owned)));
            Ok(())
        });
        let agent = Agent::new(options("ws://h"), None, Some(remember));
        let generations = agent.generations();
        agent.client().await.unwrap();
        assert!(!agent.rename(Some("webdev"), None).unwrap());
        assert!(agent.rename(None, Some("frontend")).unwrap());
        assert_eq!(agent.client().await.unwrap().role(), Some("frontend"));
        assert_eq!(*generations.borrow(), 2);
        assert_eq!(
            *kept.lock().unwrap(),
            [("webdev".to_owned(), Some("frontend".to_owned()))]
        );
    }

    #[tokio::test]
    async fn a_name_that_cannot_be_kept_changes_nothing() {
        let remember: Remember = Arc::new(|_, _| Err("the disk is full".to_owned()));
        let agent = Agent::new(options("ws://h"), None, Some(remember));
        assert!(agent.rename(Some("other"), None).is_err());
        assert_eq!(agent.name(), "webdev");
    }
}
