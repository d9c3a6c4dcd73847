//! Redis client of the gateway: one task sends all reads and updates of shared state.
//!
//! A [`Store`] belongs to one task, which sends commands at its own pace and never keeps a request
//! waiting. Without Redis every query returns the result for a gateway that is alone.

use std::sync::Arc;
use std::time::Duration;

use data_encoding::HEXLOWER;
use overdraft_units::Instant;

use crate::address::Place;
use crate::board::{self, Record, Verdict};
use crate::budgets::{Budgets, DEBIT_LIFE, DEBT_MINUTES_MAX, Due};
use crate::fault::{Fault, OpenError};
use crate::gateway_name;
use crate::link::Link;
use crate::revocations::{self, REVOCATIONS_MAX, REVOKED_AT_ONCE, Revocation, Revoked};
use crate::scripts::{
    BOARD_CLAIM, BOARD_READ, BOARD_REPORT, BUDGETS_DEBIT, KEYS_REVOKE, KEYS_REVOKED,
    SHARES_EXCHANGE,
};
use crate::server_info::ServerInfo;
use crate::settings::StoreSettings;
use crate::shares::{self, GATEWAYS_MAX, OwnShare, SHARE_LIFE, Shared};
use crate::status::{Side, Status};
use crate::transport::Dialer;

/// Version of the schema in Redis; another version uses other keys.
const SCHEMA: u32 = 1;

/// TTL of a claim that is not renewed: after it other gateways may take over the trial of one that
/// ended.
pub const CLAIM_LIFE: Duration = Duration::from_secs(3);

/// Maximum workers read in one command.
pub const WORKERS_AT_ONCE: usize = 256;

/// TTL of stored bytes that are not written again.
const KEPT_LIFE: Duration = Duration::from_hours(30 * 24);

/// How long a journal is heard that its gateway does not tell anew.
const JOURNAL_LIFE: Duration = Duration::from_hours(1);

/// What gateways share, for the one task that keeps it.
#[derive(Debug)]
pub struct Store {
    link: Option<Link>,
    /// Of all keys. What stands in braces decides on the slot of a cluster: all of it is in one.
    prefix: String,
    /// Who we are among the gateways.
    owner: String,
    status: Arc<Status>,
    budgets: Arc<Budgets>,
}

impl Store {
    /// Opens a store. Whether Redis is there is found out when it is first asked.
    ///
    /// # Errors
    /// [`OpenError`] where no Redis could be spoken to with these certificates.
    pub fn open(settings: &StoreSettings) -> Result<Self, OpenError> {
        Self::open_with(settings, Arc::default(), Arc::default())
    }

