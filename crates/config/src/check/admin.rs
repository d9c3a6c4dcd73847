//! Admin validation: rejects tokens that no header carries, and names and addresses that cannot be asked.

use super::findings::Findings;
use crate::node::Step;
use crate::tree::Config;

pub(super) fn check(config: &Config, findings: &mut Findings<'_>) {
    token(config, findings);
    for (index, host) in config.admin.hosts.iter().enumerate() {
        let is_label = |label: &str| {
            !label.is_empty()
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        if !host.split('.').all(is_label) {
            let message = format!("`{host}` is not the name of a host");
            let expected = "expected one without scheme and port, as in `gateway.example.com`";
            findings.value(&path!["admin", "hosts", index], message, expected);
        }
    }
    if config.admin.listen.is_some_and(|listen| listen == config.listen && listen.port() != 0) {
        let message = format!("`admin.listen` is `{}`, where clients connect", config.listen);
        findings.value(&path!["admin", "listen"], message, "expected another address or port");
    }
}

/// An empty token is no secret. A header loses the blanks at its ends and has no line breaks, so one that ends with a
/// newline, as a file of a Secret may, would refuse every operator.
fn token(config: &Config, findings: &mut Findings<'_>) {
    let Some(token) = &config.admin.token else { return };
    let text = token.reveal();
    if text.is_empty() || text.trim() != text || text.chars().any(char::is_control) {
        let message = "`admin.token` cannot be presented in a header";
        let expected = "expected a secret without line breaks and without blanks at its ends, as \
                        `openssl rand -hex 32` prints";
        findings.value(&path!["admin", "token"], message, expected);
    }
}
