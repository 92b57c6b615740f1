//! One request, its gate, and whatever comes back.

use super::*;

#[tokio::test]
async fn one_request_of_the_expected_shape_goes_out() {
    let server = Server::start(Act::Reply(CREATED.into())).await;
    let headers = vec![("Authorization", "Bearer ${TOKEN}")];
    let tool = unkeyed(Setup { headers, receipt_reference: Some("/id"), ..to(&server) });
    let finding = send(&destination(), &tool).await;
    assert_eq!(finding.meaning, Meaning::Succeeded);
    assert_eq!((finding.status, finding.reference.as_deref()), (Some(201), Some("po_1")));
    let result = finding.result.clone().unwrap();
    assert_eq!(result.body, Some(Body::Json(r#"{"id":"po_1"}"#.to_owned())));
    assert_eq!((result.size, result.truncated), (13, false));
    assert!(!format!("{finding:?}{tool:?}").contains("canary"));

    let text = server.text();
    assert!(text.starts_with("POST /orders HTTP/1.1\r\n"), "{text}");
    assert!(text.ends_with("\r\n\r\n{\"sku\":\"flour\"}"), "{text}");
    let lower = text.to_lowercase();
    for line in [
        &format!("\r\nhost: {}\r\n", server.address),
        "\r\naccept-encoding: identity\r\n",
        "\r\ncontent-length: 15\r\n",
        "\r\ncontent-type: application/json\r\n",
        "\r\nauthorization: bearer canary-4711\r\n",
        "\r\nconnection: close\r\n",
    ] {
        assert_eq!(lower.matches(line).count(), 1, "{line} in {text}");
    }
    assert!(!lower.contains("transfer-encoding") && !lower.contains("expect"), "{text}");
}

#[tokio::test]
async fn a_shut_gate_lets_no_byte_through() {
    let server = Server::start(Act::Reply(CREATED.into())).await;
    for tool in [keyed(to(&server)), unkeyed(to(&server))] {
        let gate = Asked::new(Err("too late"));
        let (finding, told) = send_through(&destination(), &tool, gate.clone()).await;
        assert_eq!(finding, Finding::stopped(Marker::Connected, "too late"));
        assert_eq!(gate.asked.load(Ordering::SeqCst), 1);
        assert!(!told);
    }
    assert_eq!(server.connections(), 2, "the connection comes before the question");
    assert_eq!(server.text(), "");
}

#[tokio::test]
async fn time_that_passes_while_connecting_shuts_the_gate() {
    struct SlowNames(Arc<ManualClock>);
    impl Resolve for SlowNames {
        fn resolve<'a>(
            &'a self,
            name: &'a str,
            port: u16,
        ) -> std::pin::Pin<Box<dyn Future<Output = std::io::Result<Vec<SocketAddr>>> + Send + 'a>> {
            self.0.advance(Duration::from_secs(16));
            assert_eq!(name, "slow.example");
            Box::pin(async move { Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))]) })
        }
    }
    struct Before(Arc<ManualClock>, Duration);
    impl Gate for Before {
        fn may_write(&self) -> Result<(), &'static str> {
            if self.0.monotonic() < self.1 { Ok(()) } else { Err("the send window is over") }
        }
    }
    let server = Server::start(Act::Reply(CREATED.into())).await;
    let clock = clock();
    let names = Arc::new(SlowNames(Arc::clone(&clock)));
    let destination = with(Arc::new(OneSecret), names, None, Limits::default());
    let url = format!("http://slow.example:{}/orders", server.address.port());
    let tool = unkeyed(Setup { url, allow_private: true, ..Setup::default() });
    let gate = Arc::new(Before(Arc::clone(&clock), Duration::from_secs(15)));
    let (finding, _) = send_through(&destination, &tool, gate).await;
    assert!(finding.stopped && finding.not_sent, "{finding:?}");
    assert_eq!((server.connections(), server.text().as_str()), (1, ""));
}

#[tokio::test]
async fn a_lost_reply_is_unknown_and_sent_once() {
    for act in [Act::Close, Act::Reset] {
        let server = Server::start(act).await;
        for tool in [keyed(to(&server)), unkeyed(to(&server))] {
            let before = server.requests();
            let finding = send(&destination(), &tool).await;
            assert_eq!(finding.meaning, Meaning::Unknown);
            assert_eq!(
                (finding.marker, finding.not_sent, finding.status),
                (Marker::BytesWritten, false, None)
            );
            assert_eq!(server.requests(), before + 1);
        }
        assert_eq!(server.connections(), 2);
    }
}

