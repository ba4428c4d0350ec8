import { t } from '../../lib/i18n';

/** linesOf gives the lines of a text that are not empty. */
export const linesOf = (text: string): string[] => text.split('\n').map((line) => line.trim()).filter(Boolean);

const mark = (sign: string): string => (sign === ':' ? 'Name: value' : 'NAME=value');

/** pairsOf reads names and values, one pair a line; the value may have the sign in it. */
export function pairsOf(text: string, sign: ':' | '='): Record<string, string> {
  const pairs: Record<string, string> = {};
  for (const line of linesOf(text)) {
    const other = sign === ':' ? '=' : ':';
    const at = line.includes(sign) ? line.indexOf(sign) : line.indexOf(other);
    const name = line.slice(0, Math.max(0, at)).trim();
    if (!name) throw new Error(t('“{line}” must have the form {mark}.', { line: line.slice(0, 40), mark: mark(sign) }));
    pairs[name] = line.slice(at + 1).trim();
  }
  return pairs;
}

/** textOfPairs is what pairsOf reads. */
export const textOfPairs = (pairs: Record<string, string>): string =>
  Object.entries(pairs)
    .map(([name, value]) => `${name}=${value}`)
    .join('\n');
