const dots = /[\u3002\uff0e\uff61]/g;
const name = String.raw`(?:[\p{L}\p{N}](?:[\p{L}\p{N}\p{M}_-]*[\p{L}\p{N}\p{M}])?\.)+[\p{L}\p{N}\p{M}-]{2,}`;
const start = new RegExp(`^${name}(?=$|[.]?$|[:/?#\\\\@,;!)\\]}>'"…])`, 'u');

const hostOf = (address: string): string | undefined => {
  try {
    const url = new URL(address);
    return url.hostname || url.pathname.split('@').at(-1)?.split(/[/?]/)[0]?.toLowerCase() || undefined;
  } catch {
    return undefined;
  }
};

const bare = (host: string): string => host.replace(/^www\./, '').replace(/\.$/, '');

/** hostsNamed returns the hosts that a text names, such as those of addresses in it. */
function hostsNamed(text: string): string[] {
  const plain = text.normalize('NFKC').replace(/[\p{Cf}\u3164\u115f\u1160]/gu, '').replace(dots, '.');
  const hosts: string[] = [];
  for (const word of plain.split(/[\s|]+/u)) {
    const address = /[a-z][a-z0-9+.-]*:[/\\]{2}.*/iu.exec(word)?.[0];
    const parts = address ? address.replace(/^[^:]*:[/\\]*/u, '').split(/[/\\?#]/u)[0]!.split('@') : word.split('@');
    for (const part of parts) {
      const named = start.exec(part.replace(/^[^\p{L}\p{N}]+/u, ''))?.[0];
      const host = named && hostOf(`http://${named}`);
      if (named) hosts.push(host ?? named);
    }
  }
  return hosts;
}

/**
 * hostBeside returns the host of a link whose text names another one, so that it can be shown beside the text; undefined: the text
 * names no other host.
 */
export function hostBeside(href: string, text: string): string | undefined {
  const host = hostOf(href);
  if (!host) return undefined;
  return hostsNamed(text).some((named) => bare(named) !== bare(host)) ? host : undefined;
}
