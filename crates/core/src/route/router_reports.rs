//! Worker reports: KV events on their way into the prefix index, and their comparison with answers.
//!
//! **Invariant:** what a process reported is forgotten with the process, by whichever event shows its end first.

use overdraft_units::{BlockSize, Tokens};

use super::placed_request::{Outcome, Placed};
use super::router::{Prompt, Request, Router};
use crate::fleet::WorkerId;
use crate::prefix::{Chunks, Comparison, Event, Knowledge, LayerGroup};

/// One request in so many has its prediction compared with its answer.
const COMPARED_SHARE: u64 = 8;

impl Router {
    /// A worker reports its cache in blocks of this size.
    pub fn reports_by(&mut self, worker: WorkerId, block: BlockSize) {
        if let Some(known) = self.blocks.get_mut(worker.index()) {
            *known = Some(block);
        }
        if let Some(chunk) = self.chunks.get_mut(worker.index()) {
            *chunk = Tokens::new(block.get());
        }
    }

    /// The blocks in which workers that serve `model` report their caches; `None` if none does, and
    /// that prompt's tokens then are of no use to routing.
    pub fn reported_block(&self, model: &str) -> Option<BlockSize> {
        self.reporters(model).find_map(|id| self.blocks.get(id.index()).copied().flatten())
    }

    /// One of the workers that serve `model` and report their caches, drawn by `dice`.
    pub fn reporting(&self, model: &str, dice: u64) -> Option<WorkerId> {
        let count = self.reporters(model).count() as u64;
        self.reporters(model).nth(usize::try_from(dice.checked_rem(count)?).ok()?)
    }

    fn reporters(&self, model: &str) -> impl Iterator<Item = WorkerId> {
        let reports = |id: &WorkerId| {
            let worker = self.fleet.worker(*id);
            let known = self.prefixes.knowledge(*id);
            worker.health().is_up()
                && !worker.is_draining()
                && !matches!(known, Knowledge::Estimated { .. })
        };
        let serving = self.fleet.serving(model).unwrap_or_default();
        serving.iter().copied().filter(reports)
    }

    /// How often `worker` has lost its cache with its process: who follows its reports begins anew
    /// whenever that changes.
    pub fn cache_losses(&self, worker: WorkerId) -> u32 {
        self.cache_losses.get(worker.index()).copied().unwrap_or(0)
    }

    /// Takes in what a worker reported of its cache.
    pub fn cache_changed(&mut self, worker: WorkerId, event: Event<'_>) {
        self.group_changed(worker, LayerGroup::FIRST, event);
    }

    /// The same of one group of its layers.
    pub fn group_changed(&mut self, worker: WorkerId, group: LayerGroup, event: Event<'_>) {
        if self.fleet.is_member(worker) {
            self.prefixes.handle_group(worker, group, event);
        }
    }

    /// The process behind `worker` is another, or is gone: nothing is left of its cache.
    pub fn restarted(&mut self, worker: WorkerId) {
        self.prefixes.leave(worker);
        if let Some(losses) = self.cache_losses.get_mut(worker.index()) {
            *losses = losses.wrapping_add(1);
        }
    }

    /// What `worker` has reported of the prompt that was looked up last, for a sample of the requests. Nothing
    /// where the prompt is not known by its tokens, or a request in flight may store more of it meanwhile.
    pub(super) fn reported_sample(
        &self,
        worker: WorkerId,
        request: Request<'_>,
        pinned: u32,
    ) -> Option<Chunks> {
        let Prompt::Counted { chain, block, .. } = request.prompt else { return None };
        let is_drawn = request.dice.is_multiple_of(COMPARED_SHARE);
        if request.choices != 1 || !is_drawn && !self.prefixes.wants_comparison(worker) {
            return None;
        }
        // No source of it holds more than all of them together.
        let matched = self.matches().leading(worker).get() as usize;
        let known = chain.get(..matched).unwrap_or(chain);
        let reported = self.prefixes.reported_leading(worker, known);
        (pinned <= reported.get().saturating_mul(block.get())).then_some(reported)
    }

    /// Compares what a worker had reported with what its answer says that it found.
    pub(super) fn compare(&mut self, placed: &Placed, outcome: Outcome) {
        let Outcome { prompt: Some(prompt), cached: Some(cached), .. } = outcome else { return };
        let Some(predicted) = placed.reported else { return };
        let comparison = Comparison { predicted, chunk: placed.chunk, prompt, cached };
        self.prefixes.compared(placed.worker(), &comparison);
    }
}
