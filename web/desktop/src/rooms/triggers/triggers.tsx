import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Plus, Zap } from 'lucide-react';
import { useState } from 'react';
import { relative } from '../../lib/format';
import { t } from '../../lib/i18n';
import { api, useAction } from '../../lib/query';
import { Button } from '../../ui/button';
import { Badge, Empty, Loaded, Page } from '../../ui/page';
import { Secret, TriggerForm } from './form';
import { sourceText, targetText, type Trigger } from './words';

export default function Triggers() {
  const triggers = useQuery({
    queryKey: ['triggers', 'list'],
    queryFn: ({ signal }) => api().listTriggers({ signal }),
    refetchInterval: 15_000,
  });
  const [making, setMaking] = useState(false);
  const [made, setMade] = useState<{ trigger: Trigger; secret: string }>();
  const button = <Button look="primary" onClick={() => setMaking(true)}><Plus size={15} aria-hidden />{t('New trigger')}</Button>;
  return (
    <Page title={t('Triggers')} actions={button}>
      <Loaded
        query={triggers}
        isEmpty={(data) => data.items.length === 0}
        empty={
          <Empty icon={<Zap size={28} />} title={t('There is no trigger')} action={button}>
            {t('A trigger starts work when something happens: a pull request on GitHub, a message in Slack, an alarm, or the end of a run.')}
          </Empty>
        }
      >
        {(data) => (
          <ul className="mx-auto max-w-4xl space-y-2">
            {data.items.map((trigger) => (
              <Row key={trigger.id} trigger={trigger} />
            ))}
          </ul>
        )}
      </Loaded>
      {making && <TriggerForm close={() => setMaking(false)} made={(trigger, secret) => setMade({ trigger, secret })} />}
      {made && <Secret {...made} close={() => setMade(undefined)} />}
    </Page>
  );
}

function Row({ trigger }: { trigger: Trigger }) {
  const enable = useAction((enabled: boolean) => api().updateTrigger(trigger.id, { enabled }), { refresh: [['triggers']] });
  return (
    <li className="flex items-center gap-3 rounded-lg border bg-raised px-3 py-2.5 hover:border-line-strong">
      <input
        type="checkbox"
        role="switch"
        aria-label={t('{name} is enabled', { name: trigger.name })}
        className="size-4 shrink-0 accent-(--accent)"
        checked={enable.isPending ? enable.variables : trigger.enabled}
        disabled={enable.isPending}
        onChange={(event) => enable.mutate(event.target.checked)}
      />
      <div className="min-w-0 flex-1">
        <div className="flex items-center gap-2">
          <Link
            to="/triggers/$triggerId"
            params={{ triggerId: trigger.id }}
            className="min-w-0 truncate font-medium hover:underline"
            dir="auto"
          >
            {trigger.name}
          </Link>
          {!trigger.enabled && <Badge tone="warn">{t('paused')}</Badge>}
        </div>
        <p className="text-sm text-soft sm:truncate">
          {sourceText(trigger)} → {targetText(trigger.target)}
        </p>
      </div>
      {trigger.last_delivery_at && (
        <span className="shrink-0 text-xs text-soft max-sm:hidden">
          {t('last event {time}', { time: relative(trigger.last_delivery_at) })}
        </span>
      )}
    </li>
  );
}
