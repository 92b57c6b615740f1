//! Whom a request reaches: addresses, names, secrets, TLS.

use super::*;

#[tokio::test]
async fn addresses_inside_are_not_connected_to() {
    let server = Server::start(Act::Reply(CREATED.into())).await;
    let port = server.address.port();
    for host in ["[::ffff:127.0.0.1]", "0.0.0.0", "169.254.169.254", "10.0.0.1", "[64:ff9b::7f00:1]", "[::]"]
    {
        let tool = keyed(Setup { url: format!("http://{host}:{port}/"), ..Setup::default() });
        let finding = send(&destination(), &tool).await;
        assert_eq!((finding.not_sent, finding.marker), (true, Marker::NotConnected), "{host}");
        assert_eq!(finding.error.as_deref(), Some("the host is at an address that the tool may not reach"));
    }
    for inside in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "169.254.169.254", "100.64.0.1", "192.168.0.1"] {
        let (destination, _) = resolving(vec![SocketAddr::new(inside.parse().unwrap(), port)]);
        let tool = keyed(Setup { url: format!("http://supplier.example:{port}/"), ..Setup::default() });
        let finding = send(&destination, &tool).await;
        assert_eq!(
            finding.error.as_deref(),
            Some("the host is at an address that the tool may not reach"),
            "{inside}"
        );
    }
    let (destination, _) = resolving(vec![SocketAddr::from(([0, 0, 0, 0], port))]);
    let url = format!("http://supplier.example:{port}/");
    let tool = keyed(Setup { url, allow_private: true, ..Setup::default() });
    assert!(send(&destination, &tool).await.not_sent, "no permission reaches every address");
    for host in ["user@127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1"] {
        let tool = keyed(Setup { url: format!("http://{host}:{port}/"), ..Setup::default() });
        assert!(made(&super::destination(), &tool, "{}").is_err(), "{host}");
    }
    let tool = keyed(Setup { url: format!("http://localhost:{port}/"), ..Setup::default() });
    assert!(send(&super::destination(), &tool).await.not_sent, "a name is no literal address");
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_name_is_resolved_once_and_its_checked_address_is_used() {
    let (checked, rebound) =
        (Server::start(Act::Reply(CREATED.into())).await, Server::start(Act::Reply(CREATED.into())).await);
    let (destination, asked) = resolving(vec![checked.address, rebound.address]);
    let url = format!("http://supplier.example:{}/", checked.address.port());
    let tool = unkeyed(Setup { url, allow_private: true, ..Setup::default() });
    assert_eq!(send(&destination, &tool).await.meaning, Meaning::Succeeded);
    assert_eq!((asked.load(Ordering::SeqCst), checked.connections(), rebound.connections()), (1, 1, 0));
    assert!(checked.text().to_lowercase().contains("\r\nhost: supplier.example:"));
}

#[tokio::test]
async fn a_missing_secret_stops_before_connecting() {
    let server = Server::start(Act::Reply(CREATED.into())).await;
    let headers = vec![("Authorization", "Bearer ${OTHER}")];
    let words = "a secret of the tool is missing or cannot be read";
    // No fault of the arguments: the request can be made, and the send counts like one with a refused credential.
    for scope in [None, Some("supplier-17")] {
        let tool = keyed(Setup { headers: headers.clone(), scope, ..to(&server) });
        let finding = send(&destination(), &tool).await;
        assert_eq!((finding.not_sent, finding.error.as_deref()), (true, Some(words)));
        assert!(finding.credential_refused);
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_credential_that_changes_after_the_attempt_is_not_used() {
    /// Another value each time.
    struct Rotating(AtomicUsize);
    impl Secrets for Rotating {
        fn variable(&self, _: &str) -> Result<Secret, SecretError> {
            Ok(Secret::new(format!("token-{}", self.0.fetch_add(1, Ordering::SeqCst))))
        }

        fn file(&self, _: &str) -> Result<Secret, SecretError> {
            Err(SecretError::Missing)
        }
    }
    let server = Server::start(Act::Reply(CREATED.into())).await;
    let rotating = with(Arc::new(Rotating(0.into())), Arc::new(SystemResolver), None, Limits::default());
    let headers = vec![("Authorization", "Bearer ${TOKEN}")];
    let undeclared = keyed(Setup { headers: headers.clone(), ..to(&server) });
    let finding = send(&rotating, &undeclared).await;
    assert!(finding.stopped && finding.not_sent, "{finding:?}");
    assert_eq!(server.connections(), 0);
    // A declared scope says that the account stays the same.
    let declared = keyed(Setup { headers, scope: Some("supplier-17"), ..to(&server) });
    assert_eq!(send(&rotating, &declared).await.meaning, Meaning::Succeeded);
}

#[tokio::test]
async fn what_is_recorded_is_fixed_when_the_request_is_made() {
    let server = Server::start(Act::Reply(CREATED.into())).await;
    let headers = vec![("Authorization", "Bearer ${TOKEN}")];
    let (one, other) = (destination(), destination());
    let tool = keyed(Setup { headers, ..to(&server) });
    let first = made(&one, &tool, "{}").unwrap();
    let again = made(&other, &tool, "{}").unwrap();
    assert_eq!((&first.digest, &first.scope, &first.bucket), (&again.digest, &again.scope, &None));
    assert!(first.scope.unwrap().starts_with("hmac:"));
    let foreign = Made { request: Box::new(()), ..again };
    let (late, _told) = oneshot::channel();
    let finding = one.send(foreign, Arc::new(tool), true, Asked::new(Ok(())), late).await;
    assert!(finding.not_sent);
    assert_eq!(server.connections(), 0);
}

fn test_certificate() -> rustls::pki_types::CertificateDer<'static> {
    include_bytes!("../../../tests/data/tls/certificate.der").as_slice().into()
}

fn acceptor() -> tokio_rustls::TlsAcceptor {
    let key = include_bytes!("../../../tests/data/tls/key.der").as_slice();
    let key = rustls::pki_types::PrivateKeyDer::Pkcs8(key.into());
    let config =
        rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![test_certificate()], key)
            .unwrap();
    tokio_rustls::TlsAcceptor::from(Arc::new(config))
}

