//! Start-time fair queueing between the tenants of one priority.
//!
//! The algorithm (Goyal, Vin, Cheng 1996) counts tokens: each tenant has a *tag*, the tokens it was
//! served since the lane has been busy, and the smallest tag goes next. A tenant that begins to
//! wait starts at the lane's current tag, so that idle time is no credit; a tenant that sends ten
//! times its share delays only itself.

use alloc::collections::BTreeMap;

use super::Tenant;
use super::queue::Waiter;

/// Tenants whose tag is remembered while they do not wait.
const IDLE_FLOWS_MAX: usize = 256;

/// Those of one priority who wait for one model, wherever they wait.
#[derive(Debug, Default)]
pub(super) struct Lane {
    flows: BTreeMap<Tenant, Flow>,
    /// The tag of the tenant that was started last.
    clock: u64,
    waiting: usize,
    /// Tokens of those who wait.
    tokens: u64,
}

/// Those of one tenant.
#[derive(Debug, Default)]
struct Flow {
    tag: u64,
    waiting: usize,
    tokens: u64,
    /// Tokens of those who were started or left since it began to wait.
    gone: u64,
}

impl Lane {
    pub(super) const fn len(&self) -> usize {
        self.waiting
    }

    pub(super) const fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Tokens that a tenant was served, as far as its turn goes by them.
    pub(super) fn tag(&self, tenant: Tenant) -> u64 {
        self.flows.get(&tenant).map_or(self.clock, |flow| flow.tag)
    }

    /// Tokens of one tenant that wait.
    pub(super) fn own(&self, tenant: Tenant) -> u64 {
        self.flows.get(&tenant).map_or(0, |flow| flow.tokens)
    }

    /// Where the next of a tenant stands: tokens that came before it since that began to wait.
    pub(super) fn place(&self, tenant: Tenant) -> u64 {
        self.flows.get(&tenant).map_or(0, |flow| flow.gone.saturating_add(flow.tokens))
    }

    /// Tokens of its tenant that go before one that stands at `place`. Who came later and went sooner counts as if it
    /// had been before.
    pub(super) fn own_before(&self, tenant: Tenant, place: u64) -> u64 {
        let flow = self.flows.get(&tenant);
        flow.map_or(0, |flow| place.saturating_sub(flow.gone).min(flow.tokens))
    }

    pub(super) fn insert(&mut self, waiter: Waiter) {
        let flow = self.flows.entry(waiter.tenant).or_default();
        if flow.waiting == 0 {
            flow.tag = flow.tag.max(self.clock);
        }
        flow.waiting += 1;
        flow.tokens = flow.tokens.saturating_add(waiter.tokens);
        self.tokens = self.tokens.saturating_add(waiter.tokens);
        self.waiting += 1;
    }

    pub(super) fn remove(&mut self, waiter: Waiter) {
        let Some(flow) = self.flows.get_mut(&waiter.tenant) else { return };
        flow.waiting -= 1;
        flow.tokens = flow.tokens.saturating_sub(waiter.tokens);
        self.tokens = self.tokens.saturating_sub(waiter.tokens);
        self.waiting -= 1;
    }

    pub(super) fn served(&mut self, waiter: Waiter) {
        let clock = self.clock;
        let flow = self
            .flows
            .entry(waiter.tenant)
            .or_insert_with(|| Flow { tag: clock, ..Flow::default() });
        self.clock = clock.max(flow.tag);
        // A request without tokens costs something too, or it would be served for ever.
        flow.tag = flow.tag.saturating_add(waiter.tokens.max(1));
        flow.gone = flow.gone.saturating_add(waiter.tokens);
    }

    /// One does not wait any more that was not started.
    pub(super) fn left(&mut self, waiter: Waiter) {
        if let Some(flow) = self.flows.get_mut(&waiter.tenant) {
            flow.gone = flow.gone.saturating_add(waiter.tokens);
        }
    }

    /// Tokens that are served before `waiter` is, if all tenants that wait take turns: so many are its own tenant's.
    pub(super) fn before(&self, waiter: Waiter, own: u64) -> u64 {
        let others = self.flows.iter().filter(|(tenant, _)| **tenant != waiter.tenant);
        let turns = own.saturating_add(waiter.tokens);
        let others: u64 = others.map(|(_, flow)| flow.tokens.min(turns)).sum();
        own.saturating_add(others)
    }

    /// Forgets tenants that do not wait and have no more behind them than the lane has.
    pub(super) fn rest(&mut self, called: bool) {
        if self.waiting == 0 && !called {
            self.flows.clear();
            self.clock = 0;
        } else if self.waiting + IDLE_FLOWS_MAX < self.flows.len() {
            let clock = self.clock;
            self.flows.retain(|_, flow| flow.waiting > 0 || clock < flow.tag);
            let most = self.waiting + IDLE_FLOWS_MAX;
            while most < self.flows.len() {
                let idle = self.flows.iter().filter(|(_, flow)| flow.waiting == 0);
                let least = idle.min_by_key(|(_, flow)| flow.tag).map(|(tenant, _)| *tenant);
                let Some(tenant) = least else { return };
                self.flows.remove(&tenant);
            }
        }
    }
}
