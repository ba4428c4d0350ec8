import { useQuery } from '@tanstack/react-query';
import type { Body, Schemas } from '@everloop/sdk';
import { KeyRound, Pencil, Plus, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { dateTime, relative } from '../../lib/format';
import { t } from '../../lib/i18n';
import { api, useAction } from '../../lib/query';
import { Button, IconButton } from '../../ui/button';
import { FormDialog } from '../../ui/dialog';
import { Check, Field, Input, Select } from '../../ui/field';
import { Badge, Empty, Loaded } from '../../ui/page';
import { Row, Rows, Section } from '../../ui/rows';
import { SecretDialog } from '../../ui/secret';

type Key = Schemas['ApiKey'];
type Scope = NonNullable<Schemas['CreateApiKeyRequest']['scopes']>[number];

const scopes: Record<Scope, string> = {
  'sessions:read': t('read sessions'),
  'sessions:write': t('create, change and delete sessions'),
  chat: t('send messages and answers'),
  files: t('read and write files'),
  schedules: t('scheduled tasks'),
  triggers: t('triggers'),
  solutions: t('production solutions'),
  workspaces: t('workspaces and issues'),
  skills: t('read and install skills'),
  'skills:write': t('publish skills to the registry'),
  admin: t('administration, for administrators'),
};
const day = 86_400_000;
const lives = [['30', t('30 days')], ['90', t('90 days')], ['365', t('a year')], ['', 'never']] as const;
const refresh = [['api-keys']] as const;

/** expired says whether a key no longer opens anything. */
export const expired = (key: Pick<Key, 'expires_at'>, now = Date.now()): boolean =>
  key.expires_at !== null && Date.parse(key.expires_at) <= now;

export function Keys() {
  const keys = useQuery({ queryKey: ['api-keys'], queryFn: ({ signal }) => api().listApiKeys({ signal }) });
  const [asking, setAsking] = useState<{ what: 'create' } | { what: 'rename' | 'delete'; key: Key }>();
  const [secret, setSecret] = useState<string>();
  const close = () => setAsking(undefined);
  return (
    <Section
      title={t('API keys')}
      note={t('You and your programs can sign in with a key. The key is shown only once, when it is created.')}
      actions={
        <Button look="primary" onClick={() => setAsking({ what: 'create' })}>
          <Plus size={15} aria-hidden />
          {t('Create a key')}
        </Button>
      }
    >
      <Loaded
        query={keys}
        empty={
          <Empty icon={<KeyRound size={28} />} title={t('You have no API key')}>
            {t('Create one for a program that uses the service on your behalf.')}
          </Empty>
        }
      >
        {(list) => (
          <Rows label={t('API keys')}>
            {list.map((key) => (
              <Row
                key={key.id}
                title={key.name}
                badges={
                  <>
                    <code className="code text-soft">{key.masked}</code>
                    {expired(key) && <Badge tone="bad">{t('expired')}</Badge>}
                  </>
                }
                note={[
                  t('made {time}', { time: dateTime(key.created_at) }),
                  key.last_used_at ? t('used {time}', { time: relative(key.last_used_at) }) : t('never used'),
                  key.expires_at && t(expired(key) ? 'ended {time}' : 'ends {time}', { time: dateTime(key.expires_at) }),
                  key.scopes.length > 0 ? key.scopes.join(', ') : t('has all your rights'),
                ]
                  .filter(Boolean)
                  .join(' · ')}
                actions={
                  <>
                    <IconButton label={t('Rename {name}', { name: key.name })} onClick={() => setAsking({ what: 'rename', key })}>
                      <Pencil size={15} />
                    </IconButton>
                    <IconButton label={t('Delete {name}', { name: key.name })} onClick={() => setAsking({ what: 'delete', key })}>
                      <Trash2 size={15} />
                    </IconButton>
                  </>
                }
              />
            ))}
          </Rows>
        )}
      </Loaded>
      {asking?.what === 'create' && <Create done={close} made={setSecret} />}
      {asking?.what === 'rename' && <Rename item={asking.key} done={close} />}
      {asking?.what === 'delete' && <Delete item={asking.key} done={close} />}
      {secret !== undefined && <SecretDialog title={t('Your new API key')} secret={secret} close={() => setSecret(undefined)} />}
    </Section>
  );
}

function Create({ done, made }: { done: () => void; made: (secret: string) => void }) {
  const [name, setName] = useState('');
  const [life, setLife] = useState('90');
  const [all, setAll] = useState(true);
  const [chosen, setChosen] = useState<Scope[]>([]);
  const create = useAction((body: Body<'create-api-key'>) => api().createApiKey(body), { refresh });
  const submit = async () => {
    if (!all && chosen.length === 0) throw new Error(t('choose what the key may do'));
    const expires = life ? { expires_at: new Date(Date.now() + Number(life) * day).toISOString() } : {};
    const { plaintext } = await create.mutateAsync({ name: name.trim(), ...expires, ...(all ? {} : { scopes: chosen }) });
    made(plaintext);
  };
  return (
    <FormDialog open onOpenChange={done} title={t('Create an API key')} confirm={t('Create')} submit={submit}>
      <Field label={t('Name')} hint={t('What it is for')}>
        {(ids) => <Input {...ids} required maxLength={50} autoFocus value={name} onChange={(event) => setName(event.target.value)} />}
      </Field>
      <Field label={t('It ends after')}>
        {(ids) => (
          <Select {...ids} value={life} onChange={(event) => setLife(event.target.value)}>
            {lives.map(([value, text]) => (
              <option key={value} value={value}>
                {text}
              </option>
            ))}
          </Select>
        )}
      </Field>
      <fieldset className="space-y-1.5">
        <legend className="mb-1 text-sm font-medium">{t('It may')}</legend>
        <Check label={t('do all that you may')} checked={all} onChange={(event) => setAll(event.target.checked)} />
        {!all && (
          <div className="grid gap-1.5 border-l-2 pl-3 sm:grid-cols-2">
            {(Object.keys(scopes) as Scope[]).map((scope) => (
              <Check
                key={scope}
                label={scope}
                hint={scopes[scope]}
                checked={chosen.includes(scope)}
                onChange={(event) => setChosen(event.target.checked ? [...chosen, scope] : chosen.filter((one) => one !== scope))}
              />
            ))}
          </div>
        )}
        {!all && chosen.length === 0 && (
          <p className="text-xs text-soft" role="status">
            {t('Choose one or more.')}
          </p>
        )}
      </fieldset>
    </FormDialog>
  );
}

function Rename({ item, done }: { item: Key; done: () => void }) {
  const [name, setName] = useState(item.name);
  const rename = useAction(() => api().renameApiKey(item.id, { name: name.trim() }), { refresh });
  return (
    <FormDialog open onOpenChange={done} title={t('Rename the API key')} confirm={t('Rename')} submit={() => rename.mutateAsync()}>
      <Field label={t('Name')}>
        {(ids) => <Input {...ids} required maxLength={50} autoFocus value={name} onChange={(event) => setName(event.target.value)} />}
      </Field>
    </FormDialog>
  );
}

function Delete({ item, done }: { item: Key; done: () => void }) {
  const remove = useAction(() => api().deleteApiKey(item.id), { done: t('The key was deleted.'), refresh });
  return (
    <FormDialog
      open onOpenChange={done} danger title={t('Delete the API key?')} confirm={t('Delete')} submit={() => remove.mutateAsync()}
      description={<>{t('Programs that use “{name}” lose access immediately.', { name: item.name })}</>}
    />
  );
}
