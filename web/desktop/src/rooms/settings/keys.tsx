import { useQuery } from '@tanstack/react-query';
import type { Body, Schemas } from '@everloop/sdk';
import { KeyRound, Pencil, Plus, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { ago, dateTime } from '../../lib/format';
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
  'sessions:read': 'read sessions', 'sessions:write': 'make, change and delete sessions', chat: 'send messages and answers', files: 'read and write files',
  schedules: 'scheduled tasks', solutions: 'production solutions', workspaces: 'workspaces and issues', skills: 'read and install skills',
  'skills:write': 'publish skills to the registry', admin: 'administration, for administrators',
};
const day = 86_400_000;
const lives = [['30', '30 days'], ['90', '90 days'], ['365', 'a year'], ['', 'never']] as const;
const refresh = [['api-keys']] as const;

/** expired says whether a key no longer opens anything. */
export const expired = (key: Pick<Key, 'expires_at'>, now = Date.now()): boolean => key.expires_at !== null && Date.parse(key.expires_at) <= now;

export function Keys() {
  const keys = useQuery({ queryKey: ['api-keys'], queryFn: ({ signal }) => api().listApiKeys({ signal }) });
  const [asking, setAsking] = useState<{ what: 'create' } | { what: 'rename' | 'delete'; key: Key }>();
  const [secret, setSecret] = useState<string>();
  const close = () => setAsking(undefined);
  return (
    <Section
      title="API keys" note="Programs sign in with a key, and so can you. The key itself is shown once, when it is made."
      actions={<Button look="primary" onClick={() => setAsking({ what: 'create' })}><Plus size={15} aria-hidden />Create a key</Button>}
    >
      <Loaded query={keys} empty={<Empty icon={<KeyRound size={28} />} title="You have no API key">Make one for a program that uses the service as you.</Empty>}>
        {(list) => (
          <Rows label="API keys">
            {list.map((key) => (
              <Row
                key={key.id} title={key.name}
                badges={<><code className="code text-soft">{key.masked}</code>{expired(key) && <Badge tone="bad">expired</Badge>}</>}
                note={[
                  `made ${dateTime(key.created_at)}`, key.last_used_at ? `used ${ago(key.last_used_at) === 'now' ? 'just now' : `${ago(key.last_used_at)} ago`}` : 'never used',
                  key.expires_at && `${expired(key) ? 'ended' : 'ends'} ${dateTime(key.expires_at)}`, key.scopes.length > 0 ? key.scopes.join(', ') : 'may do all that you may',
                ].filter(Boolean).join(' · ')}
                actions={(
                  <>
                    <IconButton label={`Rename ${key.name}`} onClick={() => setAsking({ what: 'rename', key })}><Pencil size={15} /></IconButton>
                    <IconButton label={`Delete ${key.name}`} onClick={() => setAsking({ what: 'delete', key })}><Trash2 size={15} /></IconButton>
                  </>
                )}
              />
            ))}
          </Rows>
        )}
      </Loaded>
      {asking?.what === 'create' && <Create done={close} made={setSecret} />}
      {asking?.what === 'rename' && <Rename item={asking.key} done={close} />}
      {asking?.what === 'delete' && <Delete item={asking.key} done={close} />}
      {secret !== undefined && <SecretDialog title="Your new API key" secret={secret} close={() => setSecret(undefined)} />}
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
    if (!all && chosen.length === 0) throw new Error('choose what the key may do');
    const expires = life ? { expires_at: new Date(Date.now() + Number(life) * day).toISOString() } : {};
    const { plaintext } = await create.mutateAsync({ name: name.trim(), ...expires, ...(all ? {} : { scopes: chosen }) });
    made(plaintext);
  };
  return (
    <FormDialog open onOpenChange={done} title="Create an API key" confirm="Create" submit={submit}>
      <Field label="Name" hint="What it is for">{(ids) => <Input {...ids} required maxLength={50} autoFocus value={name} onChange={(event) => setName(event.target.value)} />}</Field>
      <Field label="It ends after">
        {(ids) => <Select {...ids} value={life} onChange={(event) => setLife(event.target.value)}>{lives.map(([value, text]) => <option key={value} value={value}>{text}</option>)}</Select>}
      </Field>
      <fieldset className="space-y-1.5">
        <legend className="mb-1 text-sm font-medium">It may</legend>
        <Check label="do all that you may" checked={all} onChange={(event) => setAll(event.target.checked)} />
        {!all && (
          <div className="grid gap-1.5 border-l-2 pl-3 sm:grid-cols-2">
            {(Object.keys(scopes) as Scope[]).map((scope) => (
              <Check
                key={scope} label={scope} hint={scopes[scope]} checked={chosen.includes(scope)}
                onChange={(event) => setChosen(event.target.checked ? [...chosen, scope] : chosen.filter((one) => one !== scope))}
              />
            ))}
          </div>
        )}
        {!all && chosen.length === 0 && <p className="text-xs text-soft" role="status">Choose one or more.</p>}
      </fieldset>
    </FormDialog>
  );
}

function Rename({ item, done }: { item: Key; done: () => void }) {
  const [name, setName] = useState(item.name);
  const rename = useAction(() => api().renameApiKey(item.id, { name: name.trim() }), { refresh });
  return (
    <FormDialog open onOpenChange={done} title="Rename the API key" confirm="Rename" submit={() => rename.mutateAsync()}>
      <Field label="Name">{(ids) => <Input {...ids} required maxLength={50} autoFocus value={name} onChange={(event) => setName(event.target.value)} />}</Field>
    </FormDialog>
  );
}

function Delete({ item, done }: { item: Key; done: () => void }) {
  const remove = useAction(() => api().deleteApiKey(item.id), { done: 'The key was deleted.', refresh });
  return (
    <FormDialog
      open onOpenChange={done} danger title="Delete the API key?" confirm="Delete" submit={() => remove.mutateAsync()}
      description={<>Programs that use “{item.name}” are refused from now on.</>}
    />
  );
}
