//! `overdraft top`: the dashboard in a terminal, over the same JSON views.
//!
//! It asks a running gateway once a second and draws fleet, requests, or the decision about one request;
//! it works in 80 columns and 24 lines. Nothing is changed anywhere. Control characters in names are
//! dropped by the terminal library, so no name can move the cursor.

mod draw;
mod fleet;
mod link;
mod requests;
mod screen;
#[cfg(test)]
mod tests;
mod why;

use std::io::IsTerminal;
use std::time::Duration;

use overdraft_telemetry::Clock;
use overdraft_units::{Instant, Micros};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use self::link::Link;
use self::screen::{Page, Screen};
use crate::fault::Fault;
use crate::gateway_error::GatewayError;
use crate::url_option::UrlOption;
use crate::view_client::ViewClient;

/// How often the gateway is asked.
const INTERVAL: Micros = Micros::new(1_000_000);

/// How long a key may go unseen while nothing comes.
const KEY_PATIENCE: Duration = Duration::from_millis(100);

/// The size of a frame that is printed.
const PRINTED: (u16, u16) = (120, 40);

#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The gateway
    #[arg(default_value = "http://127.0.0.1:8080", value_name = "URL")]
    url: String,
    #[command(flatten)]
    url_option: UrlOption,
    /// The gateway's `admin.token`, where it has one
    #[arg(long, env = "OVERDRAFT_ADMIN_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    token: Option<String>,
    /// The page to begin with
    #[arg(long, default_value = "fleet", value_name = "PAGE")]
    page: First,
    /// Shows why this request went where it went
    #[arg(long, value_name = "ID", conflicts_with = "page")]
    request: Option<String>,
    /// Prints one frame and ends
    #[arg(long)]
    once: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum First {
    Fleet,
    Requests,
}

const EXAMPLES: &str = "\
Examples:
  overdraft top                                    # the gateway on this machine
  overdraft top http://gateway:8080 --token $TOKEN
  overdraft top --page requests --once | head -20
  overdraft top --request req_7f3a                 # why did it go there?

Keys: f fleet, r requests, arrows or j k move, Enter why, s sort, p hold, q quit.
Exit codes: 0 done, 1 the gateway cannot be asked, 2 the arguments cannot be used.";

/// Asks and draws until somebody quits.
pub(crate) fn run(arguments: Arguments) -> Result<(), Fault> {
    let url = arguments.url_option.or(&arguments.url);
    let link = Link::new(ViewClient::new(url, arguments.token.as_deref())?);
    let page = match (arguments.request, arguments.page) {
        (Some(id), _) => Page::Why(id),
        (None, First::Fleet) => Page::Fleet,
        (None, First::Requests) => Page::Requests,
    };
    let mut screen = Screen::new(page);
    let runtime = crate::runtime::runtime()?;
    let first = runtime.block_on(link.ask(screen.page()));
    screen.take(first.map_err(|error| error.fault(url))?);
    if arguments.once || !std::io::stdout().is_terminal() {
        return crate::config::print(&printed(&mut screen));
    }
    let mut ask = |page: &Page| runtime.block_on(link.ask(page));
    let mut terminal = ratatui::init();
    let ended = watch(&mut terminal, &mut screen, &mut ask);
    ratatui::restore();
    ended.map_err(|error| Fault::running(format!("the terminal cannot be used: {error}")))
}

/// Draws, listens to keys, and asks anew each second.
fn watch(
    terminal: &mut ratatui::DefaultTerminal,
    screen: &mut Screen,
    ask: &mut dyn FnMut(&Page) -> Result<link::Answer, GatewayError>,
) -> std::io::Result<()> {
    let clock = Clock::start();
    let mut asked: Instant = clock.now();
    loop {
        terminal.draw(|frame| draw::draw(frame, screen))?;
        if event::poll(KEY_PATIENCE)? {
            if let Event::Key(key) = event::read()?
                && key.kind == KeyEventKind::Press
                && !screen.handle_key(key)
            {
                return Ok(());
            }
            // A key that was held down has more to say.
            continue;
        }
        let is_due = INTERVAL <= clock.now().since(asked) && !screen.is_held();
        if is_due || screen.wants_news() {
            asked = clock.now();
            match ask(screen.page()) {
                Ok(answer) => screen.take(answer),
                Err(error) => screen.lose(error.to_string()),
            }
        }
    }
}

/// One frame as text.
fn printed(screen: &mut Screen) -> String {
    let (width, height) = PRINTED;
    frame(screen, width, height)
}

/// A frame of that size as lines of text without what is blank at their ends.
fn frame(screen: &mut Screen, width: u16, height: u16) -> String {
    let mut terminal =
        Terminal::new(TestBackend::new(width, height)).expect("memory can be drawn on");
    terminal.draw(|frame| draw::draw(frame, screen)).expect("memory can be drawn on");
    let buffer = terminal.backend().buffer();
    let line = |row: u16| {
        let cells = (0..width).map(|column| buffer[(column, row)].symbol());
        cells.collect::<String>().trim_end().to_owned()
    };
    let lines: Vec<String> = (0..height).map(line).collect();
    lines.join("\n").trim_end().to_owned() + "\n"
}
