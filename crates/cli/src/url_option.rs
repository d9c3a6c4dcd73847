//! URL flag: `--url` beside the argument that names a gateway or a worker.

#[derive(clap::Args, Clone, Debug)]
pub(crate) struct UrlOption {
    /// The same as the argument URL
    #[arg(long = "url", value_name = "URL", conflicts_with = "url")]
    url_flag: Option<String>,
}

impl UrlOption {
    /// The address: the flag's, else the argument's.
    pub(crate) fn or<'a>(&'a self, argument: &'a str) -> &'a str {
        self.given(Some(argument)).unwrap_or_default()
    }

    /// The address that was given, if one was.
    pub(crate) fn given<'a>(&'a self, argument: Option<&'a str>) -> Option<&'a str> {
        self.url_flag.as_deref().or(argument)
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    /// Commands that ask a gateway or a worker, with the least that each needs besides.
    const ASKING: [&[&str]; 7] = [
        &["explain", "--prompt", "x"],
        &["tail"],
        &["top"],
        &["bench"],
        &["calibrate"],
        &["tune"],
        &["doctor"],
    ];

    fn refusal(command: &[&str], more: &[&str]) -> Option<String> {
        let typed = [&["overdraft"][..], command, more].concat();
        crate::Arguments::try_parse_from(typed).err().map(|error| error.to_string())
    }

    #[test]
    fn an_address_is_an_argument_or_a_flag_in_every_command_that_asks_one() {
        let url = "http://gateway:8080";
        for command in ASKING {
            assert_eq!(refusal(command, &[url]), None, "{command:?}");
            assert_eq!(refusal(command, &["--url", url]), None, "{command:?}");
        }
        // `explain` tells arguments from each other itself.
        for command in &ASKING[1..] {
            let both = refusal(command, &[url, "--url", url]).expect("one too many");
            assert!(both.contains("[URL]") && both.contains("--url <URL>"), "{both}");
        }
        let log = refusal(&["tail", "--log", "x"], &["--url", url]).expect("two sources");
        assert!(log.contains("--log <FILE>") && log.contains("--url <URL>"), "{log}");
        for command in ["calibrate", "tune"] {
            let none = refusal(&[command], &[]).expect("nobody is named");
            assert!(none.contains("required") && none.contains("URL"), "{none}");
        }
    }

    #[test]
    fn the_flag_is_the_same_in_every_command() {
        let overdraft = crate::Arguments::command();
        for command in ASKING {
            let asking = overdraft.find_subcommand(command[0]).expect("a command");
            let flag = asking.get_arguments().find(|one| one.get_long() == Some("url"));
            let help = flag.and_then(clap::Arg::get_help).map(ToString::to_string);
            assert_eq!(help.as_deref(), Some("The same as the argument URL"), "{command:?}");
        }
    }
}
