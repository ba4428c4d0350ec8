import { Plus, Trash2 } from 'lucide-react';
import { t } from '../../lib/i18n';
import { Button, IconButton } from '../../ui/button';
import { Area, Input } from '../../ui/field';

/** Pair is a row of named texts. */
export interface Pair {
  name: string;
  value: string;
}

/** pairsOf returns rows in the order of the names. */
export const pairsOf = (values: Record<string, string> | null | undefined): Pair[] =>
  Object.keys(values ?? {}).sort().map((name) => ({ name, value: values?.[name] ?? '' }));

/** valuesOf returns the named texts of rows; empty rows are left out. */
export function valuesOf(rows: readonly Pair[]): { values: Record<string, string>; fault?: string } {
  const values: Record<string, string> = {};
  for (const { name: written, value } of rows) {
    const name = written.trim();
    if (!name && !value) continue;
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) return { values, fault: t('Names of inputs must be letters, digits and _.') };
    if (Object.hasOwn(values, name)) return { values, fault: t('{name} is there twice.', { name }) };
    values[name] = value;
  }
  return { values };
}

/** Pairs edits named texts. */
export function Pairs({ rows, change, add }: { rows: readonly Pair[]; change: (rows: Pair[]) => void; add: string }) {
  const set = (index: number, part: Partial<Pair>) => change(rows.map((row, at) => (at === index ? { ...row, ...part } : row)));
  return (
    <div className="space-y-2">
      {rows.map((row, index) => (
        <div key={index} className="flex items-start gap-1.5">
          <Input
            aria-label={t('Name of input {number}', { number: index + 1 })}
            placeholder={t('name')}
            spellCheck={false}
            maxLength={64}
            className="w-2/5 font-mono"
            value={row.name}
            onChange={(event) => set(index, { name: event.target.value })}
          />
          <Area
            aria-label={t('Value of input {number}', { number: index + 1 })}
            placeholder={t('value')}
            rows={1}
            className="min-h-8! py-1"
            maxLength={10_000}
            value={row.value}
            onChange={(event) => set(index, { value: event.target.value })}
            dir="auto"
          />
          <IconButton
            label={t('Remove input {number}', { number: index + 1 })}
            onClick={() => change(rows.filter((_, at) => at !== index))}
          >
            <Trash2 size={15} />
          </IconButton>
        </div>
      ))}
      <Button small onClick={() => change([...rows, { name: '', value: '' }])}>
        <Plus size={14} aria-hidden />
        {add}
      </Button>
    </div>
  );
}
