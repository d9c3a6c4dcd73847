//! Settings in force: what every layer reads, replaced as a whole by a reload.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};

use super::{GatewaySettings, Routes};

/// The settings in force and what is derived from them.
#[derive(Debug)]
pub(crate) struct LiveSettings {
    settings: ArcSwap<GatewaySettings>,
    routes: ArcSwap<Routes>,
}

impl LiveSettings {
    /// Starts with `settings`, which have been checked.
    pub(crate) fn new(settings: GatewaySettings) -> Self {
        let routes = Routes::new(settings.routing.clone(), &settings.cascades);
        Self { settings: ArcSwap::from_pointee(settings), routes: ArcSwap::from_pointee(routes) }
    }

    /// The settings now; for a moment's look. Every request looks a dozen times, and counting who looks
    /// would have all threads write to one place.
    pub(crate) fn settings(&self) -> Guard<Arc<GatewaySettings>> {
        self.settings.load()
    }

    /// How requests are routed now; for a moment's look.
    pub(crate) fn routes(&self) -> Guard<Arc<Routes>> {
        self.routes.load()
    }

    /// Puts other routes in force.
    pub(crate) fn replace_routes(&self, routes: Routes) {
        self.routes.store(Arc::new(routes));
    }

    /// Puts other settings in force; requests that are under way keep theirs.
    pub(crate) fn replace(&self, settings: GatewaySettings) {
        self.settings.store(Arc::new(settings));
    }
}
