import { t } from '../../lib/i18n';
import { Area, Check, Field, Input, Select } from '../../ui/field';
import type { InputField } from './inputs';

/** InputFields is the form of a run's inputs. */
export function InputFields({ fields, texts, errors, change }: {
  fields: readonly InputField[]; texts: Readonly<Record<string, string>>; errors: Readonly<Record<string, string>>;
  change: (texts: Record<string, string>) => void;
}) {
  return fields.map(({ name, type, options, required, hint, initial }) => {
    const value = texts[name] ?? initial;
    const put = (text: string) => change({ ...texts, [name]: text });
    if (type === 'boolean')
      return <Check key={name} label={name} hint={hint} checked={value === 'true'} onChange={(event) => put(String(event.target.checked))} />;
    return (
      <Field key={name} label={required ? name : t('{name} (optional)', { name })} error={errors[name]} hint={hint}>
        {(ids) =>
          options && type === 'string' ? (
            <Select {...ids} required={required} value={value} onChange={(event) => put(event.target.value)}>
              <option value="">{t('choose')}</option>
              {options.map((one) => (
                <option key={one} value={one}>
                  {one}
                </option>
              ))}
            </Select>
          ) : type === 'number' || type === 'integer' ? (
            <Input
              {...ids}
              type="number"
              step={type === 'integer' ? 1 : 'any'}
              required={required}
              value={value}
              onChange={(event) => put(event.target.value)}
            />
          ) : (
            <Area
              {...ids}
              rows={type === 'json' ? 3 : 1}
              className={type === 'json' ? 'font-mono text-xs' : 'min-h-9'}
              spellCheck={type !== 'json'}
              required={required}
              value={value}
              onChange={(event) => put(event.target.value)}
              dir="auto"
            />
          )
        }
      </Field>
    );
  });
}
