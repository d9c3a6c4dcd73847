// Asking the gateway. Views come below ../admin, so that any prefix a proxy has put before them works.

const TOKEN = "overdraft.token";

export class Refused extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

export function token(): string {
  return sessionStorage.getItem(TOKEN) ?? "";
}

/** Kept for this tab only; nothing is written to a cookie. */
export function setToken(value: string): void {
  if (value === "") sessionStorage.removeItem(TOKEN);
  else sessionStorage.setItem(TOKEN, value);
}

export function operatorHeaders(): Record<string, string> {
  return token() === "" ? {} : { "x-overdraft-admin": token() };
}

async function refused(response: Response): Promise<Refused> {
  const body: unknown = await response.json().catch(() => null);
  const message = (body as { error?: { message?: string } } | null)?.error?.message;
  return new Refused(response.status, message ?? `the gateway answered ${response.status}`);
}

/** One view, once. */
export async function view<T>(name: string, query = ""): Promise<T> {
  const response = await fetch(`../admin/views/${name}${query}`, { headers: operatorHeaders(), cache: "no-store" });
  if (!response.ok) throw await refused(response);
  return (await response.json()) as T;
}

export type LinkState = "connecting" | "live" | "broken" | "paused" | "refused";

/** A view once a second, until it is closed. It closes itself while nobody sees the page. */
export class Live<T> {
  private controller: AbortController | null = null;
  private closed = false;
  private timer = 0;
  private wait = 500;

  constructor(
    private readonly path: () => string,
    private readonly onData: (data: T) => void,
    private readonly onState: (state: LinkState, why?: string) => void,
  ) {
    document.addEventListener("visibilitychange", this.onVisibility);
    if (!document.hidden) this.open();
  }

  close(): void {
    this.closed = true;
    document.removeEventListener("visibilitychange", this.onVisibility);
    this.stop();
  }

  private readonly onVisibility = (): void => {
    if (document.hidden) this.stop();
    else this.open();
  };

  private stop(): void {
    window.clearTimeout(this.timer);
    this.controller?.abort();
    this.controller = null;
  }

  private open(): void {
    if (this.closed || this.controller !== null) return;
    const controller = new AbortController();
    this.controller = controller;
    this.onState("connecting");
    this.read(controller)
      .catch((error: unknown) => {
        if (controller.signal.aborted) return;
        if (error instanceof Refused && (error.status === 401 || error.status === 403)) {
          this.onState("refused", error.message);
          return;
        }
        this.again(error instanceof Error ? error.message : String(error));
      })
      .finally(() => {
        if (this.controller === controller) this.controller = null;
      });
  }

  private again(why: string): void {
    this.onState("broken", why);
    this.timer = window.setTimeout(() => this.open(), this.wait);
    this.wait = Math.min(this.wait * 2, 8_000);
  }

  private async read(controller: AbortController): Promise<void> {
    const response = await fetch(`../admin/events/${this.path()}`, {
      headers: operatorHeaders(), cache: "no-store", signal: controller.signal,
    });
    if (!response.ok || response.body === null) throw await refused(response);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let buffered = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) throw new Error("the stream ended");
      buffered += value;
      for (let end = buffered.indexOf("\n\n"); end >= 0; end = buffered.indexOf("\n\n")) {
        const event = buffered.slice(0, end);
        buffered = buffered.slice(end + 2);
        this.wait = 500;
        this.onState("live");
        if (event.startsWith("data: ")) this.onData(JSON.parse(event.slice(6)) as T);
      }
    }
  }
}
