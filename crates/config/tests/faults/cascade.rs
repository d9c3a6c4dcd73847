//! Cascades that could never answer, or that would hide what they are made of.

use crate::check;

#[test]
fn a_draft_that_is_its_own_target() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000', model: llama}]
cascades:
  llama: {draft: llama}
",
        &[],
        "
bad.yaml:3:18: `llama` is the draft and the target of `llama`
  |
3 |   llama: {draft: llama}
  |                  ^^^^^
  = expected a smaller model than the target
",
    );
}

#[test]
fn models_that_nobody_serves() {
    check(
        "bad.yaml",
        "workers:
  - {url: 'http://10.0.0.5:8000', model: llama-8b}
  - {url: 'http://10.0.0.6:8000', model: llama-1b}
cascades:
  chat: {draft: llama-1, target: llama-8b}
  other: {draft: llama-1b}
",
        &[],
        "
bad.yaml:5:17: no worker serves the model `llama-1`; did you mean `llama-1b`?
  |
5 |   chat: {draft: llama-1, target: llama-8b}
  |                 ^^^^^^^
  = expected a model that a worker of `workers` has as its `model`

bad.yaml:6:3: no worker serves the model `other`, and there is no `target`
  |
6 |   other: {draft: llama-1b}
  |   ^^^^^
  = expected the name of a model, or `target`: the model that answers
",
    );
}

#[test]
fn a_cascade_that_hides_a_model_or_an_alias() {
    check(
        "bad.yaml",
        "workers:
  - {url: 'http://10.0.0.5:8000', model: big}
  - {url: 'http://10.0.0.6:8000', model: small}
models: {big: {aliases: [chat]}}
cascades:
  chat: {draft: small, target: big}
  small: {draft: small, target: big}
",
        &[],
        "
bad.yaml:6:3: the cascade `chat` hides the alias of `big`
  |
6 |   chat: {draft: small, target: big}
  |   ^^^^
  = expected a model, or a name that is no alias

bad.yaml:7:3: the cascade `small` hides the model of that name
  |
7 |   small: {draft: small, target: big}
  |   ^^^^^
  = expected a name that no model has, or no `target`
",
    );
}

#[test]
fn figures_that_cannot_be_meant() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000'}]
cascades:
  chat:
    draft: small
    target: big
    loss: 0%
    window: {first: 0}
    shadow: {share: 1%, floor: 2%, at_once: 0}
",
        &[],
        "
bad.yaml:6:11: with a loss of `0%`, `chat` could give no draft's answer
  |
6 |     loss: 0%
  |           ^^
  = expected more than `0%`, or `mode: verify`

bad.yaml:7:21: a window of `0` tokens
  |
7 |     window: {first: 0}
  |                     ^
  = expected 1 to 4096

bad.yaml:8:32: `1%` of the requests are compared at first, and later `2%`
  |
8 |     shadow: {share: 1%, floor: 2%, at_once: 0}
  |                                ^^
  = expected `floor` to be at most `share`

bad.yaml:8:45: `0` comparisons at once
  |
8 |     shadow: {share: 1%, floor: 2%, at_once: 0}
  |                                             ^
  = expected 1 to 256; `share: 0%` compares nothing
",
    );
}

#[test]
fn a_mode_a_threshold_and_a_price_that_are_none() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000'}]
cascades: {chat: {draft: small, target: big, threshold: high}}
",
        &[],
        "
bad.yaml:2:57: `cascades.chat.threshold`: `high` is not a threshold
  |
2 | cascades: {chat: {draft: small, target: big, threshold: high}}
  |                                                         ^^^^
  = expected `auto`, or a share as in `60%`
",
    );
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000'}]
cascades:
  chat:
    draft: small
    target: big
    prices: {draft: {prompt: cheap, completion: 1}, target: {prompt: 1, completion: 1}}
",
        &[],
        "
bad.yaml:6:30: `cascades.chat.prices.draft.prompt`: `cheap` is not a price
  |
6 |     prices: {draft: {prompt: cheap, completion: 1}, target: {prompt: 1, completion: 1}}
  |                              ^^^^^
  = expected dollars, for a million tokens or an hour, as in `0.15`, at most `1000`
",
    );
}

#[test]
fn a_tenant_that_has_no_key() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000'}]
keys: [{key: abc, tenant: acme}]
cascades: {chat: {draft: small, target: big, tenants_out: [acne]}}
",
        &[],
        "
bad.yaml:3:60: no key is `acne`'s; did you mean `acme`?
  |
3 | cascades: {chat: {draft: small, target: big, tenants_out: [acne]}}
  |                                                            ^^^^
  = expected the `tenant` of one of `keys`
",
    );
}

#[test]
fn what_a_mode_makes_nothing_of() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000'}]
cascades:
  chat: {draft: small, target: big, mode: verify, prefill_from: 512, shadow: {labels: judge}}
",
        &[],
        "
bad.yaml:3:65: the target reads no prompt beside a draft in this mode
  |
3 |   chat: {draft: small, target: big, mode: verify, prefill_from: 512, shadow: {labels: judge}}
  |                                                                 ^^^
  = expected `mode: gate`, or no `prefill_from`

bad.yaml:3:87: verified answers are compared by their tokens, and nobody judges
  |
3 |   chat: {draft: small, target: big, mode: verify, prefill_from: 512, shadow: {labels: judge}}
  |                                                                                       ^^^^^
  = expected `match`, or another `mode`
",
    );
}

#[test]
fn only_verified_drafts_are_scored() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000'}]
cascades:
  chat: {draft: small, target: big, scoring: sglang}
",
        &[],
        "
bad.yaml:3:46: the target scores no drafts in this mode
  |
3 |   chat: {draft: small, target: big, scoring: sglang}
  |                                              ^^^^^^
  = expected `mode: verify`, or no `scoring`
",
    );
}

#[test]
fn a_canary_of_nobody_of_itself_and_of_nothing() {
    check(
        "bad.yaml",
        "workers:
  - {url: 'http://10.0.0.5:8000', model: llama-8b}
canaries:
  llama-8b: {model: llama-8b-fp8, share: 0%}
  chat: {model: chat, share: 5%}
  old: {model: chat, share: 5%}
",
        &[],
        "
bad.yaml:4:21: no worker serves the model `llama-8b-fp8`, and no cascade has that name; did you mean `llama-8b`?
  |
4 |   llama-8b: {model: llama-8b-fp8, share: 0%}
  |                     ^^^^^^^^^^^^
  = expected a model, an alias or a cascade

bad.yaml:4:42: a canary with a share of `0%` tries nothing
  |
4 |   llama-8b: {model: llama-8b-fp8, share: 0%}
  |                                          ^^
  = expected more than 0 %; leave the canary out to try nothing

bad.yaml:5:17: `chat` is tried against itself
  |
5 |   chat: {model: chat, share: 5%}
  |                 ^^^^
  = expected another model or cascade

bad.yaml:6:16: `chat` is being compared with another itself
  |
6 |   old: {model: chat, share: 5%}
  |                ^^^^
  = expected a model or cascade without a canary
",
    );
}
