//! A server that answers every request with exactly the given bytes and closes the connection.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The next answer.
static ANSWER: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Runs a function with a URL whose server answers with these bytes.
pub fn ask<T>(answer: &[u8], asked: impl FnOnce(&str) -> T) -> T {
    static URL: OnceLock<String> = OnceLock::new();
    let url = URL.get_or_init(|| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its number").port();
        let serve = move || listener.incoming().flatten().for_each(serve);
        std::thread::Builder::new()
            .name("server".into())
            .spawn(serve)
            .expect("a thread");
        format!("http://127.0.0.1:{port}/a.mp4")
    });
    *ANSWER.lock().unwrap_or_else(PoisonError::into_inner) = answer.to_vec();
    asked(url)
}

fn serve(mut client: TcpStream) {
    let (mut request, mut some) = (Vec::<u8>::new(), [0; 2048]);
    while !request
        .windows(4)
        .any(|four| four == b"\r\n\r\n".as_slice())
    {
        match client.read(&mut some) {
            Ok(read) if read > 0 && request.len() < 1 << 16 => request.extend(&some[..read]),
            _ => return,
        }
    }
    let answer = ANSWER
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    // A client that has read enough closes the connection first.
    let _ = client.write_all(&answer);
    let _ = client.shutdown(Shutdown::Write);
}

/// Typical server answers, valid and invalid.
pub fn answers() -> Vec<Vec<u8>> {
    let body = |len: usize| "x".repeat(len);
    let part = |range: &str, more: &str, len: usize| {
        format!(
            "HTTP/1.1 206 Partial Content\r\nContent-Length: {len}\r\nContent-Range: bytes {range}\r\nETag: \"tag\"\r\n{more}\r\n{}",
            body(len)
        )
    };
    [
        part("0-0/1000", "", 1),
        part("9-158/1000", "Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n", 150),
        part("21-120/1000", "", 100),
        part("0-0/18446744073709551615", "", 1),
        part("0-0/*", "", 1),
        part("9-158/1000", "Transfer-Encoding: chunked\r\n", 150),
        "HTTP/1.1 206 Partial Content\r\nTransfer-Encoding: chunked\r\nContent-Range: bytes 0-0/1000\r\n\r\n1\r\nx\r\n0\r\n\r\n".into(),
        format!("HTTP/1.1 200 OK\r\nContent-Length: 10\r\nAccept-Ranges: bytes\r\n\r\n{}", body(10)),
        "HTTP/1.1 304 Not Modified\r\nETag: \"tag\"\r\n\r\n".into(),
        "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */0\r\nContent-Length: 0\r\n\r\n".into(),
        "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno".into(),
        "HTTP/1.1 503 Slow Down\r\nRetry-After: 120\r\nContent-Length: 30\r\n\r\n<Error><Code>SlowDown</Code></".into(),
        "HTTP/1.1 301 Moved\r\nx-amz-bucket-region: eu-west-1\r\nContent-Length: 0\r\n\r\n".into(),
        "HTTP/1.0 403 Forbidden\r\n\r\n<Code>AccessDenied</Code>".into(),
    ]
    .into_iter()
    .map(String::into_bytes)
    .collect()
}
