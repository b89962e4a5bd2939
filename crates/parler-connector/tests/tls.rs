//! Which certificates of a hub are believed, and what is said of the others.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops there")]

use parler_connector::tls::{Authorities, AuthorityError, Distrust};
use parler_connector::{Client, ClientError, ClientOptions, Endpoint};
use parler_testkit::{TestCert, TestHub, keys};

/// The authorities of a PEM text, as a user names them.
fn authorities(pem: &str) -> Result<Authorities, AuthorityError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ca.pem");
    std::fs::write(&path, pem).unwrap();
    Authorities::read(&path)
}

async fn connect(url: &str, ca: Option<&str>) -> Result<Client, ClientError> {
    let mut endpoint = Endpoint::new(url);
    endpoint.authorities = ca.map(|pem| authorities(pem).unwrap());
    Client::connect(ClientOptions::new(endpoint, keys(1), "planner")).await
}

/// Why a hub with that certificate is not believed, and that the words are of use.
async fn distrust(cert: &TestCert, ca: Option<&str>) -> Distrust {
    let hub = TestHub::start_tls(cert).await;
    let error = connect(&hub.url(), ca).await.err().unwrap();
    let ClientError::BadCertificate { url, distrust, .. } = &error else {
        panic!("{error:?}");
    };
    assert!(url.starts_with(&hub.url()));
    assert!(error.to_string().contains(distrust.words()), "{error}");
    assert!(!error.is_outage() && !error.retryable(), "in vain: {error}");
    assert_eq!(error.hint().as_deref(), Some(distrust.hint()));
    *distrust
}

#[tokio::test]
async fn a_hub_of_ones_own_authority_is_believed_once_that_is_named() {
    let cert = TestCert::new();
    let hub = TestHub::start_tls(&cert).await;
    let client = connect(&hub.url(), Some(&cert.ca)).await.unwrap();
    client.ping().await.unwrap();
    let by_name = hub.url().replace("127.0.0.1", "localhost");
    connect(&by_name, Some(&cert.ca)).await.unwrap();
    let stranger = TestCert::new();
    for ca in [None, Some(stranger.ca.as_str())] {
        let error = connect(&hub.url(), ca).await.err().unwrap();
        let unknown = matches!(&error, ClientError::BadCertificate { distrust, .. }
            if *distrust == Distrust::UnknownAuthority);
        assert!(unknown, "{error:?}");
        assert!(error.hint().unwrap().contains("--ca FILE"));
    }
}

#[tokio::test]
async fn a_self_signed_certificate_is_believed_only_when_it_is_named() {
    let cert = TestCert::self_signed();
    assert_eq!(distrust(&cert, None).await, Distrust::UnknownAuthority);
    let hub = TestHub::start_tls(&cert).await;
    connect(&hub.url(), Some(&cert.ca)).await.unwrap();
}

#[tokio::test]
async fn an_expired_certificate_is_refused() {
    let cert = TestCert::expired();
    assert_eq!(distrust(&cert, Some(&cert.ca)).await, Distrust::Expired);
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let cert = TestCert::for_names(&["hub.example"]);
    assert_eq!(distrust(&cert, Some(&cert.ca)).await, Distrust::WrongName);
}

#[tokio::test]
async fn a_hub_without_tls_is_told_from_one_with_a_bad_certificate() {
    let hub = TestHub::start().await;
    let encrypted = hub.url().replace("parler://", "wss://");
    let error = connect(&encrypted, None).await.err().unwrap();
    assert!(
        matches!(&error, ClientError::NotAHub { reason, .. } if reason.contains("TLS")),
        "{error:?}"
    );
    let hub = TestHub::start_tls(&TestCert::new()).await;
    let plain = hub.url().replace("wss://", "ws://");
    assert!(connect(&plain, None).await.is_err());
}

#[test]
fn a_file_that_names_no_authority_is_refused() {
    let cert = TestCert::new();
    assert!(
        authorities(&format!("{}{}", cert.ca, TestCert::new().ca)).is_ok(),
        "several"
    );
    for bad in [
        "",
        "not PEM",
        &cert.key,
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ] {
        let error = authorities(bad).unwrap_err();
        assert!(
            matches!(error, AuthorityError::Damaged { .. }),
            "{bad}: {error}"
        );
        assert!(error.to_string().contains("ca.pem"), "{error}");
    }
    let missing = Authorities::read(std::path::Path::new("/no/such/ca.pem")).unwrap_err();
    assert!(missing.to_string().contains("/no/such/ca.pem"), "{missing}");
}
