// The address: everything that a view shows is in it, so that a link is a view.

export interface Place { page: string; rest: string; params: URLSearchParams }

export function place(): Place {
  const hash = location.hash.replace(/^#\/?/, "");
  const cut = hash.indexOf("?");
  const path = cut < 0 ? hash : hash.slice(0, cut);
  const slash = path.indexOf("/");
  const page = slash < 0 ? path : path.slice(0, slash);
  const rest = slash < 0 ? "" : decodeURIComponent(path.slice(slash + 1));
  return { page: page === "" ? "now" : page, rest, params: new URLSearchParams(cut < 0 ? "" : hash.slice(cut + 1)) };
}

/** The address of a page with what it shows. */
export function to(page: string, params: Record<string, string | number | undefined> = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== undefined && value !== "") query.set(name, String(value));
  }
  const text = query.toString().replace(/\+/g, "%20");
  return `#/${page}${text === "" ? "" : `?${text}`}`;
}

export function toRequest(id: string): string {
  return `#/requests/${encodeURIComponent(id)}`;
}

/** Changes some of what the present page shows. */
export function change(params: Record<string, string | number | undefined>): void {
  const now = place();
  const next: Record<string, string> = Object.fromEntries(now.params);
  for (const [name, value] of Object.entries(params)) {
    if (value === undefined || value === "") delete next[name];
    else next[name] = String(value);
  }
  const rest = now.rest === "" ? "" : `/${encodeURIComponent(now.rest)}`;
  location.hash = to(now.page + rest, next).slice(1);
}
