//! Gateway overhead: the cost beyond moving the bytes (S7).
//!
//! An instant mock worker, a bare hyper proxy and the gateway run as processes of their own, all of
//! this binary and on the same runtime; the load comes from the parent. Each child tells the CPU
//! time that it has used when asked, so a figure is exactly what one process burnt for a known
//! number of requests, kernel included. The bare proxy accepts, forwards and relays, and does
//! nothing else: no limits, no routing, no retries, no watching of streams, no metrics. Both sides
//! are loaded at the same time and medians of many rounds told, so a busy machine disturbs both alike.
#![expect(clippy::print_stdout, reason = "a bench reports to its terminal")]
#![expect(clippy::disallowed_methods, reason = "a bench ends what it spawns with its runtime")]

mod bare;
pub(crate) mod child;
pub(crate) mod load;
pub(crate) mod meter;
pub(crate) mod mock;
mod peer;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use overdraft_core::resume::Mode;
use overdraft_gateway::GatewaySettings;

use self::meter::Plan;
use crate::{observe, runtime};

/// Measures the gateway beside a bare proxy.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Under a minute; figures are rougher
    #[arg(long)]
    quick: bool,
    /// Writes the raw results under benches/runs/
    #[arg(long)]
    save: bool,
    /// Measures one thing only: 200b, 16k, 400k, chunks, latency or memory
    #[arg(long)]
    only: Option<String>,
    /// The Python that has the peers
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/peers/bin/python"))]
    python: PathBuf,
    #[command(subcommand)]
    role: Option<Role>,
}

/// What a process is; without one it is the parent.
#[derive(Subcommand)]
enum Role {
    /// The parent, which judges nothing: for `cargo xtask dist`, which counts what its load makes hot
    Train,
    /// The instant worker
    Mock,
    /// The bare proxy before `worker`
    Bare {
        /// `host:port`
        worker: String,
    },
    /// The gateway before `worker`
    Proxied {
        /// `host:port`
        worker: String,
    },
    /// The same, which resumes no stream
    Unresumed {
        /// `host:port`
        worker: String,
    },
    /// The same, which traces a tenth of the requests
    Traced {
        /// `host:port`
        worker: String,
        /// `host:port`
        collector: String,
    },
}

/// Runs the bench.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    runtime()?.block_on(async {
        match &arguments.role {
            Some(Role::Mock) => child::serve(mock::serve).await,
            Some(Role::Bare { worker }) => {
                child::serve(|listener| bare::serve(listener, worker)).await
            }
            Some(Role::Proxied { worker }) => {
                child::serve(|listener| meter::gateway(listener, worker, |_| ())).await
            }
            Some(Role::Traced { worker, collector }) => {
                let tracing = Some(observe::tracing(collector)?);
                let trace = |settings: &mut GatewaySettings| settings.tracing = tracing;
                child::serve(|listener| meter::gateway(listener, worker, trace)).await
            }
            Some(Role::Unresumed { worker }) => {
                let stop = |settings: &mut GatewaySettings| settings.resume.mode = Mode::Off;
                child::serve(|listener| meter::gateway(listener, worker, stop)).await
            }
            Some(Role::Train) => report::train().await,
            None => {
                let plan = if arguments.quick { Plan::QUICK } else { Plan::FULL };
                let plan = Plan { only: arguments.only.as_deref(), ..plan };
                report::run(plan, &arguments.python, arguments.save).await
            }
        }
    })
}
