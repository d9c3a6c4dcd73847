// A table that draws only the rows in sight, sorts by any column, and turns into cards on narrow screens.

import { h, setClass, setText } from "./dom";

export interface Column<T> {
  title: string;
  /** What the column means, as a tooltip of its head. */
  hint?: string;
  /** What it sorts by. */
  by: (row: T) => number | string | undefined;
  /** Fills the cell; by default with `text`. */
  cell?: (cell: HTMLElement, row: T) => void;
  text?: (row: T) => string;
  /** Numbers stand on the right. */
  right?: boolean;
  /** One of the four fields of a card. */
  card?: boolean;
  /** A class for width and style. */
  kind?: string;
}

interface Options<T> {
  columns: Column<T>[];
  key: (row: T) => string;
  href?: (row: T) => string;
  empty: string;
  label: string;
  /** Column and direction at the start. */
  sort?: { column: number; down: boolean };
  rowClass?: (row: T) => string;
  /** Rows that are shown without a scroll bar of their own, for short lists. */
  whole?: boolean;
}

const ROW = 34;
const CARD = 94;
const BEYOND = 6;

export class Table<T> {
  readonly element: HTMLElement;
  private readonly body = h("tbody");
  private readonly scroller: HTMLElement;
  private readonly heads: HTMLElement[] = [];
  private readonly above = h("tr", { class: "spacer", "aria-hidden": "true" }, h("td"));
  private readonly below = h("tr", { class: "spacer", "aria-hidden": "true" }, h("td"));
  private readonly none = h("tr", { class: "none" });
  private readonly narrow = window.matchMedia("(max-width: 640px)");
  private rows: T[] = [];
  private sorted: T[] = [];
  private drawn: HTMLTableRowElement[] = [];
  private sort: { column: number; down: boolean } | null;
  private selected = -1;

  constructor(private readonly options: Options<T>) {
    this.sort = options.sort ?? null;
    const head = h("tr");
    options.columns.forEach((column, index) => {
      const button = h("button", { type: "button", title: column.hint, onclick: () => this.sortBy(index) }, column.title);
      const cell = h("th", { scope: "col", class: this.kind(column) }, button);
      this.heads.push(cell);
      head.append(cell);
    });
    const table = h("table", { "aria-label": options.label }, h("thead", {}, head), this.body);
    this.scroller = h("div", { class: options.whole ? "table whole" : "table", tabindex: 0, role: "region", "aria-label": options.label }, table);
    this.scroller.addEventListener("scroll", () => this.draw(), { passive: true });
    this.narrow.addEventListener("change", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.scroller);
    this.none.append(h("td", { colspan: options.columns.length }, options.empty));
    this.element = this.scroller;
    this.mark();
  }

  set(rows: T[]): void {
    this.rows = rows;
    this.order();
    this.draw();
  }

  /** Moves the selection; the keyboard's way through the rows. */
  move(by: number): void {
    if (this.sorted.length === 0) return;
    this.selected = Math.max(0, Math.min(this.sorted.length - 1, this.selected + by));
    const height = this.height();
    const top = this.selected * height;
    const { scrollTop, clientHeight } = this.scroller;
    if (top < scrollTop) this.scroller.scrollTop = top;
    else if (top + 2 * height > scrollTop + clientHeight) this.scroller.scrollTop = top + 2 * height - clientHeight;
    this.draw();
  }

  open(): void {
    const row = this.sorted[this.selected];
    if (row !== undefined && this.options.href) location.hash = this.options.href(row).slice(1);
  }

  private kind(column: Column<T>): string {
    return [column.right ? "right" : "", column.card ? "card" : "", column.kind ?? ""].filter((one) => one !== "").join(" ");
  }

  private sortBy(column: number): void {
    this.sort = this.sort?.column === column ? { column, down: !this.sort.down } : { column, down: this.options.columns[column]?.right ?? false };
    this.mark();
    this.order();
    this.draw();
  }

  private mark(): void {
    this.heads.forEach((head, index) => {
      const state = this.sort?.column !== index ? "none" : this.sort.down ? "descending" : "ascending";
      head.setAttribute("aria-sort", state);
    });
  }

  private order(): void {
    const { sort } = this;
    const by = sort === null ? undefined : this.options.columns[sort.column]?.by;
    if (sort === null || by === undefined) {
      this.sorted = this.rows;
      return;
    }
    const sign = sort.down ? -1 : 1;
    this.sorted = [...this.rows].sort((one, other) => {
      const [a, b] = [by(one), by(other)];
      // What is unknown comes last in both directions.
      if (a === undefined || b === undefined) return a === b ? 0 : a === undefined ? 1 : -1;
      const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
      return sign * order;
    });
  }

  private height(): number {
    return this.narrow.matches ? CARD : ROW;
  }

  private draw(): void {
    const height = this.height();
    const { scrollTop, clientHeight } = this.scroller;
    const all = this.sorted.length;
    const first = this.options.whole ? 0 : Math.max(0, Math.floor(scrollTop / height) - BEYOND);
    const count = this.options.whole ? all : Math.min(all - first, Math.ceil((clientHeight || 600) / height) + 2 * BEYOND);
    while (this.drawn.length > Math.max(0, count)) this.drawn.pop()?.remove();
    while (this.drawn.length < count) this.drawn.push(this.blank());
    this.above.style.height = `${first * height}px`;
    this.below.style.height = `${Math.max(0, all - first - count) * height}px`;
    this.drawn.forEach((element, index) => this.fillRow(element, this.sorted[first + index] as T, first + index));
    const wanted = all === 0 ? [this.none] : [this.above, ...this.drawn, this.below];
    if (this.body.childElementCount !== wanted.length || this.body.firstElementChild !== wanted[0]) this.body.replaceChildren(...wanted);
  }

  private blank(): HTMLTableRowElement {
    const row = h("tr");
    for (const column of this.options.columns) row.append(h("td", { class: this.kind(column), "data-label": column.title }));
    if (this.options.href) {
      row.addEventListener("click", (event) => {
        const href = row.dataset["href"];
        if (href !== undefined && !(event.target instanceof HTMLAnchorElement)) location.hash = href.slice(1);
      });
    }
    return row;
  }

  private fillRow(element: HTMLTableRowElement, row: T, index: number): void {
    const href = this.options.href?.(row);
    if (href !== undefined && element.dataset["href"] !== href) element.dataset["href"] = href;
    const extra = this.options.rowClass?.(row) ?? "";
    setClass(element, [href === undefined ? "" : "opens", index === this.selected ? "selected" : "", extra].join(" ").trim());
    this.options.columns.forEach((column, at) => {
      const cell = element.children[at] as HTMLElement;
      if (column.cell) column.cell(cell, row);
      else setText(cell, column.text ? column.text(row) : String(column.by(row) ?? "–"));
    });
  }
}