fn trusting(server: &Server) -> HttpDestination {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(test_certificate()).unwrap();
    let names = Arc::new(Names { answers: vec![server.address], asked: Arc::default() });
    with(Arc::new(OneSecret), names, Some(roots), Limits::default())
}

#[tokio::test]
async fn tls_is_checked_before_a_byte_of_the_request() {
    let server = Server::with_tls(Act::KeepAlive(CREATED.into()), Some(acceptor())).await;
    let port = server.address.port();
    let tool = |host: &str| {
        let url = format!("https://{host}:{port}/orders");
        keyed(Setup { url, allow_private: true, ..Setup::default() })
    };
    let finding = send(&trusting(&server), &tool("supplier.test")).await;
    assert_eq!(finding.meaning, Meaning::Succeeded, "{finding:?}");
    assert_eq!(send(&trusting(&server), &tool("127.0.0.1")).await.meaning, Meaning::Succeeded);
    assert_eq!(server.requests(), 2);

    let gate = Asked::new(Err("paused"));
    let (finding, _) = send_through(&trusting(&server), &tool("supplier.test"), gate).await;
    assert!(finding.stopped);
    let wrong_name = send(&trusting(&server), &tool("other.test")).await;
    let roots = rustls::RootCertStore::empty();
    let untrusted = with(Arc::new(OneSecret), Arc::new(SystemResolver), Some(roots), Limits::default());
    let untrusted = send(&untrusted, &tool("127.0.0.1")).await;
    for finding in [wrong_name, untrusted] {
        assert_eq!((finding.not_sent, finding.marker), (true, Marker::NotConnected));
        assert_eq!(finding.error.as_deref(), Some("the TLS handshake failed"));
    }
    assert_eq!(server.requests(), 2);

    let garbage = Server::start(Act::Unasked(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec())).await;
    let url = format!("https://127.0.0.1:{}/", garbage.address.port());
    let finding = send(&trusting(&garbage), &keyed(Setup { url, ..Setup::default() })).await;
    assert!(finding.not_sent, "{finding:?}");
    assert_eq!(garbage.requests(), 0);
}

#[tokio::test]
async fn a_handshake_that_hangs_is_not_sent() {
    let server = Server::start(Act::Reply(Vec::new())).await;
    let url = format!("https://127.0.0.1:{}/", server.address.port());
    let limits = Limits { connect: Duration::from_millis(50), ..Limits::default() };
    let tool = keyed(Setup { url, ..Setup::default() });
    let finding = send(&limited(limits), &tool).await;
    assert!(finding.not_sent, "{finding:?}");
    assert_eq!(finding.error.as_deref(), Some("no connection within the connect timeout"));
}

/// The runtime has not been told of what waits in the socket: only the system knows of it.
#[tokio::test]
async fn an_answer_nobody_asked_for_is_not_taken_for_the_next_one() {
    use std::io::{Read as _, Write as _};
    let created = |id: &str| {
        format!(
            "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{{\"id\":\"{id}\"}}",
            id.len() + 9
        )
    };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/orders", listener.local_addr().unwrap());
    let (go, told) = std::sync::mpsc::channel::<()>();
    let (done, extra) = std::sync::mpsc::channel::<()>();
    let server = std::thread::spawn(move || {
        let (mut first, _) = listener.accept().unwrap();
        assert!(first.read(&mut [0; 4096]).unwrap() > 0);
        first.write_all(created("one").as_bytes()).unwrap();
        told.recv().unwrap();
        first.write_all(created("nobody-asked").as_bytes()).unwrap();
        done.send(()).unwrap();
        let (mut second, _) = listener.accept().unwrap();
        assert!(second.read(&mut [0; 4096]).unwrap() > 0);
        second.write_all(created("two").as_bytes()).unwrap();
        // The first connection was given up without another byte.
        first.read(&mut [0; 4096]).unwrap_or(0)
    });
    let tool = keyed(Setup { url, receipt_reference: Some("/id"), ..Setup::default() });
    let destination = destination();
    assert_eq!(send(&destination, &tool).await.reference.as_deref(), Some("one"));
    go.send(()).unwrap();
    extra.recv().unwrap();
    let next = send(&destination, &tool).await;
    assert_eq!(next.reference.as_deref(), Some("two"), "{next:?}");
    assert_eq!(server.join().unwrap(), 0);
}
