// DOM helpers. Text enters the page as text nodes only, so no name that a client chose can become markup.

export type Child = Node | string | number | null | undefined | false;
type Props = Record<string, string | number | boolean | ((event: Event) => void) | undefined>;

/** Makes an element; properties that begin with `on` are listeners, the rest are attributes. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  props: Props = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  add(element, ...children);
  return element;
}

/** Appends children; what is nothing is left out. */
export function add(parent: Element, ...children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** Replaces all children. */
export function fill(parent: Element, ...children: Child[]): void {
  parent.replaceChildren();
  add(parent, ...children);
}

/** Makes the children equal to these and keeps the elements that are there already, so that what has the focus or is
 * selected stays so while figures change. For parts without listeners. */
export function renew(parent: Element, ...children: Child[]): void {
  become(parent, h("div", {}, ...children));
}

function become(from: Element, to: Element): void {
  const [old, wanted] = [[...from.childNodes], [...to.childNodes]];
  wanted.forEach((next, index) => {
    const now = old[index];
    if (now === undefined) from.append(next);
    else if (now instanceof HTMLElement && next instanceof HTMLElement && now.tagName === next.tagName) {
      takeAttributes(now, next);
      become(now, next);
    } else if (now instanceof Text && next instanceof Text) {
      if (now.data !== next.data) now.data = next.data;
    } else now.replaceWith(next);
  });
  for (const gone of old.slice(wanted.length)) gone.remove();
}

function takeAttributes(from: HTMLElement, to: HTMLElement): void {
  for (const { name } of [...from.attributes]) if (!to.hasAttribute(name)) from.removeAttribute(name);
  for (const { name, value } of to.attributes) {
    // The page's policy forbids styles as attributes, not as properties.
    if (name === "style") from.style.cssText = to.style.cssText;
    else if (from.getAttribute(name) !== value) from.setAttribute(name, value);
  }
}

/** Sets the text where it differs: most cells stay as they are from one second to the next. */
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/** Sets a class where it differs. */
export function setClass(element: Element, name: string): void {
  if (element.className !== name) element.className = name;
}

/** A link to a place on the page. */
export function link(href: string, ...children: Child[]): HTMLAnchorElement {
  return h("a", { href }, ...children);
}
