//! Addresses that are no gateway's, or that refuse: which address, what was expected, what to do.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use crate::harness::{Server, until};
use crate::load::refuses;

/// Commands that ask a gateway for what it knows.
const ASKING: [&[&str]; 4] = [
    &["top", "--once"],
    &["tail", "--once"],
    &["explain", "req_7f3a"],
    &["explain", "--prompt", "x", "--model", "m"],
];

/// The address of a server that answers every request alike, for as long as the tests run.
pub(crate) fn answering(status: &'static str, body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("it listens"));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // A client that hangs up loses its own answer alone.
            let _hung_up = stream.and_then(|stream| answer(stream, status, body));
        }
    });
    url
}

fn answer(mut stream: TcpStream, status: &str, body: &str) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    reader.read_exact(&mut vec![0; length])?;
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
    stream.write_all(format!("{head}{body}").as_bytes())
}

/// Every command that asks `url` fails and says all of these things, whichever way it is named.
#[track_caller]
fn check(url: &str, says: &[&str]) {
    let named = format!("error: `{url}`: ");
    let says = [&[named.as_str()][..], says].concat();
    for command in ASKING {
        refuses(1, &[command, &[url]].concat(), &says);
        refuses(1, &[command, &["--url", url]].concat(), &says);
    }
}

#[test]
fn an_address_where_nothing_listens_is_named_with_what_was_expected() {
    check("http://127.0.0.1:1", &["no connection: ", "expected a gateway", "hint: is it running"]);
}

#[test]
fn a_server_that_is_no_gateway_is_said_to_be_none() {
    let page = answering("200 OK", "<h1>It works!</h1>");
    let says = ["it answers `/admin/", "something else than a gateway does", "hint: is that a"];
    check(&page, &says);
    let json = ["explain", "--prompt", "x", "--model", "m", "--output", "json", page.as_str()];
    refuses(1, &json, &says);
    let other = answering("404 Not Found", "{\"detail\":\"Not Found\"}");
    check(&other, &["it answers `404 Not Found`", "hint: give the address of a gateway"]);
    let worker = Server::worker(&["--backend", "echo"]);
    let worker = format!("http://{}", worker.address);
    check(&worker, &["it answers `404 Not Found`: there is nothing at", "`admin.listen`"]);
}

#[test]
fn a_gateway_that_refuses_is_told_with_the_token_that_it_wants() {
    let proxy = answering("401 Unauthorized", "<h1>Log in</h1>");
    check(&proxy, &["it answers `401 Unauthorized`", "`admin.token`", "a proxy before it"]);
    let told = "{\"error\":{\"message\":\"expected the token of `admin.token`\",\"code\":\"permission_denied\"}}";
    let gateway = answering("403 Forbidden", told);
    let says = "it answers `403 Forbidden`: expected the token of `admin.token`";
    check(&gateway, &[says, "hint: give the gateway's `admin.token` with `--token`"]);
    for command in ASKING {
        let wrong = [command, &["--token", "\u{1}", gateway.as_str()]].concat();
        refuses(2, &wrong, &["no header can carry; expected visible ASCII", "hint: give the"]);
    }
}

#[test]
fn what_a_gateway_does_not_know_is_told_in_its_own_words() {
    let worker = Server::worker(&["--backend", "echo"]);
    let gateway = Server::serve(&["--worker", &format!("http://{}", worker.address)]);
    until("the worker is up", || gateway.ask("GET", "/healthz", "").status == 200);
    let url = format!("http://{}", gateway.address);
    let lost = ["explain", &url, "req_7f3a"];
    let says =
        [url.as_str(), "the log has no such request", "hint: `overdraft explain ID --log FILE`"];
    refuses(1, &lost, &says);
    refuses(1, &["top", "--once", "--request", "req_7f3a", &url], &says);
    let none = ["explain", &url, "--prompt", "x"];
    refuses(2, &none, &["the request names no model", "hint: `--model NAME` names it"]);
}
