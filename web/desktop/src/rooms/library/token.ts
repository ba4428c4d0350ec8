/** tokenOf finds the token of a public link in its address; what is no address is the token itself. */
export function tokenOf(link: string): string {
  const text = link.trim();
  return /\/share\/([^/?#]+)/.exec(text)?.[1] ?? text;
}
