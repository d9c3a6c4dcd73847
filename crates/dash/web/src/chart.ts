// Graphs over time: uPlot with the page's colours, marks for what happened, and a click that leads to the requests.

import uPlot from "uplot";
import { h, setText } from "./dom";
import { clock, minutes, zone } from "./format";

export interface Line { label: string; colour: string; dash?: number[]; fill?: boolean }

interface Options {
  title: string;
  unit: string;
  lines: Line[];
  format: (value: number) => string;
  /** The upper end of the scale, where it is fixed. */
  max?: number;
  /** Levels to draw across. */
  levels?: { value: number; label: string }[];
  /** Leads from a moment to what is behind it. */
  onPick?: (ms: number) => void;
}

/** Steps of the scale: counts, milliseconds and percents are told in whole ones. */
const STEPS = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000].flatMap((power) => [power, 2 * power, 5 * power]);

function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

export class Chart {
  readonly element: HTMLElement;
  private plot: uPlot | null = null;
  private readonly host = h("div", { class: "plot" });
  private readonly values: HTMLElement[];
  private data: uPlot.AlignedData = [[]];
  private marks: { at: number; text: string }[] = [];
  private readonly markText = h("span", { class: "mark-text" });

  constructor(private readonly options: Options) {
    this.values = options.lines.map(() => h("b"));
    const legend = h("div", { class: "legend" });
    options.lines.forEach((line, index) => {
      const swatch = h("i", { class: line.dash ? "swatch dashed" : "swatch", "aria-hidden": "true" });
      swatch.style.color = `var(--${line.colour})`;
      legend.append(h("span", {}, swatch, line.label, " ", this.values[index]));
    });
    this.element = h("figure", { class: "chart" },
      h("figcaption", {}, h("span", { class: "chart-title" }, options.title), h("span", { class: "dim" }, options.unit)),
      this.host, legend, this.markText);
    new ResizeObserver(() => this.resize()).observe(this.host);
    window.addEventListener("overdraft-theme", this.rebuild);
  }

  destroy(): void {
    window.removeEventListener("overdraft-theme", this.rebuild);
    this.plot?.destroy();
  }

  /** Times in milliseconds since 1970, then a column of values for each line. */
  set(times: number[], columns: (number | null)[][], marks: { at: number; text: string }[] = []): void {
    this.data = [times.map((ms) => ms / 1_000), ...columns] as uPlot.AlignedData;
    this.marks = marks;
    columns.forEach((column, index) => {
      const last = column[column.length - 1];
      const cell = this.values[index];
      if (cell !== undefined) setText(cell, last === null || last === undefined ? "–" : this.options.format(last));
    });
    if (this.plot === null) this.rebuild();
    else this.plot.setData(this.data);
  }

  private readonly rebuild = (): void => {
    this.plot?.destroy();
    this.plot = null;
    if (this.host.clientWidth === 0) return;
    this.plot = new uPlot(this.settings(), this.data, this.host);
  };

  private resize(): void {
    if (this.plot === null) this.rebuild();
    else this.plot.setSize({ width: this.host.clientWidth, height: 132 });
  }

  private settings(): uPlot.Options {
    const [grid, text] = [colour("line"), colour("dim")];
    const { lines, format, max, levels } = this.options;
    const axis = { stroke: text, grid: { stroke: grid, width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const options: uPlot.Options = {
      width: this.host.clientWidth,
      height: 132,
      legend: { show: false },
      cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false }, focus: { prox: 24 } },
      scales: { x: { time: true }, y: { range: (_plot, _low, high) => [0, max ?? Math.max(2, (high || 0) * 1.1)] } },
      axes: [
        { ...axis, space: 64, size: 22, incrs: [60, 120, 300, 600, 1_800], values: (_plot, ticks) => ticks.map((tick) => minutes(tick * 1_000)) },
        { ...axis, size: 58, space: 34, incrs: STEPS, values: (_plot, ticks) => ticks.map((tick) => format(tick)) },
      ],
      series: [
        {},
        ...lines.map((line) => ({
          label: line.label, stroke: colour(line.colour), width: 1.6, spanGaps: false, points: { show: false },
          ...(line.dash ? { dash: line.dash } : {}),
          ...(line.fill ? { fill: `${colour(line.colour)}22` } : {}),
        })),
      ],
      hooks: {
        draw: [(plot) => this.drawOver(plot, levels ?? [])],
        setCursor: [(plot) => this.showAt(plot)],
      },
    };
    const pick = this.options.onPick;
    if (pick) {
      options.hooks = { ...options.hooks, ready: [(plot) => {
        plot.over.style.cursor = "pointer";
        plot.over.addEventListener("click", () => {
          const at = plot.cursor.idx === undefined || plot.cursor.idx === null ? undefined : plot.data[0][plot.cursor.idx];
          if (at !== undefined) pick(at * 1_000);
        });
      }] };
    }
    return options;
  }

  private drawOver(plot: uPlot, levels: { value: number; label: string }[]): void {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.setLineDash([4, 4]);
    ctx.strokeStyle = colour("watch");
    ctx.fillStyle = colour("dim");
    ctx.lineWidth = 1;
    for (const level of levels) {
      const y = plot.valToPos(level.value, "y", true);
      if (y < bbox.top) continue;
      ctx.beginPath();
      ctx.moveTo(bbox.left, y);
      ctx.lineTo(bbox.left + bbox.width, y);
      ctx.stroke();
    }
    ctx.strokeStyle = colour("mark");
    for (const mark of this.marks) {
      const x = plot.valToPos(mark.at / 1_000, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  }

  private showAt(plot: uPlot): void {
    const index = plot.cursor.idx;
    const at = index === undefined || index === null ? this.data[0].length - 1 : index;
    this.values.forEach((cell, line) => {
      const value = this.data[line + 1]?.[at];
      setText(cell, value === null || value === undefined ? "–" : this.options.format(value));
    });
    const time = (this.data[0][at] ?? 0) * 1_000;
    const near = this.marks.filter((mark) => Math.abs(mark.at - time) < 3_000).map((mark) => mark.text);
    const shown = index === undefined || index === null ? "" : `${clock(time, false)} ${zone()}`;
    setText(this.markText, [shown, ...near].filter((one) => one !== "").join("; "));
  }
}
