import type { Schemas } from '@everloop/sdk';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Plus, Webhook as WebhookIcon } from 'lucide-react';
import { useState } from 'react';
import { relative } from '../../lib/format';
import { t } from '../../lib/i18n';
import { api, useAction } from '../../lib/query';
import { Button } from '../../ui/button';
import { Badge, Empty, Loaded, Page } from '../../ui/page';
import { eventsText } from './events';
import { Secret, WebhookForm } from './form';

export default function Webhooks() {
  const hooks = useQuery({
    queryKey: ['webhooks', 'list'],
    queryFn: ({ signal }) => api().listWebhooks({ signal }),
    refetchInterval: 15_000,
  });
  const [making, setMaking] = useState(false);
  const [secret, setSecret] = useState<string>();
  const button = <Button look="primary" onClick={() => setMaking(true)}><Plus size={15} aria-hidden />{t('New webhook')}</Button>;
  return (
    <Page title={t('Webhooks')} actions={button}>
      <Loaded
        query={hooks}
        isEmpty={(data) => data.items.length === 0}
        empty={
          <Empty icon={<WebhookIcon size={28} />} title={t('There is no webhook')} action={button}>
            {t(
              'A webhook sends events to your address: questions, and the end of chats, scheduled runs, DAG runs and issues.',
            )}
          </Empty>
        }
      >
        {(data) => (
          <ul className="mx-auto max-w-4xl space-y-2">
            {data.items.map((hook) => (
              <Row key={hook.id} hook={hook} />
            ))}
          </ul>
        )}
      </Loaded>
      {making && <WebhookForm close={() => setMaking(false)} made={setSecret} />}
      {secret !== undefined && <Secret secret={secret} close={() => setSecret(undefined)} />}
    </Page>
  );
}

function Row({ hook }: { hook: Schemas['Webhook'] }) {
  const enable = useAction((enabled: boolean) => api().updateWebhook(hook.id, { enabled }), { refresh: [['webhooks']] });
  const name = hook.description || hook.url;
  return (
    <li className="flex items-center gap-3 rounded-lg border bg-raised px-3 py-2.5 hover:border-line-strong">
      <input
        type="checkbox"
        role="switch"
        aria-label={t('{name} is enabled', { name })}
        className="size-4 shrink-0 accent-(--accent)"
        checked={enable.isPending ? enable.variables : hook.enabled}
        disabled={enable.isPending}
        onChange={(event) => enable.mutate(event.target.checked)}
      />
      <div className="min-w-0 flex-1">
        <div className="flex items-center gap-2">
          <Link
            to="/webhooks/$webhookId"
            params={{ webhookId: hook.id }}
            className="min-w-0 truncate font-medium hover:underline"
            dir="auto"
          >
            {name}
          </Link>
          {hook.disabled_reason ? (
            <Badge tone="bad">{t('disabled')}</Badge>
          ) : (
            hook.failing_since && <Badge tone="warn">{t('failing')}</Badge>
          )}
        </div>
        <p className="truncate text-sm text-soft">
          {hook.description ? `${hook.url} · ` : ''}
          {eventsText(hook.events)}
        </p>
      </div>
      {hook.last_delivery_at && (
        <span className="shrink-0 text-xs text-soft max-sm:hidden">{t('last sent {time}', { time: relative(hook.last_delivery_at) })}</span>
      )}
    </li>
  );
}
