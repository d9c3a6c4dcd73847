// Builds the page into ../dist. With --check it fails when what is committed differs from what would be built.
import { build } from "esbuild";
import { readFile, writeFile, mkdir } from "node:fs/promises";

const out = new URL("../dist/", import.meta.url);
const here = (path) => new URL(path, import.meta.url);

const bundled = await build({
  entryPoints: { dashboard: here("src/main.ts").pathname },
  bundle: true,
  minify: true,
  format: "iife",
  target: ["es2022"],
  outdir: out.pathname,
  write: false,
  legalComments: "none",
  charset: "utf8",
  logLevel: "warning",
});

const files = new Map();
for (const file of bundled.outputFiles) {
  files.set(file.path.split("/").pop(), file.text);
}
files.set("index.html", await readFile(here("src/index.html"), "utf8"));
files.set("icon.svg", await readFile(here("src/icon.svg"), "utf8"));
const licence = await readFile(here("node_modules/uplot/LICENSE"), "utf8");
files.set("licenses.txt", `The dashboard contains uPlot (https://github.com/leeoniya/uPlot), which is under the MIT licence:\n\n${licence}`);

if (process.argv.includes("--check")) {
  const stale = [];
  for (const [name, text] of files) {
    const committed = await readFile(new URL(name, out), "utf8").catch(() => "");
    if (committed !== text) stale.push(name);
  }
  if (stale.length > 0) {
    console.error(`out of date in crates/dash/dist: ${stale.join(", ")}; run \`cargo xtask dashboard\``);
    process.exit(1);
  }
} else {
  await mkdir(out, { recursive: true });
  for (const [name, text] of files) await writeFile(new URL(name, out), text);
  console.log([...files].map(([name, text]) => `${name} ${(text.length / 1024).toFixed(1)} kB`).join(", "));
}
