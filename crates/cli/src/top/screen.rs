//! Screen: what `overdraft top` shows, and what keys do to it.

use std::cmp::Reverse;

use overdraft_dash::views::{NowView, RequestRow, WorkerRow};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::widgets::TableState;

use super::link::{Answer, Shown};

/// What is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Page {
    Fleet,
    Requests,
    /// The decision about the request of that name.
    Why(String),
}

/// What workers are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Order {
    /// Those that are ill first, then the fullest.
    #[default]
    Worst,
    Name,
    Requests,
}

impl Order {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Worst => "worst first",
            Self::Name => "by name",
            Self::Requests => "by requests",
        }
    }

    const fn next(self) -> Self {
        match self {
            Self::Worst => Self::Name,
            Self::Name => Self::Requests,
            Self::Requests => Self::Worst,
        }
    }
}

/// The state of the screen.
#[derive(Debug)]
pub(super) struct Screen {
    page: Page,
    pub(super) now: NowView,
    pub(super) shown: Shown,
    pub(super) order: Order,
    /// The selected row of the table that is shown.
    pub(super) selected: TableState,
    /// Why nothing new came.
    pub(super) lost: Option<String>,
    is_held: bool,
    wants_news: bool,
}

impl Screen {
    pub(super) fn new(page: Page) -> Self {
        Self {
            page,
            now: NowView::default(),
            shown: Shown::default(),
            order: Order::default(),
            selected: TableState::default(),
            lost: None,
            is_held: false,
            wants_news: false,
        }
    }

    pub(super) const fn page(&self) -> &Page {
        &self.page
    }

    /// Whether what is shown stays.
    pub(super) const fn is_held(&self) -> bool {
        self.is_held
    }

    /// Whether another page is to be asked for at once.
    pub(super) const fn wants_news(&self) -> bool {
        self.wants_news
    }

    /// Takes in what the gateway said.
    pub(super) fn take(&mut self, answer: Answer) {
        (self.now, self.shown) = (answer.now, answer.shown);
        (self.lost, self.wants_news) = (None, false);
        self.sort();
    }

    /// The gateway said nothing; what is shown is old.
    pub(super) fn lose(&mut self, why: String) {
        (self.lost, self.wants_news) = (Some(why), false);
    }

    /// Does what a key says; false where it says quit.
    pub(super) fn handle_key(&mut self, key: KeyEvent) -> bool {
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
            KeyCode::Char('q') => return false,
            KeyCode::Char('f') => self.go(Page::Fleet),
            KeyCode::Char('r') => self.go(Page::Requests),
            KeyCode::Esc | KeyCode::Backspace if matches!(self.page, Page::Why(_)) => {
                self.go(Page::Requests);
            }
            KeyCode::Char('p') => self.is_held = !self.is_held,
            KeyCode::Char('s') => {
                self.order = self.order.next();
                self.sort();
            }
            KeyCode::Down | KeyCode::Char('j') => self.selected.select_next(),
            KeyCode::Up | KeyCode::Char('k') => self.selected.select_previous(),
            KeyCode::Home => self.selected.select_first(),
            KeyCode::End => self.selected.select_last(),
            KeyCode::Enter => {
                if let Some(row) = self.selected_request() {
                    let id = row.id.clone();
                    self.go(Page::Why(id));
                }
            }
            _ => {}
        }
        true
    }

    fn selected_request(&self) -> Option<&RequestRow> {
        let Shown::Requests(view) = &self.shown else { return None };
        view.rows.get(self.selected.selected()?)
    }

    fn go(&mut self, page: Page) {
        if self.page != page {
            self.page = page;
            self.selected = TableState::default();
            self.shown = Shown::Nothing;
            self.wants_news = true;
        }
    }

    fn sort(&mut self) {
        let Shown::Fleet(view) = &mut self.shown else { return };
        match self.order {
            Order::Worst => view.workers.sort_by_key(|row| Reverse(badness(row))),
            Order::Name => view.workers.sort_by(|one, other| one.worker.cmp(&other.worker)),
            Order::Requests => view.workers.sort_by_key(|row| Reverse(row.requests)),
        }
    }
}

/// How badly off a worker is: whether it is ill, then how full its cache is.
fn badness(row: &WorkerRow) -> (u8, u64) {
    let ill = match super::fleet::state(row) {
        ("!", _) => 2,
        ("~", _) => 1,
        _ => 0,
    };
    (ill, super::fleet::use_permille(row).unwrap_or(0))
}
