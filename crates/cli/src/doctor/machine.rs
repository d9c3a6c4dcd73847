//! Machine section: system, processors, memory and the limits that hold for this process.
//!
//! All of it is read from files of Linux; elsewhere the lines are fewer.

use rustix::process::{Resource, getrlimit};
use serde_json::{Value, json};

use super::section::{Section, bytes};
use super::{cgroup, read};

/// Instruction sets that the embedded engine chooses its kernels by, as `/proc/cpuinfo` spells them.
const INSTRUCTIONS: [&str; 11] = [
    "avx2",
    "fma",
    "f16c",
    "avx512f",
    "avx512bw",
    "avx512_vnni",
    "avx512_bf16",
    "amx_tile",
    "asimd",
    "asimddp",
    "i8mm",
];

/// What this process runs on.
pub(super) fn section() -> Section {
    let mut section = Section::new("machine");
    let release = read("/etc/os-release").and_then(|text| name_of(&text));
    let kernel = read("/proc/sys/kernel/osrelease");
    let kernel = kernel.as_deref().map_or("not known", str::trim);
    let system = release.as_deref().unwrap_or(std::env::consts::OS);
    section.line("system", format!("{system}, kernel {kernel}"));
    section.set("system", system);
    section.set("kernel", kernel);
    processors(&mut section);
    memory(&mut section);
    limits(&mut section);
    if let Some(driver) = read("/proc/driver/nvidia/version") {
        section.fact("gpu_driver", driver.lines().next().unwrap_or_default());
    }
    section
}

fn processors(section: &mut Section) {
    let usable = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let info = read("/proc/cpuinfo").unwrap_or_default();
    let (model, known) = (field(&info, "model name"), instructions(&info));
    let model = model.unwrap_or("not known");
    section.line("processors", format!("{usable} usable, {model}; {}", known.join(" ")));
    section.set("processors", usable);
    section.set("processor", model);
    section.set("instructions", known);
}

fn memory(section: &mut Section) {
    let info = read("/proc/meminfo").unwrap_or_default();
    let of = |name| field(&info, name).and_then(kibibytes);
    let (all, free) = (of("MemTotal"), of("MemAvailable"));
    if let (Some(all), Some(free)) = (all, free) {
        section.line("memory", format!("{}, {} available", bytes(all), bytes(free)));
    }
    section.set("memory_bytes", json!(all));
    section.set("memory_available_bytes", json!(free));
}

fn limits(section: &mut Section) {
    let limits = cgroup::limits();
    section.line("cgroup", limits.text());
    section.set("cgroup", limits.view());
    let files = getrlimit(Resource::Nofile);
    let word = |limit: Option<u64>| limit.map_or("unlimited".to_owned(), |one| one.to_string());
    let (soft, hard) = (word(files.current), word(files.maximum));
    section.line("open files", format!("{soft}, at most {hard}"));
    section.set("open_files", json!({ "soft": files.current, "hard": files.maximum }));
    let number = |path| Some(read(path)?.split_whitespace().collect::<Vec<_>>().join(" to "));
    let backlog = number("/proc/sys/net/core/somaxconn");
    let ports = number("/proc/sys/net/ipv4/ip_local_port_range");
    if let (Some(backlog), Some(ports)) = (&backlog, &ports) {
        section.line("sockets", format!("backlog {backlog}, local ports {ports}"));
    }
    section.set("socket_backlog", json!(backlog));
    section.set("local_ports", Value::from(ports));
}

/// What a distribution calls itself.
fn name_of(text: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(line.trim_matches('"').to_owned())
}

/// The value of `name : value`, of the first line that has it.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

fn kibibytes(text: &str) -> Option<u64> {
    text.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn instructions(info: &str) -> Vec<&'static str> {
    let line = field(info, "flags").or_else(|| field(info, "Features")).unwrap_or_default();
    let has = |one: &&str| line.split_whitespace().any(|flag| flag == *one);
    INSTRUCTIONS.into_iter().filter(has).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_linux_are_read() {
        let info = "processor\t: 0\nmodel name\t: Some CPU @ 2.0GHz\nflags\t\t: fpu avx2 fma\n";
        assert_eq!(field(info, "model name"), Some("Some CPU @ 2.0GHz"));
        assert_eq!(instructions(info), ["avx2", "fma"]);
        assert_eq!(instructions("Features\t: fp asimd i8mm\n"), ["asimd", "i8mm"]);
        let memory = "MemTotal:        8131072 kB\nMemFree: 1 kB\n";
        assert_eq!(field(memory, "MemTotal").and_then(kibibytes), Some(8_326_217_728));
        let release = "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n";
        assert_eq!(name_of(release).as_deref(), Some("Debian GNU/Linux 12"));
    }
}
