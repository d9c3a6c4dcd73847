// What a page is to the shell.

import type { LinkState } from "../api";
import type { Place } from "../route";

export type { Place } from "../route";

export interface Shell {
  /** Shows whether data still comes. */
  state: (state: LinkState, why?: string) => void;
  /** The moment of the data that is shown, in milliseconds since 1970. */
  heard: (atMs: number) => void;
  paused: () => boolean;
}

export interface Page {
  /** The page's content. */
  element: HTMLElement;
  /** Called when it goes. */
  close?: () => void;
  /** Rows that the keyboard moves through. */
  move?: (by: number) => void;
  open?: () => void;
  /** Times are told in another zone; a page without it is made anew. */
  zoned?: () => void;
}

export type Maker = (place: Place, shell: Shell) => Page;
