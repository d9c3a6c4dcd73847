//! How a worker is asked to score.

use overdraft_units::{Instant, Micros};

use super::super::{Abilities, BLANKS_MAX, Path, REFUSED_FOR, Server};

const NOW: Instant = Instant::ORIGIN;

fn of(server: Server) -> Abilities {
    let mut abilities = Abilities::default();
    abilities.runs(server);
    abilities
}

#[test]
fn a_worker_is_asked_the_cheapest_way_that_it_has() {
    let path = |server| of(server).path(None, NOW);
    assert_eq!(path(Server::Unknown), Path::Completions);
    assert_eq!(path(Server::Vllm(0, 30)), Path::Completions);
    assert_eq!(path(Server::Vllm(0, 31)), Path::Generate);
    assert_eq!(path(Server::Vllm(1, 0)), Path::Generate);
    assert_eq!(path(Server::Sglang), Path::Sglang);
    // What was settled is done.
    assert_eq!(of(Server::Vllm(0, 33)).path(Some(Path::Completions), NOW), Path::Completions);
    assert_eq!(of(Server::Unknown).path(Some(Path::Generate), NOW), Path::Generate);
}

#[test]
fn who_refuses_a_way_is_asked_the_portable_one_for_a_while() {
    let mut abilities = of(Server::Sglang);
    let refused = NOW + Micros::new(5);
    abilities.refuses(Path::Sglang, refused);
    let just = REFUSED_FOR.checked_sub(Micros::new(1)).unwrap();
    assert_eq!(abilities.path(None, refused + just), Path::Completions);
    assert_eq!(abilities.path(Some(Path::Sglang), refused + just), Path::Completions);
    assert_eq!(abilities.path(None, refused + REFUSED_FOR), Path::Sglang);
    // One way is not the other.
    assert_eq!(abilities.path(Some(Path::Generate), refused), Path::Generate);
    // The portable way is all that is left; that it failed changes nothing.
    abilities.refuses(Path::Completions, refused);
    assert_eq!(abilities.path(None, refused), Path::Completions);
}

#[test]
fn who_tells_nothing_again_and_again_is_asked_the_portable_way() {
    let mut abilities = of(Server::Vllm(0, 33));
    for told in [false, false, true].repeat(5) {
        abilities.answers(Path::Generate, told, NOW);
        assert_eq!(abilities.path(None, NOW), Path::Generate);
    }
    for _ in 0..BLANKS_MAX {
        assert_eq!(abilities.path(None, NOW), Path::Generate);
        abilities.answers(Path::Generate, false, NOW);
        // What the portable way then told says nothing of this one.
        abilities.answers(Path::Completions, true, NOW);
    }
    assert_eq!(abilities.path(None, NOW), Path::Completions);
    // Later it is tried as often again.
    let later = NOW + REFUSED_FOR;
    abilities.answers(Path::Generate, false, later);
    assert_eq!(abilities.path(None, later), Path::Generate);
}
