//! Tokens check: whether the keys of the issuer of tokens can be had.

use overdraft_config::Config;
use overdraft_gateway::issuer_keys;

use super::finding::{Finding, Report, Verdict};

/// Looks at the issuer's keys once; nothing where no issuer is named.
pub(super) async fn report(config: &Config) -> Option<Report> {
    let keys = crate::settings::gateway(config, Vec::new()).jwt?.keys;
    let finding = match issuer_keys(keys).await {
        Ok(count) => Finding::new("jwt", Verdict::Ok, format!("{count} keys of the issuer")),
        Err(why) => {
            let message = format!("the keys of the issuer cannot be had: {why}");
            Finding::new("jwt", Verdict::Fail, message).hint(
                "correct `jwt.jwks_url`, `jwks_file` or `ca_file`: until keys are known, tokens get 503",
            )
        }
    };
    Some(Report::of("tokens", vec![finding]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn keys_that_cannot_be_had_fail() {
        let verdict = async |place: &str| {
            let file = tempfile::NamedTempFile::with_suffix(".yaml").expect("a file");
            let jwt = format!("jwt: {{issuer: a, audience: b, {place}}}\n");
            let yaml = format!("workers: [{{url: 'http://127.0.0.1:1'}}]\n{jwt}");
            std::fs::write(file.path(), yaml).expect("it is written");
            let loaded = overdraft_config::Loader::new(file.path()).load();
            let config = loaded.unwrap_or_else(|errors| panic!("{errors}")).config;
            report(&config).await.expect("an issuer is named").verdict()
        };
        assert_eq!(verdict("jwks_file: /nowhere/keys.json").await, Verdict::Fail);
        assert_eq!(verdict("jwks_url: 'http://127.0.0.1:1/keys'").await, Verdict::Fail);
        let keys = tempfile::NamedTempFile::new().expect("a file");
        // RFC 8037, appendix A.2.
        let key = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
        std::fs::write(keys.path(), key).expect("it is written");
        assert_eq!(verdict(&format!("jwks_file: '{}'", keys.path().display())).await, Verdict::Ok);
    }
}