    /// Opens a store that goes on with what another knew: after a reload.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_with(
        settings: &StoreSettings,
        status: Arc<Status>,
        budgets: Arc<Budgets>,
    ) -> Result<Self, OpenError> {
        let link = match &settings.place {
            Place::Memory => {
                status.clear();
                None
            }
            Place::Wrong(error) => return Err(error.clone().into()),
            Place::Redis(place) => {
                let dialer = Dialer::new(place.clone(), settings)?;
                let told = settings.place.to_string();
                Some(Link::new(dialer, Arc::clone(&status), settings.timeout, told))
            }
        };
        Ok(Self {
            link,
            prefix: format!("overdraft:{{{}}}:{SCHEMA}:", settings.namespace),
            owner: gateway_name::draw(),
            status,
            budgets,
        })
    }

    /// Whether other gateways may share it.
    pub const fn is_shared(&self) -> bool {
        self.link.is_some()
    }

    /// How it is, readable without waiting.
    pub fn status(&self) -> Arc<Status> {
        Arc::clone(&self.status)
    }

    /// What keys have spent, readable without waiting.
    pub fn budgets(&self) -> Arc<Budgets> {
        Arc::clone(&self.budgets)
    }

    /// Finds out whether it answers, takes scripts and writes.
    ///
    /// # Errors
    /// The [`Fault`] that stands in the way.
    pub async fn ping(&mut self) -> Result<(), Fault> {
        let keys = [format!("{}ping", self.prefix)];
        let Some(link) = &mut self.link else { return Ok(()) };
        let life = SHARE_LIFE.as_millis().to_string();
        let arguments = [self.owner.clone(), String::new(), life, "1".to_owned()];
        let _: Vec<String> = link.script(Side::Writes, &SHARES_EXCHANGE, &keys, &arguments).await?;
        Ok(())
    }

    /// What the server says of itself.
    ///
    /// # Errors
    /// [`Fault`], also where the user may not ask `INFO`.
    pub async fn server(&mut self) -> Result<ServerInfo, Fault> {
        let Some(link) = &mut self.link else { return Ok(ServerInfo::default()) };
        let mut page = String::new();
        for section in ["server", "memory", "persistence"] {
            let mut command = redis::cmd("INFO");
            command.arg(section);
            page.push_str(&link.run::<String>(Side::Reads, &command).await?);
        }
        Ok(ServerInfo::parse(&page))
    }

    /// What was [kept](Self::keep) under this number; nothing where nothing was, or nobody shares.
    ///
    /// # Errors
    /// [`Fault`]; it may still be there.
    pub async fn kept(&mut self, number: u64) -> Result<Option<Vec<u8>>, Fault> {
        let Some(link) = &mut self.link else { return Ok(None) };
        let mut command = redis::cmd("GET");
        command.arg(kept_key(&self.prefix, number));
        link.run(Side::Reads, &command).await
    }

    /// Keeps these bytes under a number for thirty days, in the place of what was there before.
    ///
    /// # Errors
    /// [`Fault`]; what was kept before stands then.
    pub async fn keep(&mut self, number: u64, bytes: &[u8]) -> Result<(), Fault> {
        let Some(link) = &mut self.link else { return Ok(()) };
        let mut command = redis::cmd("SET");
        command.arg(kept_key(&self.prefix, number)).arg(bytes);
        command.arg("EX").arg(KEPT_LIFE.as_secs());
        link.run::<String>(Side::Writes, &command).await?;
        Ok(())
    }

    /// Tells the other gateways what `gateway` has learnt last about a number, and hears what they have told.
    ///
    /// # Errors
    /// [`Fault`]; it can be told again.
    pub async fn exchange_journals(
        &mut self,
        number: u64,
        gateway: u64,
        ours: &str,
    ) -> Result<Vec<String>, Fault> {
        let Some(link) = &mut self.link else { return Ok(Vec::new()) };
        let keys = [format!("{}journals:{number:016x}", self.prefix)];
        let arguments = [
            format!("{gateway:016x}"),
            ours.to_owned(),
            board::millis(JOURNAL_LIFE),
            GATEWAYS_MAX.to_string(),
        ];
        let answer: Vec<String> =
            link.script(Side::Writes, &SHARES_EXCHANGE, &keys, &arguments).await?;
        mended(&self.status, answer)
    }

    /// A number that changes whenever the board does; cheap enough to be asked all the time.
    ///
    /// # Errors
    /// [`Fault`]; the board as it was last seen stands then.
    pub async fn board_version(&mut self) -> Result<u64, Fault> {
        let Some(link) = &mut self.link else { return Ok(0) };
        let key = board::version_key(&self.prefix);
        let mut command = redis::cmd("GET");
        command.arg(&key);
        let text = match link.run::<Option<String>>(Side::Reads, &command).await {
            Ok(None) => return Ok(0),
            Ok(Some(text)) => text,
            Err(Fault::WrongType) => String::new(),
            Err(fault) => return Err(fault),
        };
        if let Ok(version) = text.parse() {
            return Ok(version);
        }
        self.status.note_mended();
        let mut command = redis::cmd("DEL");
        command.arg(&key);
        link.run::<i64>(Side::Writes, &command).await?;
        Ok(0)
    }

    /// What stands on the board of `workers`, in their order; at most [`WORKERS_AT_ONCE`] are looked
    /// up with one command.
    ///
    /// # Errors
    /// [`Fault`]; the board as it was last seen stands then.
    pub async fn board_read(&mut self, workers: &[u64]) -> Result<Vec<Option<Record>>, Fault> {
        let Some(link) = &mut self.link else { return Ok(vec![None; workers.len()]) };
        let mut records = Vec::with_capacity(workers.len());
        for some in workers.chunks(WORKERS_AT_ONCE) {
            let keys: Vec<String> =
                some.iter().map(|worker| board::key(&self.prefix, *worker)).collect();
            let answer: Vec<String> = link.script(Side::Reads, &BOARD_READ, &keys, &[]).await?;
            let figures = mended(&self.status, answer)?;
            if figures.len() != some.len() * 3 {
                return Err(Fault::Garbage);
            }
            for three in figures.chunks(3) {
                records.push(board::record(three)?);
            }
        }
        Ok(records)
    }

    /// Tells the board what this gateway decided on `worker`; what stands there then.
    ///
    /// # Errors
    /// [`Fault`]; it is to be told again then.
    pub async fn board_report(
        &mut self,
        worker: u64,
        verdict: Verdict,
    ) -> Result<Option<Record>, Fault> {
        let Some(link) = &mut self.link else {
            let Verdict { open_for, streak } = verdict;
            return Ok(Some(Record { version: 0, open_for, streak }));
        };
        let keys = [board::key(&self.prefix, worker), board::version_key(&self.prefix)];
        let open_for = verdict.open_for.map_or_else(|| "-1".to_owned(), board::millis);
        let life = board::millis(board::RECORD_LIFE);
        let arguments = [self.owner.clone(), open_for, verdict.streak.to_string(), life];
        let answer: Vec<String> =
            link.script(Side::Writes, &BOARD_REPORT, &keys, &arguments).await?;
        board::record(&mended(&self.status, answer)?)
    }

    /// Asks to be the one that tries `worker`, for [`CLAIM_LIFE`].
    ///
    /// # Errors
    /// [`Fault`]; nobody said yes.
    pub async fn board_claim(&mut self, worker: u64) -> Result<bool, Fault> {
        self.claim(worker, "first").await
    }

    /// Asks for as long again, while the trial is under way; whether nobody else has it.
    ///
    /// # Errors
    /// [`Fault`]; nobody said yes.
    pub async fn board_renew(&mut self, worker: u64) -> Result<bool, Fault> {
        self.claim(worker, "again").await
    }

    async fn claim(&mut self, worker: u64, turn: &str) -> Result<bool, Fault> {
        let Some(link) = &mut self.link else { return Ok(true) };
        let keys = [board::key(&self.prefix, worker)];
        let life = board::millis(board::RECORD_LIFE);
        let arguments = [self.owner.clone(), board::millis(CLAIM_LIFE), life, turn.to_owned()];
        let answer: Vec<String> =
            link.script(Side::Writes, &BOARD_CLAIM, &keys, &arguments).await?;
        let answer = mended(&self.status, answer)?;
        Ok(answer.first().is_some_and(|granted| granted == "1"))
    }

    /// Tells the others what this gateway has in flight, by worker, and what waits in it, by model; and hears theirs.
    ///
    /// # Errors
    /// [`Fault`]; what was heard before grows old then and is to be let go of after [`SHARE_LIFE`].
    pub async fn exchange_shares(&mut self, ours: &OwnShare) -> Result<Shared, Fault> {
        let Some(link) = &mut self.link else {
            return Ok(Shared { gateways: 1, ..Shared::default() });
        };
        let keys = [format!("{}shares", self.prefix)];
        let arguments = [
            self.owner.clone(),
            shares::text(ours),
            board::millis(SHARE_LIFE),
            GATEWAYS_MAX.to_string(),
        ];
        let answer: Vec<String> =
            link.script(Side::Writes, &SHARES_EXCHANGE, &keys, &arguments).await?;
        let (shared, unread) = shares::sum(&mended(&self.status, answer)?);
        for _ in 0..unread {
            self.status.note_mended();
        }
        self.status.note_gateways(shared.gateways);
        self.budgets.note_gateways(shared.gateways);
        Ok(shared)
    }

    /// Has every gateway refuse these keys; how many of them found no room among [`REVOCATIONS_MAX`].
    ///
    /// # Errors
    /// [`Fault`]; some of them may have been told.
    pub async fn revoke(&mut self, keys: &[Revocation]) -> Result<u64, Fault> {
        let Some(link) = &mut self.link else { return Ok(0) };
        let mut refused = 0;
        for some in keys.chunks(REVOKED_AT_ONCE) {
            let each =
                some.iter().flat_map(|key| [HEXLOWER.encode(&key.digest), key.until.to_string()]);
            let arguments: Vec<String> =
                std::iter::once(REVOCATIONS_MAX.to_string()).chain(each).collect();
            let place = [revocations::key(&self.prefix)];
            let answer: Vec<String> =
                link.script(Side::Writes, &KEYS_REVOKE, &place, &arguments).await?;
            let answer = mended(&self.status, answer)?;
            let count = answer.first().and_then(|count| count.parse::<u64>().ok());
            refused += count.ok_or(Fault::Garbage)?;
        }
        Ok(refused)
    }

    /// The keys that are refused, where they are others than at the version that was `seen`.
    ///
    /// # Errors
    /// [`Fault`]; what was known before stays in force then.
    pub async fn revoked(&mut self, seen: Option<u64>) -> Result<Option<Revoked>, Fault> {
        let Some(link) = &mut self.link else { return Ok(None) };
        let seen_text = seen.map(|version| version.to_string()).unwrap_or_default();
        let place = [revocations::key(&self.prefix)];
        let arguments = [seen_text, REVOCATIONS_MAX.to_string()];
        let answer: Vec<String> =
            link.script(Side::Reads, &KEYS_REVOKED, &place, &arguments).await?;
        let revoked = revocations::revoked(&mended(&self.status, answer)?)?;
        Ok((Some(revoked.version) != seen).then_some(revoked))
    }

    /// Tells what was spent here, and learns what is left over all.
    ///
    /// # Errors
    /// [`Fault`]; what has not flowed back by the next time is told again, and counts once.
    pub async fn exchange_budgets(&mut self, now: Instant) -> Result<(), Fault> {
        let Some(link) = &mut self.link else { return Ok(()) };
        let debit = self.budgets.debit(now);
        if debit.due.is_empty() {
            // Nothing is sent: the last write tells whether Redis is there.
            if self.status.takes_writes() {
                self.budgets.exchanged(&debit, &[], now);
            }
            return Ok(());
        }
        let key =
            |due: &Due| format!("{}budget:{:016x}:{}", self.prefix, due.key, due.kind.letter());
        let last = format!("{}debits:{}", self.prefix, self.budgets.gateway());
        let keys: Vec<String> = debit.due.iter().map(key).chain([last]).collect();
        let each = debit.due.iter();
        let figures = each.flat_map(|due| [due.limit.to_string(), due.spent.to_string()]);
        let life = board::millis(DEBIT_LIFE.into());
        let rest = [DEBT_MINUTES_MAX.to_string(), debit.number.to_string(), life];
        let arguments: Vec<String> = figures.chain(rest).collect();
        let answer: Vec<String> =
            link.script(Side::Writes, &BUDGETS_DEBIT, &keys, &arguments).await?;
        let answer = mended(&self.status, answer)?;
        let missing: Vec<i128> = answer
            .iter()
            .map(|text| text.parse().map_err(|_| Fault::Garbage))
            .collect::<Result<_, _>>()?;
        self.budgets.exchanged(&debit, &missing, now);
        Ok(())
    }
}

/// Takes the last figure off an answer: how much the script had to throw away.
fn mended(status: &Status, mut answer: Vec<String>) -> Result<Vec<String>, Fault> {
    let count: u32 = answer.pop().and_then(|last| last.parse().ok()).ok_or(Fault::Garbage)?;
    for _ in 0..count {
        status.note_mended();
    }
    Ok(answer)
}

/// Where bytes are kept.
fn kept_key(prefix: &str, number: u64) -> String {
    format!("{prefix}kept:{number:016x}")
}
