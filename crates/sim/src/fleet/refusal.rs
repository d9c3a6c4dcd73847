//! Refusals of the simulated gateway, as reports tell them, and whose figures are kept apart.

use overdraft_core::admit;
use overdraft_core::route::Choice;

use super::request_slab::Flight;
use crate::report::{Belongs, Cause};

/// Why nobody is asked.
pub(super) const fn unplaced(choice: Choice) -> Cause {
    match choice {
        Choice::NoRoom { asked, most, .. } if most < asked => Cause::TooLarge,
        Choice::NoRoom { .. } | Choice::Saturated { .. } => Cause::NoRoom,
        Choice::Send(_) | Choice::UnknownModel | Choice::NoneUp | Choice::NoneLeft => {
            Cause::NoWorker
        }
    }
}

/// Why a request does not wait at the gateway.
pub(super) const fn unqueued(refusal: admit::Refusal) -> Cause {
    match refusal {
        admit::Refusal::QueueFull { .. } | admit::Refusal::HeldFull { .. } => Cause::QueueFull,
        admit::Refusal::TenantFull { .. } => Cause::TenantQueueFull,
        admit::Refusal::TooLate { .. } => Cause::WaitedTooLong,
    }
}

/// Groups whose times between tokens are kept apart.
pub(super) fn groups_of(flight: &Flight) -> Belongs {
    Belongs { tenant: flight.sender.tenant, stage: flight.stage.place(), ..Belongs::default() }
}
