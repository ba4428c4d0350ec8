import { t } from '../../lib/i18n';

/** Variable is a row of the form. */
export interface Variable {
  name: string;
  value: string;
}

/** rowsOf makes rows of an environment, in the order of the names. */
export const rowsOf = (env: Record<string, string>): Variable[] =>
  Object.keys(env)
    .sort()
    .map((name) => ({ name, value: env[name] ?? '' }));

/** envOf makes an environment of the rows; rows without anything are left out. */
export function envOf(rows: readonly Variable[]): { env: Record<string, string>; fault?: string } {
  const env: Record<string, string> = {};
  for (const { name: written, value } of rows) {
    const name = written.trim();
    if (!name && !value) continue;
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name))
      return { env, fault: name ? t('{name} is not a valid variable name: use letters, digits and _.', { name }) : t('A value has no name.') };
    if (Object.hasOwn(env, name)) return { env, fault: t('{name} is there twice.', { name }) };
    env[name] = value;
  }
  return { env };
}
