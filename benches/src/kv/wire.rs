//! A wire between two workers that flips a bit of each answer.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use tokio::io::{self, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Bytes that are passed on at once.
const PIECE: usize = 1 << 16;

/// The wire; dropping it cuts it.
pub(crate) struct Flipping {
    pub(crate) address: SocketAddr,
    flipped: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl Flipping {
    /// How many bits it has flipped.
    pub(crate) fn flipped(&self) -> usize {
        self.flipped.load(Ordering::Relaxed)
    }
}

/// Passes everything on to `holder`, and back with a bit of the byte at `place` flipped.
pub(crate) async fn flipping(holder: SocketAddr, place: usize) -> Result<Flipping> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let flipped = Arc::new(AtomicUsize::new(0));
    let (mut tasks, count) = (JoinSet::new(), Arc::clone(&flipped));
    tasks.spawn(async move {
        let mut passing = JoinSet::new();
        while let Ok((client, _)) = listener.accept().await {
            let count = Arc::clone(&count);
            passing.spawn(async move {
                // Whoever hangs up first ends it.
                let _ended = pass(client, holder, place, &count).await;
            });
        }
    });
    Ok(Flipping { address, flipped, _tasks: tasks })
}

async fn pass(
    client: TcpStream,
    holder: SocketAddr,
    place: usize,
    flipped: &AtomicUsize,
) -> io::Result<()> {
    let (mut question, mut answer) = client.into_split();
    let (mut back, mut there) = TcpStream::connect(holder).await?.into_split();
    let mut sending = JoinSet::new();
    sending.spawn(async move { io::copy(&mut question, &mut there).await });
    let (mut piece, mut passed) = (vec![0; PIECE], 0);
    loop {
        let count = back.read(&mut piece).await?;
        if count == 0 {
            return answer.shutdown().await;
        }
        if let Some(byte) = place.checked_sub(passed).and_then(|at| piece[..count].get_mut(at)) {
            *byte ^= 1;
            flipped.fetch_add(1, Ordering::Relaxed);
        }
        passed += count;
        answer.write_all(&piece[..count]).await?;
    }
}