#[tokio::test]
async fn nobody_listening_is_not_sent() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let tool = keyed(Setup { url: format!("http://127.0.0.1:{port}/"), ..Setup::default() });
    let gate = Asked::new(Ok(()));
    let (finding, _) = send_through(&destination(), &tool, gate.clone()).await;
    assert_eq!((finding.not_sent, finding.stopped, finding.marker), (true, false, Marker::NotConnected));
    assert_eq!(gate.asked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_late_answer_within_linger_is_the_finding() {
    let told = Arc::new(tokio::sync::Notify::new());
    let server = Server::start(Act::After(Vec::new(), CREATED.into(), Arc::clone(&told))).await;
    let (timeout, linger) = (Duration::from_millis(50), Duration::from_secs(30));
    let tool = keyed(Setup { timeout, linger, ..to(&server) });
    let destination = destination();
    let made = made(&destination, &tool, "{}").unwrap();
    let (late, timeout) = oneshot::channel();
    let sending = destination.send(made, Arc::new(tool), true, Asked::new(Ok(())), late);
    let answering = async {
        timeout.await.unwrap();
        told.notify_one();
    };
    let (finding, ()) = tokio::join!(sending, answering);
    assert_eq!((finding.meaning, finding.lingers_until), (Meaning::Succeeded, None));
    assert_eq!(server.requests(), 1);
}

#[tokio::test]
async fn silence_ends_as_unknown() {
    let never = Arc::new(tokio::sync::Notify::new());
    let server = Server::start(Act::After(Vec::new(), Vec::new(), never)).await;
    for (linger, tells) in [(Duration::ZERO, false), (Duration::from_millis(50), true)] {
        let tool = keyed(Setup { timeout: Duration::from_millis(50), linger, ..to(&server) });
        let (finding, told) = send_through(&destination(), &tool, Asked::new(Ok(()))).await;
        assert_eq!((finding.meaning, finding.marker), (Meaning::Unknown, Marker::BytesWritten));
        assert_eq!((told, finding.lingers_until), (tells, None));
    }
    assert_eq!(server.requests(), 2);
}

#[tokio::test]
async fn half_a_body_leaves_the_status_as_evidence() {
    let cut = CREATED.replace("Content-Length: 13", "Content-Length: 99");
    let chunked = "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nd\r\n{\"id\":\"po_1\"}\r\n";
    let open = "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\n\r\n{\"id\":\"po_";
    for text in [cut.as_str(), chunked, open] {
        let server = Server::start(Act::Reply(text.into())).await;
        let finding = send(&destination(), &keyed(to(&server))).await;
        assert_eq!((finding.meaning, finding.status), (Meaning::Unknown, Some(201)), "{text}");
        assert_eq!(
            finding
                .result
                .as_ref()
                .and_then(|result| result.body.clone().filter(|body| matches!(body, Body::Json(_)))),
            None
        );
        assert_eq!(server.requests(), 1);
    }
}

#[tokio::test]
async fn redirects_are_answers_and_not_followed() {
    let elsewhere = Server::start(Act::Reply(CREATED.into())).await;
    for (status, expected) in [
        (301, Meaning::Unknown),
        (302, Meaning::Unknown),
        (303, Meaning::Unknown),
        (307, Meaning::Rejected),
        (308, Meaning::Rejected),
    ] {
        let head = format!("{status} Moved\r\nLocation: {}\r\nSet-Cookie: canary=1", elsewhere.url("/"));
        let server = Server::start(Act::Reply(reply(&head, b""))).await;
        let finding = send(&destination(), &keyed(to(&server))).await;
        assert_eq!(finding.meaning, expected, "{status}");
        assert!(!format!("{finding:?}").contains("canary"));
        assert_eq!(server.requests(), 1);
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[tokio::test]
async fn strange_answers_do_not_become_receipts() {
    let huge = format!("HTTP/1.1 200 OK\r\nX: {}\r\nContent-Length: 0\r\n\r\n", "x".repeat(80 * 1024));
    let all: Vec<u8> = (0..=255).collect();
    let two_lengths = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n".to_vec();
    for bytes in
        [huge.into_bytes(), all, b"SSH-2.0-x\r\n".to_vec(), two_lengths, b"HTTP/1.1 2x0 OK\r\n\r\n".to_vec()]
    {
        let server = Server::start(Act::Reply(bytes.clone())).await;
        let finding = send(&destination(), &unkeyed(to(&server))).await;
        assert_eq!((finding.meaning, finding.not_sent), (Meaning::Unknown, false), "{:?}", &bytes[..20]);
        assert_eq!(server.requests(), 1);
    }
    let interim = format!("HTTP/1.1 103 Early Hints\r\n\r\n{CREATED}");
    let server = Server::start(Act::Reply(interim.into_bytes())).await;
    assert_eq!(send(&destination(), &unkeyed(to(&server))).await.status, Some(201));
    let gzip = reply("200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip", b"\x1f\x8b\x08");
    let server = Server::start(Act::Reply(gzip)).await;
    let finding = send(&destination(), &unkeyed(to(&server))).await;
    assert_eq!(finding.meaning, Meaning::Unknown);
    assert_eq!(finding.result.unwrap().body, Some(Body::Base64("H4sI".to_owned())));
}

#[tokio::test]
async fn an_answer_that_nobody_asked_for_proves_nothing() {
    let server = Server::start(Act::Unasked(CREATED.into())).await;
    let (finding, _) = send_through(&destination(), &unkeyed(to(&server)), Asked::new(Err("paused"))).await;
    assert!(finding.not_sent, "{finding:?}");
    assert_eq!(server.text(), "");
}

#[tokio::test]
async fn large_answers_are_receipts_by_digest() {
    let size = 64 << 20;
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{{\"id\":\"po_1\"}}",
        size + 13
    );
    let server = Server::start(Act::Bulk(head.into_bytes(), size)).await;
    let tool = keyed(Setup { receipt_reference: Some("/id"), ..to(&server) });
    let roomy = limited(Limits { body: (size as u64) + 13, ..Limits::default() });
    let finding = send(&roomy, &tool).await;
    assert_eq!((finding.meaning, finding.reference.as_deref()), (Meaning::Succeeded, Some("po_1")));
    let result = finding.result.unwrap();
    assert_eq!((result.size, result.truncated, result.body), ((size as u64) + 13, true, None));
    // One byte less than came, and what JSON says can no longer be known.
    let finding = send(&destination(), &tool).await;
    assert_eq!((finding.meaning, finding.status), (Meaning::Unknown, Some(200)));
    assert_eq!(server.requests(), 2);

    let endless = Server::start(Act::Bulk(b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), usize::MAX)).await;
    let small = limited(Limits { body: 3 << 20, ..Limits::default() });
    let finding = send(&small, &unkeyed(to(&endless))).await;
    let result = finding.result.unwrap();
    assert_eq!((finding.meaning, result.size, result.truncated), (Meaning::Succeeded, 3 << 20, true));
}

#[tokio::test]
async fn a_dripping_answer_is_given_up() {
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n".to_vec();
    let server = Server::start(Act::Drip(head)).await;
    let impatient =
        Limits { body_grace: Duration::from_millis(50), body_rate: 1_000_000, ..Limits::default() };
    let finding = send(&limited(impatient), &keyed(to(&server))).await;
    assert_eq!((finding.meaning, finding.status, finding.result), (Meaning::Unknown, Some(200), None));
    // Without a rate, `timeout` and `linger` end it.
    let tool =
        keyed(Setup { timeout: Duration::from_millis(50), linger: Duration::from_millis(50), ..to(&server) });
    let (finding, told) = send_through(&destination(), &tool, Asked::new(Ok(()))).await;
    assert_eq!((finding.meaning, finding.status, told), (Meaning::Unknown, Some(200), true));
}

#[tokio::test]
async fn connections_are_reused_only_where_a_repeat_is_harmless() {
    let server = Server::start(Act::KeepAlive(CREATED.into())).await;
    let reusing = destination();
    for _ in 0..3 {
        assert_eq!(send(&reusing, &keyed(to(&server))).await.meaning, Meaning::Succeeded);
    }
    assert_eq!((server.connections(), server.requests()), (1, 3));
    for _ in 0..2 {
        assert_eq!(send(&reusing, &unkeyed(to(&server))).await.meaning, Meaning::Succeeded);
    }
    assert_eq!((server.connections(), server.requests()), (3, 5));
    let gate = Asked::new(Err("paused"));
    let (finding, _) = send_through(&reusing, &keyed(to(&server)), gate).await;
    assert!(finding.stopped, "a reused connection asks the gate anew: {finding:?}");
    assert_eq!(server.requests(), 5);
}

#[tokio::test]
async fn a_reused_connection_that_breaks_is_unknown() {
    let server = Server::start(Act::Once(CREATED.into())).await;
    let reusing = destination();
    assert_eq!(send(&reusing, &keyed(to(&server))).await.meaning, Meaning::Succeeded);
    let finding = send(&reusing, &keyed(to(&server))).await;
    assert_eq!((finding.meaning, finding.marker), (Meaning::Unknown, Marker::BytesWritten));
    assert_eq!((server.connections(), server.requests()), (1, 2), "it is not sent again by itself");
}

#[tokio::test]
async fn arguments_and_keys_stay_inside_their_request() {
    let server = Server::start(Act::Reply(CREATED.into())).await;
    let hostile = "x HTTP/1.1\r\nX-Evil: 1\r\n\r\nGET /admin?a=1#f/../..";
    let tool = unkeyed(Setup { url: server.url("/o/{/id}?q={/id}"), ..Setup::default() });
    let arguments = serde_json::json!({"id": hostile}).to_string();
    let destination = destination();
    let made = made(&destination, &tool, &arguments).unwrap();
    let (late, _told) = oneshot::channel();
    let sent = destination.send(made, Arc::new(tool), true, Asked::new(Ok(())), late).await;
    assert_eq!(sent.meaning, Meaning::Succeeded);
    let text = server.text();
    let encoded = "x%20HTTP%2F1.1%0D%0AX-Evil%3A%201%0D%0A%0D%0AGET%20%2Fadmin%3Fa%3D1%23f%2F..%2F..";
    assert!(text.starts_with(&format!("POST /o/{encoded}?q={encoded} HTTP/1.1\r\n")), "{text}");
    assert_eq!(server.requests(), 1);
    assert!(!text.contains("\nX-Evil"), "{text}");
}
