//! The raw listener: exact bytes in, scripted bytes out.

use std::io::ErrorKind;

use sim::raw::{RawListener, Step};
use sim::wire::{Reply, exchange, read_reply, request_bytes};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

#[tokio::test]
async fn a_connection_without_a_byte_is_recorded_as_that() {
    let listener = RawListener::start().unwrap();
    drop(TcpStream::connect(listener.addr()).await.unwrap());
    let received = listener.wait_until(|received| received.iter().any(|one| one.ended)).await.unwrap();
    assert_eq!((received.len(), received[0].bytes.len(), listener.total_bytes()), (1, 0, 0));
}

#[tokio::test]
async fn the_bytes_are_those_that_were_sent() {
    let listener = RawListener::start().unwrap();
    listener.script_for_all(vec![
        Step::ReadRequest,
        Step::Write(Reply::error(500, "x").to_bytes()),
        Step::Close,
    ]);
    for n in 1..=2 {
        let reply = exchange(listener.addr(), "POST", "/a?b", &[("K", "v")], b"body").await.unwrap();
        assert_eq!(reply.status, 500);
        assert_eq!(listener.request_count(), n);
    }
    assert_eq!(listener.received()[1].bytes, request_bytes("POST", "/a?b", &[("K", "v")], b"body"));
}

#[tokio::test]
async fn two_requests_on_one_connection_are_counted_apart() {
    let listener = RawListener::start().unwrap();
    let answer = Step::Write(Reply::json(200, &serde_json::json!({})).to_bytes());
    listener.script(vec![Step::ReadRequest, answer.clone(), Step::ReadRequest, answer, Step::Finish]);
    let mut stream = TcpStream::connect(listener.addr()).await.unwrap();
    let request = request_bytes("POST", "/", &[], b"{}");
    for (head, rest) in [request.split_at(10), request.split_at(0)] {
        stream.write_all(head).await.unwrap();
        stream.write_all(rest).await.unwrap();
        assert_eq!(read_reply(&mut stream).await.unwrap().status, 200);
    }
    let received =
        listener.wait_until(|received| received.iter().any(|one| one.requests() == 2)).await.unwrap();
    assert_eq!(received.len(), 1);
}

#[tokio::test]
async fn it_resets_closes_and_holds_as_told() {
    let listener = RawListener::start().unwrap();
    let address = listener.addr();
    listener.script(vec![Step::ReadRequest, Step::Reset]);
    assert_eq!(
        exchange(address, "POST", "/", &[], b"{}").await.unwrap_err().kind(),
        ErrorKind::ConnectionReset
    );
    listener.script(vec![Step::ReadRequest, Step::Write(b"HTTP/1.1 201 Cre".to_vec()), Step::Close]);
    assert_eq!(
        exchange(address, "POST", "/", &[], b"{}").await.unwrap_err().kind(),
        ErrorKind::UnexpectedEof
    );

    listener.script(vec![
        Step::ReadBytes(4),
        Step::Hold,
        Step::ReadRequest,
        Step::Write(Reply::json(200, &serde_json::json!({})).to_bytes()),
        Step::Close,
    ]);
    // The first four bytes are read apart, so that the rest is a request of its own.
    let call = tokio::spawn(async move {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"abcd").await.unwrap();
        stream.write_all(&request_bytes("GET", "/", &[], b"")).await.unwrap();
        read_reply(&mut stream).await
    });
    listener.wait_for_holds(1).await.unwrap();
    assert!(!call.is_finished());
    listener.release();
    assert_eq!(call.await.unwrap().unwrap().status, 200);
}

#[tokio::test]
async fn dropping_it_closes_the_port() {
    let listener = RawListener::start().unwrap();
    let address = listener.addr();
    let mut stream = TcpStream::connect(address).await.unwrap();
    listener.wait_until(|received| received.len() == 1).await.unwrap();
    drop(listener);
    assert!(read_reply(&mut stream).await.is_err());
    assert_eq!(TcpStream::connect(address).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
}
