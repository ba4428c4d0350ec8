import { useState } from 'react';
import { t } from '../../lib/i18n';
import { Check, Field, Input } from '../../ui/field';
import { Badge, Empty, Loaded } from '../../ui/page';
import { Row, Rows, Section } from '../../ui/rows';
import { useConfiguration } from './overview';

export function Configuration() {
  const config = useConfiguration();
  const [text, setText] = useState('');
  const [changed, setChanged] = useState(false);
  const wanted = text.trim().toLowerCase();
  return (
    <>
      <div className="flex flex-wrap items-end gap-x-4 gap-y-2">
        <div className="w-72 max-w-full">
          <Field label={t('Find a setting')}>
            {(ids) => <Input {...ids} type="search" value={text} onChange={(event) => setText(event.target.value)} />}
          </Field>
        </div>
        <Check
          label={t('Only changed settings')}
          checked={changed}
          onChange={(event) => setChanged(event.target.checked)}
        />
      </div>
      <Loaded query={config}>
        {(groups) =>
          groups.map(({ group, items }) => {
            const shown = items.filter(
              (item) => (!changed || item.value !== item.default) && `${item.env_var} ${item.remark}`.toLowerCase().includes(wanted),
            );
            return (
              <Section key={group} title={group} note={t('Set by environment variables and flags at startup. Secrets are masked.')}>
                {shown.length === 0 ? (
                  <Empty title={t('No matching settings')} />
                ) : (
                  <Rows label={group}>
                    {shown.map((item) => (
                      <Row
                        key={item.env_var}
                        title={<span className="code">{item.env_var}</span>}
                        badges={item.value !== item.default && <Badge tone="accent">{t('set')}</Badge>}
                        note={
                          <>
                            <code className="code block break-all text-ink">{item.value || t('empty')}</code>
                            {item.remark}
                            {item.value !== item.default && item.default && ` ${t('Default: {value}.', { value: item.default })}`}
                          </>
                        }
                      />
                    ))}
                  </Rows>
                )}
              </Section>
            );
          })
        }
      </Loaded>
    </>
  );
}
