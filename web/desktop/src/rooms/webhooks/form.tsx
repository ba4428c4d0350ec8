import type { Body, Schemas } from '@everloop/sdk';
import { useState } from 'react';
import { t } from '../../lib/i18n';
import { api, useAction } from '../../lib/query';
import { CopyButton } from '../../ui/code';
import { Dialog, FormDialog } from '../../ui/dialog';
import { Check, Field, Input } from '../../ui/field';
import { eventGroups } from './events';

type Webhook = Schemas['Webhook'];
type Events = NonNullable<Body<'create-webhook'>['events']>;

/** WebhookForm creates a webhook, or changes one. `made` is given the secret, which is shown once. */
export function WebhookForm({ webhook, close, made }: { webhook?: Webhook; close: () => void; made?: (secret: string) => void }) {
  const [url, setUrl] = useState(webhook?.url ?? '');
  const [description, setDescription] = useState(webhook?.description ?? '');
  const [all, setAll] = useState(webhook ? webhook.events.includes('*') : true);
  const [events, setEvents] = useState<string[]>(webhook?.events.filter((one) => one !== '*') ?? []);
  const body = () => ({ url: url.trim(), description: description.trim(), events: (all ? ['*'] : events) as Events });
  const save = useAction(async () => {
    if (!webhook) return (await api().createWebhook(body())).secret;
    await api().updateWebhook(webhook.id, body());
    return undefined;
  }, { refresh: [['webhooks']] });
  const submit = async () => {
    const secret = await save.mutateAsync();
    close();
    if (secret !== undefined) made?.(secret);
  };
  const toggle = (name: string, on: boolean) => setEvents((was) => (on ? [...was, name] : was.filter((one) => one !== name)));
  return (
    <FormDialog
      open
      onOpenChange={close}
      title={webhook ? t('Webhook') : t('New webhook')}
      confirm={webhook ? t('Save') : t('Create')}
      submit={submit}
    >
      <Field label={t('Address')} hint={t('Events are sent to it by POST, signed with a secret.')}>
        {(ids) => (
          <Input
            {...ids}
            type="url"
            placeholder="https://hooks.example.org/everloop"
            value={url}
            onChange={(event) => setUrl(event.target.value)}
            required
            autoFocus
          />
        )}
      </Field>
      <Field label={t('Description')}>
        {(ids) => (
          <Input {...ids} value={description} onChange={(event) => setDescription(event.target.value)} maxLength={500} dir="auto" />
        )}
      </Field>
      <Check label={t('All events')} checked={all} onChange={(event) => setAll(event.target.checked)} />
      {!all && (
        <div className="grid gap-3 sm:grid-cols-2">
          {eventGroups.map((group) => (
            <fieldset key={group.title} className="space-y-1">
              <legend className="text-sm font-medium">{group.title}</legend>
              {group.events.map((name) => (
                <Check key={name} label={name} checked={events.includes(name)} onChange={(event) => toggle(name, event.target.checked)} />
              ))}
            </fieldset>
          ))}
        </div>
      )}
    </FormDialog>
  );
}

/** Secret shows the secret of a webhook, which cannot be read again. */
export function Secret({ secret, close }: { secret: string; close: () => void }) {
  return (
    <Dialog
      open
      onOpenChange={close}
      title={t('The secret of the webhook')}
      description={t('Requests are signed with it. It is shown only now.')}
    >
      <div className="flex items-center gap-2 rounded-md border bg-panel px-3 py-2">
        <code className="min-w-0 flex-1 text-sm break-all">{secret}</code>
        <CopyButton text={secret} label={t('Copy the secret')} />
      </div>
    </Dialog>
  );
}
