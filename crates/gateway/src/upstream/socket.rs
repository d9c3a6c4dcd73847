//! The socket to a worker as hyper sees it: the same bytes, with an acknowledgement for every other
//! token instead of for each.
//!
//! A kernel acknowledges what is read at once, unless it takes the connection for an exchange in which
//! the next thing that is sent can carry the acknowledgement (Linux: "pingpong"). While an answer streams
//! in nothing is sent, so each event costs a packet of its own, a tenth of what relaying it takes. Reads
//! that follow each other without a write between them are such an answer, and the kernel is then told
//! not to hurry (`TCP_QUICKACK` off, RFC 9293 section 3.8.6.3): it acknowledges each second event, or what
//! has come after 40 ms and then hurries again.
//!
//! Invariant: the bytes, and when they are handed on, are the socket's. A worker may hold a small write
//! back until the last one is acknowledged (Nagle's algorithm, which engines switch off). It waits those
//! 40 ms once in an answer, as it does when requests follow each other on a connection.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use overdraft_tls::{ClientStream, Transport};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Reads in a row that make a stream: a head, often with the first event, and one more.
const READS_OF_A_STREAM: u8 = 2;

/// A connection to a worker, encrypted or not.
pub(super) type WorkerStream = Transport<ClientStream<TcpStream>>;

/// A connected socket that notices when an answer streams.
#[derive(Debug)]
pub(super) struct Socket {
    stream: WorkerStream,
    /// Reads since the last write, as far as they count.
    reads: u8,
}

impl Socket {
    pub(super) const fn new(stream: WorkerStream) -> Self {
        Self { stream, reads: 0 }
    }

    fn note_read(&mut self) {
        if self.reads < READS_OF_A_STREAM {
            self.reads += 1;
            if self.reads == READS_OF_A_STREAM {
                acknowledge_at_leisure(self.stream.tcp());
            }
        }
    }
}

#[cfg(target_os = "linux")]
fn acknowledge_at_leisure(stream: &TcpStream) {
    // A kernel that will not is as correct and a little slower.
    let _: io::Result<()> = stream.set_quickack(false);
}

#[cfg(not(target_os = "linux"))]
const fn acknowledge_at_leisure(_: &TcpStream) {}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, into);
        if before < into.filled().len() {
            self.note_read();
        }
        read
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.reads = 0;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.reads = 0;
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use overdraft_tls::Transport;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::Socket;

    /// Sends an event and reads it; whether the kernel would acknowledge the next one at once.
    async fn hurries_after(event: &[u8], worker: &mut TcpStream, socket: &mut Socket) -> bool {
        worker.write_all(event).await.expect("the peer reads");
        let mut read = vec![0; event.len()];
        socket.read_exact(&mut read).await.expect("an event was sent");
        assert_eq!(read, event);
        socket.stream.tcp().quickack().expect("the option can be read")
    }

    #[tokio::test]
    async fn an_answer_that_streams_is_acknowledged_at_leisure() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let mut socket =
            Socket::new(Transport::Plain(TcpStream::connect(address).await.expect("it listens")));
        let (mut worker, _) = listener.accept().await.expect("it connects");
        for _exchange in 0..2 {
            socket.write_all(b"a request").await.expect("the peer reads");
            worker.read_exact(&mut [0; 9]).await.expect("it was sent");
            socket.stream.tcp().set_quickack(true).expect("as after a pause");
            assert!(hurries_after(b"head and first event", &mut worker, &mut socket).await);
            assert!(!hurries_after(b"second event", &mut worker, &mut socket).await);
        }
        socket.stream.tcp().set_quickack(true).expect("as after a pause");
        assert!(hurries_after(b"third event", &mut worker, &mut socket).await, "told once only");
    }
}
