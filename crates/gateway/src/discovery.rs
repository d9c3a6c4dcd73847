//! placeholder until the merge
use crate::settings::WorkerSettings;
use tokio::sync::mpsc;
#[derive(Clone, Debug, PartialEq)]
pub enum Discovery {}
pub(crate) struct Membership {
    pub(crate) source: usize,
    pub(crate) workers: Vec<WorkerSettings>,
}
pub(crate) async fn watch(_: usize, _: Discovery, _: mpsc::Sender<Membership>) {}
pub(crate) fn is_same(a: &[Discovery], b: &[Discovery]) -> bool {
    a == b
}
